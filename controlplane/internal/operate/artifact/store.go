package artifact

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/operate/artifact/internal/artifactdb"
	"gpuaas/controlplane/internal/operate/policy"
)

func from(r artifactdb.Artifact) (Artifact, error) {
	a := Artifact{
		ID: r.ID, Owner: Owner{r.OrgID, r.ProjectID}, Name: r.Name, Kind: Kind(r.Kind), Source: r.Source, Digest: r.Digest,
		Size: r.Size, MediaType: r.MediaType, ArtifactType: r.ArtifactType, Layers: r.Layers, CheckedAt: r.CheckedAt,
		Verdict: Verdict{
			Signature: Signature(r.Signature), Format: Format(r.SignatureFormat), Reason: r.SignatureReason, Key: r.KeyID,
		},
		Status: Status(r.Status), StatusReason: r.StatusReason, Version: r.Version, CreatedAt: r.CreatedAt,
		CreatedBy: r.CreatedBy, UpdatedAt: r.UpdatedAt, UpdatedBy: r.UpdatedBy,
	}
	if err := errors.Join(json.Unmarshal(r.Platforms, &a.Platforms), json.Unmarshal(r.Labels, &a.Labels)); err != nil {
		return a, fmt.Errorf("read artifact %s: %w", r.ID, err)
	}
	return a, nil
}

func keyFrom(r artifactdb.ArtifactKey) Key {
	return Key{
		ID: r.ID, Org: r.OrgID, Name: r.Name, PEM: r.Pem, Fingerprint: r.Fingerprint, Algorithm: r.Algorithm,
		Repositories: r.Repositories, NotBefore: r.NotBefore, NotAfter: r.NotAfter, CreatedAt: r.CreatedAt,
		CreatedBy: r.CreatedBy, WithdrawnAt: r.WithdrawnAt, WithdrawnBy: r.WithdrawnBy, Because: r.WithdrawnBecause,
	}
}

// read answers a row that was looked for.
func read(row artifactdb.Artifact, err error) (Artifact, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return Artifact{}, missing()
	}
	if err != nil {
		return Artifact{}, fmt.Errorf("read artifact: %w", err)
	}
	return from(row)
}

// Get reads an artifact that an owner may see.
func (s *Service) Get(ctx context.Context, by Owner, of id.Artifact) (Artifact, error) {
	a, err := read(artifactdb.New(s.db).Get(ctx, artifactdb.GetParams{ID: of, OrgID: by.Org, ProjectID: by.Project}))
	if err != nil {
		return a, err
	}
	one := []Artifact{a}
	err = s.asOfNow(ctx, one)
	return one[0], err
}

// asOfNow shows verdicts whose keys have ended as what they are worth now.
func (s *Service) asOfNow(ctx context.Context, found []Artifact) error {
	var keys []string
	for _, a := range found {
		if a.Verdict.Signature == Verified {
			keys = append(keys, a.Verdict.Key.String())
		}
	}
	if len(keys) == 0 {
		return nil
	}
	rows, err := artifactdb.New(s.db).KeysOf(ctx, keys)
	if err != nil {
		return fmt.Errorf("read keys of artifacts: %w", err)
	}
	now, ended := time.Now(), map[id.ArtifactKey]string{}
	for _, r := range rows {
		ended[r.ID] = keyFrom(r).ended(now)
	}
	for i, a := range found {
		if why := ended[a.Verdict.Key]; a.Verdict.Signature == Verified && why != "" {
			found[i].Verdict.Signature, found[i].Verdict.Reason = Refused, why
		}
	}
	return nil
}

// Filter narrows a list.
type Filter struct {
	Name   string
	Status Status
}

// List lists what an owner may see: its own, its tenant's and the platform's artifacts.
func (s *Service) List(ctx context.Context, by Owner, f Filter, page postgres.Slice[id.Artifact]) ([]Artifact, error) {
	rows, err := artifactdb.New(s.db).List(ctx, artifactdb.ListParams{
		OrgID: by.Org, ProjectID: by.Project, Name: f.Name, Status: string(f.Status), After: page.After.String(),
		PageSize: page.Limit,
	})
	if err != nil {
		return nil, fmt.Errorf("list artifacts: %w", err)
	}
	out := make([]Artifact, len(rows))
	for i, r := range rows {
		if out[i], err = from(r); err != nil {
			return nil, err
		}
	}
	return out, s.asOfNow(ctx, out)
}

// ListKeys lists the keys of the platform or of a tenant.
func (s *Service) ListKeys(ctx context.Context, org id.Org, page postgres.Slice[id.ArtifactKey]) ([]Key, error) {
	rows, err := artifactdb.New(s.db).ListKeys(ctx, artifactdb.ListKeysParams{
		OrgID: org, After: page.After.String(), PageSize: page.Limit,
	})
	if err != nil {
		return nil, fmt.Errorf("list keys of artifacts: %w", err)
	}
	out := make([]Key, len(rows))
	for i, r := range rows {
		out[i] = keyFrom(r)
	}
	return out, nil
}

// trusted are the keys that count for an owner now.
func (s *Service) trusted(ctx context.Context, org id.Org) ([]Key, error) {
	rows, err := artifactdb.New(s.db).TrustedKeys(ctx, org)
	if err != nil {
		return nil, fmt.Errorf("read trusted keys: %w", err)
	}
	out := make([]Key, len(rows))
	for i, r := range rows {
		out[i] = keyFrom(r)
	}
	return out, nil
}

// ownerOf is the project with its tenant; the guard of the API has found it to exist.
func (s *Service) ownerOf(ctx context.Context, project id.Project) (Owner, error) {
	org, err := artifactdb.New(s.db).OrgOfProject(ctx, project)
	if err != nil {
		return Owner{}, fmt.Errorf("read tenant of project: %w", err)
	}
	return Owner{Org: org, Project: project}, nil
}

// tenant refuses a tenant that does not exist.
func (s *Service) tenant(ctx context.Context, org id.Org) (Owner, error) {
	there, err := artifactdb.New(s.db).TenantExists(ctx, org)
	if err != nil {
		return Owner{}, fmt.Errorf("read tenant: %w", err)
	}
	if !there {
		return Owner{}, fault.New(fault.NotFound, "not_found", "there is no such tenant").
			WithRemedy("see which there are: gpuaas tenant list")
	}
	return Owner{Org: org}, nil
}

// Signed says of everything that is fetched at which level the key is whose signature
// counts for the repository that it comes from; empty: none does. It refuses what was
// revoked. Until the transaction ends nobody takes back what it was told.
func (s *Service) Signed(ctx context.Context, tx pgx.Tx, by policy.Owner, what []agentwire.Fetch) (
	[]policy.Scope, error,
) {
	q := artifactdb.New(tx)
	digests := make([]string, len(what))
	for i, f := range what {
		digests[i] = f.Digest
	}
	for _, org := range slices.Compact([]id.Org{{}, by.Org}) { // in this order, so that nobody waits in a circle
		if err := q.LockStanding(ctx, org.String()); err != nil {
			return nil, fmt.Errorf("lock standing of artifacts: %w", err)
		}
	}
	for _, f := range what {
		if err := atHome(ctx, tx, Owner(by), f.Source); err != nil {
			return nil, err
		}
	}
	revoked, err := q.RevokedAmong(ctx, artifactdb.RevokedAmongParams{
		Digests: digests, OrgID: by.Org, ProjectID: by.Project,
	})
	if err != nil {
		return nil, fmt.Errorf("read revoked artifacts: %w", err)
	}
	for _, r := range revoked {
		return nil, fault.New(fault.Forbidden, "artifact_revoked", "the artifact %s was revoked, or an index that names it, "+
			"or a manifest that it names: %s", r.Digest, r.Because).
			WithRemedy("fetch another version of it; see which there are: gpuaas artifact list")
	}
	rows, err := q.Standing(ctx, artifactdb.StandingParams{Digests: digests, OrgID: by.Org, ProjectID: by.Project})
	if err != nil {
		return nil, fmt.Errorf("read artifacts: %w", err)
	}
	out := make([]policy.Scope, len(what))
	for i, f := range what {
		for _, r := range rows {
			if at := (Owner{Org: r.OrgID}); counts(r, f) && out[i] != policy.Global {
				out[i] = policy.Scope(at.Scope())
			}
		}
	}
	return out, nil
}

// counts says whether a signature is one of what is fetched, from where it is fetched. A
// bundle does not say of which repository it is, so its key must be one for that
// repository; the older form names one, and counts for no other.
func counts(r artifactdb.StandingRow, f agentwire.Fetch) bool {
	_, rest, ok := strings.Cut(f.Source, "://")
	repository, digest, named := parts(rest)
	if !ok || !named || digest != f.Digest || r.Digest != f.Digest {
		return false
	}
	if of, _, _ := parts(r.Source); Format(r.SignatureFormat) != Bundle && of != repository {
		return false
	}
	return Key{Repositories: r.Repositories}.maySign(repository)
}
