package artifact

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/operate/artifact/internal/artifactdb"
	"gpuaas/controlplane/internal/operate/policy"
)

// Register makes an artifact known. One of a registry is read there first, and a
// signature of it is looked for; nothing is kept of one that cannot be read.
func (s *Service) Register(ctx context.Context, by Owner, w Wish) (Artifact, error) {
	if err := w.check(); err != nil {
		return Artifact{}, err
	}
	if err := s.mayComeFrom(ctx, by, w.Source, 0); err != nil {
		return Artifact{}, err
	}
	seen := look{size: w.Size, platforms: []Platform{}, mediaType: "application/octet-stream", layers: 1}
	verdict := Verdict{Signature: Unsigned, Reason: "a file has no signature; its digest decides what arrives"}
	if w.Kind == OCI {
		var err error
		if seen, verdict, err = s.read(ctx, by, w.Source); err != nil {
			return Artifact{}, err
		}
	}
	if err := s.mayComeFrom(ctx, by, w.Source, seen.size); err != nil {
		return Artifact{}, err
	}
	var made Artifact
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		made, err = insert(ctx, tx, by, w, seen, verdict)
		return err
	})
	return made, err
}

// read asks the registry of an artifact about its manifest and its signatures.
func (s *Service) read(ctx context.Context, by Owner, source string) (look, Verdict, error) {
	done, err := s.readers.enter(by.Org)
	if err != nil {
		return look{}, Verdict{}, err
	}
	defer done()
	repository, digest, _ := parts(source)
	of := subject{repository, digest}
	login, err := s.loginFor(ctx, by, repository)
	if err != nil {
		return look{}, Verdict{}, err
	}
	e := examiner{s.registries(login)}
	seen, err := e.inspect(ctx, of)
	if err != nil {
		return look{}, Verdict{}, err
	}
	keys, err := s.trusted(ctx, by.Org)
	if err != nil {
		return look{}, Verdict{}, err
	}
	verdict, err := e.verify(ctx, of, keys)
	return seen, verdict, err
}

// mayComeFrom asks the policies about all operations whether an owner may have an
// artifact of so many bytes from there. The platform settles itself what it allows; a
// tenant needs a policy that says so.
func (s *Service) mayComeFrom(ctx context.Context, by Owner, source string, bytes int64) error {
	if err := atHome(ctx, s.db, by, source); err != nil {
		return err
	}
	e, err := policy.Get(ctx, s.db, policy.Owner(by), policy.AllTypes)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(source, "https://") { // as the step that fetches it names it
		source = "https://" + source
	}
	if e.ArtifactSources == nil && !by.Org.IsZero() {
		return denied("no policy for all operations says where it may come from")
	}
	for _, d := range e.Denials(policy.Request{
		Artifacts: []policy.Artifact{{Source: source, Bytes: bytes}},
	}) {
		if d.Key == policy.ArtifactSources || d.Key == policy.MaxArtifactSize {
			return denied(d.Message)
		}
	}
	return nil
}

func denied(why string) error {
	return fault.New(fault.Forbidden, "artifact_denied_by_policy", "the policy does not allow it: %s", why).
		WithRemedy("see which level decided what: gpuaas operation policy explain '*' --global; administrators of the " +
			"platform can allow it: gpuaas operation policy set '*' --global --artifact-sources HOST/PATH")
}

func insert(ctx context.Context, tx pgx.Tx, by Owner, w Wish, seen look, v Verdict) (Artifact, error) {
	q := artifactdb.New(tx)
	if err := q.LockOwner(ctx, by.String()); err != nil {
		return Artifact{}, fmt.Errorf("lock artifacts: %w", err)
	}
	n, err := q.Count(ctx, artifactdb.CountParams{OrgID: by.Org, ProjectID: by.Project})
	if err != nil {
		return Artifact{}, fmt.Errorf("count artifacts: %w", err)
	}
	if n.Used >= maxArtifacts {
		return Artifact{}, fault.New(fault.Conflict, "artifacts_too_many", "there are %d artifacts already, which is the "+
			"most", n.Used).WithRemedy("retire those that nobody uses: gpuaas artifact retire ARTIFACT")
	}
	if n.Kept >= maxKept {
		return Artifact{}, fault.New(fault.Conflict, "artifacts_too_many", "%d artifacts were registered here, with those "+
			"that were retired and revoked, which is the most", n.Kept).
			WithRemedy("register it in another project, or for the tenant")
	}
	if w.Labels == nil {
		w.Labels = map[string]string{}
	}
	platforms, err := json.Marshal(seen.platforms)
	if err != nil {
		return Artifact{}, fmt.Errorf("encode platforms: %w", err)
	}
	labels, err := json.Marshal(w.Labels)
	if err != nil {
		return Artifact{}, fmt.Errorf("encode labels: %w", err)
	}
	row, err := q.Insert(ctx, artifactdb.InsertParams{
		ID: id.New[id.Artifact](), OrgID: by.Org, ProjectID: by.Project, Name: w.Name, Kind: string(w.Kind), Source: w.Source,
		Digest: w.Digest, Size: seen.size, MediaType: seen.mediaType, ArtifactType: seen.artifactType, Layers: seen.layers,
		Platforms: platforms, Labels: labels, Signature: string(v.Signature), SignatureFormat: string(v.Format),
		SignatureReason: v.Reason, KeyID: v.Key, CreatedBy: auth.From(ctx).ID,
	})
	if postgres.Violates(err, "artifacts_once") {
		return Artifact{}, fault.New(fault.Conflict, "artifact_exists", "%s is registered already", w.Source).
			WithRemedy("see it: gpuaas artifact list; look for its signature again: gpuaas artifact verify ARTIFACT")
	}
	made, err := read(row, err)
	if err != nil {
		return Artifact{}, err
	}
	return made, record(ctx, tx, "artifact.register", "registered", made)
}

// Verify looks for a signature again: keys may have come or gone since.
func (s *Service) Verify(ctx context.Context, by Owner, of id.Artifact) (Artifact, error) {
	before, err := s.Get(ctx, by, of)
	if err != nil {
		return Artifact{}, err
	}
	if before.Owner != by {
		return Artifact{}, others(before)
	}
	if before.Kind != OCI {
		return Artifact{}, fault.New(fault.Conflict, "artifact_not_signable", "a file has no signature").
			WithRemedy("push it to a registry as an artifact, sign that and register it")
	}
	if err := open(before); err != nil {
		return Artifact{}, err
	}
	if err := s.mayComeFrom(ctx, by, before.Source, before.Size); err != nil {
		return Artifact{}, err
	}
	_, verdict, err := s.read(ctx, by, before.Source)
	if err != nil {
		return Artifact{}, err
	}
	if verdict.partial && before.Verdict.Signature == Verified { // whoever adds many must not unsign it
		verdict = before.Verdict
	}
	return s.change(ctx, by, of, func(ctx context.Context, tx pgx.Tx, now Artifact) (Artifact, error) {
		if err := open(now); err != nil {
			return now, err
		}
		if now.Version != before.Version {
			return now, fault.New(fault.Conflict, "artifact_changed", "the artifact was changed while its registry was asked").
				WithRemedy("see what it is now: gpuaas artifact show ARTIFACT; and verify it again if need be")
		}
		after, err := read(artifactdb.New(tx).NoteCheck(ctx, artifactdb.NoteCheckParams{
			ID: of, Signature: string(verdict.Signature), SignatureFormat: string(verdict.Format),
			SignatureReason: verdict.Reason, KeyID: verdict.Key, UpdatedBy: auth.From(ctx).ID,
		}))
		if err != nil {
			return after, err
		}
		return after, record(ctx, tx, "artifact.verify", "verified", after)
	})
}

// open refuses to verify what nobody fetches any more: it is kept as it was.
func open(a Artifact) error {
	if a.Status == Active || a.Status == Deprecated {
		return nil
	}
	return fault.New(fault.Conflict, "artifact_ended", "the artifact is %s, so its signature is not looked for", a.Status).
		WithRemedy("see which there are: gpuaas artifact list")
}

// others refuses to change what belongs to a wider level.
func others(a Artifact) error {
	return fault.New(fault.Conflict, "artifact_of_other_level", "the artifact is the %s's, who alone changes it",
		a.Owner.Scope()).WithRemedy("ask its administrators; or register it for yourself")
}

// Move takes an artifact to another state.
func (s *Service) Move(ctx context.Context, by Owner, of id.Artifact, event Event, reason string) (Artifact, error) {
	before, err := s.Get(ctx, by, of)
	if err != nil {
		return Artifact{}, err
	}
	if before.Owner != by {
		return Artifact{}, others(before)
	}
	return s.change(ctx, by, of, func(ctx context.Context, tx pgx.Tx, a Artifact) (Artifact, error) {
		to, err := Lifecycle.Next(a.Status, event)
		if err != nil {
			return a, err
		}
		after, err := read(artifactdb.New(tx).Move(ctx, artifactdb.MoveParams{
			ID: of, Status: string(to), StatusReason: reason, UpdatedBy: auth.From(ctx).ID,
		}))
		if postgres.Violates(err, "artifacts_once") { // it was retired, and registered anew
			return after, fault.New(fault.Conflict, "artifact_exists", "%s is registered again as another artifact", a.Source).
				WithRemedy("revoke that one, which is of the same digest: gpuaas artifact list")
		}
		if err != nil {
			return after, err
		}
		return after, record(ctx, tx, "artifact."+string(event), string(to), after)
	})
}

// lockStanding waits for the transactions that were told what stands, and lets no other
// ask until this one has ended.
func lockStanding(ctx context.Context, tx pgx.Tx, org id.Org) error {
	if err := artifactdb.New(tx).LockStandingToChange(ctx, org.String()); err != nil {
		return fmt.Errorf("lock standing of artifacts: %w", err)
	}
	return nil
}

// change locks an artifact of an owner and changes it.
func (s *Service) change(ctx context.Context, by Owner, of id.Artifact,
	do func(context.Context, pgx.Tx, Artifact) (Artifact, error),
) (after Artifact, _ error) {
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := lockStanding(ctx, tx, by.Org); err != nil {
			return err
		}
		before, err := read(artifactdb.New(tx).Lock(ctx, artifactdb.LockParams{
			ID: of, OrgID: by.Org, ProjectID: by.Project,
		}))
		if err != nil {
			return err
		}
		after, err = do(ctx, tx, before)
		return err
	})
	return after, err
}

// record writes a change into the audit log and tells others.
func record(ctx context.Context, tx pgx.Tx, action, change string, a Artifact) error {
	if err := audit.Record(ctx, tx, audit.Entry{
		Action: action, TargetKind: "artifact", TargetID: a.ID.String(), Org: a.Owner.Org, Project: a.Owner.Project,
		Result: audit.Success, Reason: a.StatusReason,
		Metadata: map[string]any{
			"name": a.Name, "source": a.Source, "digest": a.Digest, "status": a.Status, "signature": a.Verdict.Signature,
			"signature_format": a.Verdict.Format, "key_id": a.Verdict.Key, "version": a.Version,
		},
	}); err != nil {
		return err
	}
	return outbox.Append(ctx, tx, outbox.Event{
		Type: eventwire.ArtifactChanged, AggregateKind: "artifact", AggregateID: a.ID.String(), Org: a.Owner.Org,
		Project: a.Owner.Project,
		Payload: eventwire.Artifact{
			ArtifactID: a.ID.String(), Name: a.Name, Digest: a.Digest, Status: string(a.Status),
			Signature: string(a.Verdict.Signature), Change: change,
		},
	})
}
