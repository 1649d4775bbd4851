package agentrelease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentpackage"
	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/blob"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/agentrelease/internal/agentreleasedb"
)

func from(r agentreleasedb.AgentRelease) Release {
	out := Release{
		Signed: agentpackage.Signed{
			Statement: agentpackage.Statement{
				Version: r.Version, Commit: r.Commit, Architecture: r.Architecture, Digest: r.Digest, Size: r.Size, Notes: r.Notes,
				MinimumControlPlane: r.MinimumControlPlane, ProtocolMin: r.ProtocolMin, ProtocolMax: r.ProtocolMax,
			},
			KeyID: r.KeyID, Signature: r.Signature,
		},
		AddedBy: r.AddedBy, CreatedAt: r.CreatedAt, WithdrawnAt: r.WithdrawnAt, WithdrawnBy: r.WithdrawnBy,
		WithdrawnBecause: r.WithdrawnBecause,
	}
	if err := json.Unmarshal(r.Programs, &out.Programs); err != nil {
		out.Programs = nil // nothing is known of its programs, and nothing is claimed
	}
	return out
}

func wantedFrom(r agentreleasedb.AgentChannel) Wanted {
	return Wanted{
		Channel: Channel(r.Channel), Version: text(r.Version), Previous: text(r.Previous), Reason: r.Reason,
		ChangedBy: r.ChangedBy, ChangedAt: r.ChangedAt,
	}
}

func blockFrom(r agentreleasedb.AgentBlockedVersion) Block {
	return Block{Version: r.Version, Reason: r.Reason, BlockedBy: r.BlockedBy, BlockedAt: r.BlockedAt}
}

func floorFrom(r agentreleasedb.AgentFloor) Floor {
	return Floor{Version: r.Version, Reason: r.Reason, ChangedBy: r.ChangedBy, ChangedAt: r.ChangedAt}
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// position is where the next page begins.
type position struct {
	At      time.Time `json:"at"`
	Version string    `json:"version"`
}

// List lists releases, the newest first.
func (s *Service) List(ctx context.Context, page postgres.Slice[position]) ([]Release, error) {
	return s.list(ctx, "", page)
}

func (s *Service) list(ctx context.Context, version string, page postgres.Slice[position]) ([]Release, error) {
	before := page.After.At
	if before.IsZero() {
		before = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	rows, err := agentreleasedb.New(s.db).ListReleases(ctx, agentreleasedb.ListReleasesParams{
		Version: version, Before: before, BeforeVersion: page.After.Version, PageSize: page.Limit,
	})
	if err != nil {
		return nil, fmt.Errorf("list releases: %w", err)
	}
	out := make([]Release, len(rows))
	for i, r := range rows {
		out[i] = from(r.AgentRelease)
		out[i].BlockedBecause, out[i].Channels, out[i].Nodes = r.BlockedBecause, r.Channels, r.Nodes
	}
	return out, nil
}

// Get reads one release.
func (s *Service) Get(ctx context.Context, version string) (Release, error) {
	if err := checkVersion(version); err != nil {
		return Release{}, err
	}
	found, err := s.list(ctx, version, postgres.Slice[position]{Limit: 1})
	if err == nil && len(found) == 0 {
		err = missing(version)
	}
	if err != nil {
		return Release{}, err
	}
	return found[0], nil
}

// Channels lists what the channels want.
func (s *Service) Channels(ctx context.Context) ([]Wanted, error) {
	rows, err := agentreleasedb.New(s.db).Channels(ctx)
	if err != nil {
		return nil, fmt.Errorf("list channels: %w", err)
	}
	out := make([]Wanted, len(rows))
	for i, r := range rows {
		out[i] = wantedFrom(r)
	}
	return out, nil
}

// Refused lists the versions that no node is given, and the floor.
func (s *Service) Refused(ctx context.Context) ([]Block, Floor, error) {
	q := agentreleasedb.New(s.db)
	rows, err := q.ListBlocked(ctx)
	if err != nil {
		return nil, Floor{}, fmt.Errorf("list blocked versions: %w", err)
	}
	f, err := q.Floor(ctx)
	if err != nil {
		return nil, Floor{}, fmt.Errorf("read floor: %w", err)
	}
	out := make([]Block, len(rows))
	for i, r := range rows {
		out[i] = blockFrom(r)
	}
	return out, floorFrom(f), nil
}

// Digest returns the digest of the archive of a release that a node may be given, and
// an empty one for a version that was never released. It refuses a version that no node
// may be given.
func (s *Service) Digest(ctx context.Context, version string) (string, error) {
	q := agentreleasedb.New(s.db)
	row, err := q.Release(ctx, version)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", allowed(ctx, q, version)
	}
	if err != nil {
		return "", fmt.Errorf("read release: %w", err)
	}
	return row.Digest, s.giveable(ctx, q, from(row))
}

// Archive reads the archive of a release.
func (s *Service) Archive(ctx context.Context, digest string) ([]byte, error) {
	return blob.Store{DB: s.db}.Read(ctx, digest)
}

// Programs returns the digests of the programs of a release by their names, or nil for
// a version that was never released.
func (s *Service) Programs(ctx context.Context, version string) (map[string]string, error) {
	row, err := agentreleasedb.New(s.db).Release(ctx, version)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read release: %w", err)
	}
	return from(row).Programs, nil
}

// note is what the audit log and the events tell of a change.
type note struct {
	action, version, reason string
	channel                 Channel
	change                  string
	more                    map[string]any
}

func record(ctx context.Context, tx pgx.Tx, n note) error {
	metadata := map[string]any{}
	if n.channel != "" {
		metadata["channel"] = string(n.channel)
	}
	for k, v := range n.more {
		metadata[k] = v
	}
	target := n.version
	if target == "" {
		target = "none"
	}
	if err := audit.Record(ctx, tx, audit.Entry{
		Action: n.action, TargetKind: "agent_release", TargetID: target, Result: audit.Success, Reason: n.reason,
		Metadata: metadata,
	}); err != nil {
		return err
	}
	return outbox.Append(ctx, tx, outbox.Event{
		Type: eventwire.AgentReleaseChanged, AggregateKind: "agent_release", AggregateID: target,
		Payload: eventwire.AgentRelease{Version: n.version, Change: n.change, Channel: string(n.channel)},
	})
}
