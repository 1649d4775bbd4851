package site

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/site/internal/sitedb"
)

// SecretStore keeps secrets by path.
type SecretStore interface {
	Put(ctx context.Context, path string, values map[string]redact.Secret) error
	Get(ctx context.Context, path string) (map[string]redact.Secret, error)
	Delete(ctx context.Context, path string) error
}

// Access is all that is needed to call a region.
type Access struct {
	Site            Site
	Token           redact.Secret // zero: only what needs none can be asked
	URL             string
	CA              []byte
	AllowedNetworks []netip.Prefix
}

// Regions opens regions.
type Regions interface {
	Open(a Access) (Region, error)
}

// Config is what the package needs to work.
type Config struct {
	DB      *postgres.DB
	Secrets SecretStore
	Regions Regions
	Clock   func() time.Time // nil: the clock of the machine
	// FingerprintRounds is for tests, which have no secret that is worth the time.
	FingerprintRounds int
}

// Service holds the commands and queries of the package. It is safe for
// concurrent use, and any number of replicas may run side by side.
type Service struct {
	db      *postgres.DB
	reads   *sitedb.Queries
	secrets SecretStore
	regions Regions
	now     func() time.Time
	rounds  int // of fingerprints
}

// New makes the service. It connects to nothing.
func New(cfg Config) *Service {
	s := &Service{
		db: cfg.DB, reads: sitedb.New(cfg.DB), secrets: cfg.Secrets, regions: cfg.Regions, now: cfg.Clock,
		rounds: cmp.Or(cfg.FingerprintRounds, fingerprintRounds),
	}
	if s.now == nil {
		s.now = time.Now
	}
	return s
}

// command is the body of one change.
type command func(ctx context.Context, c change) error

// change is the transaction of a command.
type change struct {
	tx pgx.Tx
	*sitedb.Queries
}

// inChange runs a command: what it changes, its audit entry and its events
// become true together or not at all.
func (s *Service) inChange(ctx context.Context, fn command) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return fn(ctx, change{tx: tx, Queries: sitedb.New(tx)})
	})
}

// part names the parts of a site that events tell apart.
type part string

const (
	partSite     part = "site"
	partProfile  part = "profile"
	partOverride part = "power_override"
	partRoCE     part = "roce_assignments"
	partBundle   part = "bundle"
)

// record writes what was done and tells the outside of it. The events of all
// parts belong to the site, so that they keep their order.
func (c change) record(ctx context.Context, t eventwire.Type, site Site, changed part, entry audit.Entry) error {
	return c.recordWith(ctx, entry, outbox.Event{
		Type: t, AggregateKind: "site", AggregateID: site.ID.String(),
		Payload: eventwire.Site{
			SiteID: site.ID.String(), Name: site.Name, RegionCode: site.Settings.RegionCode, Status: string(site.Status),
			Changed: string(changed), Version: site.Version,
		},
	})
}

func (c change) recordWith(ctx context.Context, entry audit.Entry, event outbox.Event) error {
	entry.Result = audit.Success
	if err := audit.Record(ctx, c.tx, entry); err != nil {
		return err
	}
	return outbox.Append(ctx, c.tx, event)
}

func siteEntry(action string, s Site, more map[string]any) audit.Entry {
	metadata := map[string]any{"name": s.Name, "version": s.Version}
	for k, v := range more {
		metadata[k] = v
	}
	return audit.Entry{Action: action, TargetKind: "site", TargetID: s.ID.String(), Metadata: metadata}
}

// orNotFound gives a missing row the meaning it has to a caller.
func orNotFound(what string, err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return notFound(what)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", what, err)
	}
	return nil
}
