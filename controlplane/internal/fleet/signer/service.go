package signer

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/signer/internal/signerdb"
)

const defaultGrace = 24 * time.Hour

// Config is what the package needs to work.
type Config struct {
	DB         *postgres.DB
	Keys       Keys
	Fleet      Fleet
	Distribute Distribute
	Grace      time.Duration    // how long a superseded signer stays acceptable; zero: a day
	Clock      func() time.Time // nil: the clock of this machine
	// Listening says why nodes that know only this bundle could not verify the
	// listener of this process. It is nil if the process has no listener.
	Listening func(bundle string) error
	Logger    *slog.Logger // nil: the default
}

// Service holds the commands and queries of the package. It is safe for
// concurrent use, and any number of replicas may run side by side.
type Service struct {
	db         *postgres.DB
	reads      *signerdb.Queries
	keys       Keys
	fleet      Fleet
	distribute Distribute
	grace      time.Duration
	now        func() time.Time
	listening  func(bundle string) error
	logger     *slog.Logger
	vouched    vouchers
}

// New makes the service. It connects to nothing.
func New(cfg Config) *Service {
	s := &Service{
		db: cfg.DB, reads: signerdb.New(cfg.DB), keys: cfg.Keys, fleet: cfg.Fleet, distribute: cfg.Distribute,
		grace: cfg.Grace, now: cfg.Clock, listening: cfg.Listening, logger: cfg.Logger,
	}
	if s.logger == nil {
		s.logger = slog.Default()
	}
	if s.grace == 0 {
		s.grace = defaultGrace
	}
	if s.now == nil {
		s.now = time.Now
	}
	return s
}

// system makes the signer itself the actor, for steps that nobody asked for.
func system(ctx context.Context) context.Context { return auth.With(ctx, auth.System("signer")) }

// newKey is a key in the secrets engine that has no row yet. A key that never
// gets a row is harmless, because nothing is signed with it.
type newKey struct {
	id, name string
	public   []byte
}

// KeyPrefix begins the names of all keys that sign for nodes.
const KeyPrefix = "task-signer-"

func (s *Service) makeKey(ctx context.Context) (newKey, error) {
	var random [3]byte
	_, _ = rand.Read(random[:]) // it never fails
	k := newKey{id: s.now().UTC().Format("20060102-150405-") + hex.EncodeToString(random[:])}
	k.name = KeyPrefix + k.id
	var err error
	if k.public, err = s.keys.CreateSigningKey(ctx, k.name); err != nil {
		return newKey{}, fmt.Errorf("make key of signer %s: %w", k.id, err)
	}
	return k, nil
}

type change struct {
	*signerdb.Queries
	tx       pgx.Tx
	at       time.Time
	graceFor time.Duration
	now      trio
	verifier int64    // version of the new set; zero: nodes accept the same keys as before
	touched  []Signer // signers as they are after the change
	entries  []audit.Entry
}

// inChange runs a command under the one lock that all changes of signers take.
// Its changes, audit entries, events and the new set of verifiers for the nodes
// commit together or not at all.
func (s *Service) inChange(ctx context.Context, fn func(ctx context.Context, c *change) error) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		c := &change{Queries: signerdb.New(tx), tx: tx, at: s.now(), graceFor: s.grace}
		if err := c.Lock(ctx); err != nil {
			return fmt.Errorf("lock signers: %w", err)
		}
		var err error
		if c.now, err = current(ctx, c.Queries); err != nil {
			return err
		}
		if err := fn(ctx, c); err != nil || len(c.touched) == 0 {
			return err
		}
		return s.conclude(ctx, c)
	})
}

func (s *Service) conclude(ctx context.Context, c *change) error {
	set, err := verifiers(ctx, c.Queries)
	if err != nil {
		return err
	}
	if c.verifier != 0 {
		if err := s.distribute(ctx, c.tx, set, fmt.Sprintf("verifier-set-%d", set.Version)); err != nil {
			return fmt.Errorf("distribute verifier set %d: %w", set.Version, err)
		}
	}
	for _, e := range c.entries {
		if err := audit.Record(ctx, c.tx, e); err != nil {
			return err
		}
	}
	events := make([]outbox.Event, len(c.touched))
	for i, t := range c.touched {
		events[i] = outbox.Event{
			Type: eventwire.SignerChanged, AggregateKind: "signer", AggregateID: t.ID,
			Payload: eventwire.Signer{SignerVersionID: t.ID, Status: string(t.Status), VerifierVersion: set.Version},
		}
	}
	return outbox.Append(ctx, c.tx, events...)
}

// note adds an audit entry to the change.
func (c *change) note(action string, s Signer, reason string, metadata map[string]any) {
	c.entries = append(c.entries, audit.Entry{
		Action: "signer." + action, TargetKind: "signer", TargetID: s.ID, Result: audit.Success, Reason: reason,
		Metadata: metadata,
	})
}

// acceptOtherwise makes a new set of verifiers, because nodes shall accept
// other keys than before.
func (c *change) acceptOtherwise(ctx context.Context) error {
	if c.verifier != 0 {
		return nil
	}
	var err error
	if c.verifier, err = c.RaiseVerifierVersion(ctx); err != nil {
		return fmt.Errorf("raise version of verifier set: %w", err)
	}
	return nil
}
