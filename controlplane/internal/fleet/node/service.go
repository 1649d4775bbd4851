package node

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/node/internal/nodedb"
)

// PKI revokes certificates.
type PKI interface {
	RevokeCertificate(ctx context.Context, serial string) error
}

// BootstrapRenderer writes the bootstrap that makes a machine a node.
type BootstrapRenderer interface {
	// Command returns a line for the shell of the machine.
	Command(token redact.Secret) (redact.Secret, error)
	// CloudInit returns user data for its first boot.
	CloudInit(ctx context.Context, token redact.Secret) (redact.Secret, error)
	// CAFingerprint returns the SHA-256 of the CA that the command pins.
	CAFingerprint() string
}

// Settings are what operators may tune. Zero values mean the defaults.
type Settings struct {
	OfflineAfter time.Duration // silence that makes a node offline; 5 min
	FlushEvery   time.Duration // how often contacts are written; 5 s
	BootstrapTTL time.Duration // life of a token; 15 min
}

// Config is what the package needs to work.
type Config struct {
	DB        *postgres.DB
	PKI       PKI
	Settings  Settings
	Bootstrap BootstrapRenderer
	// Listening reports whether agents that call here can be answered. If it is
	// nil, they always can. While a listener cannot answer, the silence of
	// agents does not count.
	Listening func() bool
	// OnRevoked ends, in the transaction of the revocation, what a node holds
	// by its identity. It may be nil.
	OnRevoked func(ctx context.Context, tx pgx.Tx, node id.Node) error
	// OnDoubt is called, in the transaction of the change that shows it, with
	// the reason why a node may no longer be the machine it was. It may be nil.
	OnDoubt func(ctx context.Context, tx pgx.Tx, node id.Node, reason string) error
	// OnHostKeys is called, in the transaction that records it, when a node shows
	// other host keys than people were told. It may be nil.
	OnHostKeys func(ctx context.Context, tx pgx.Tx, node id.Node, keys HostKeys) error
	// OnReport is called after what an agent says of itself was stored, whether
	// it was new or not. It may be nil.
	OnReport func(ctx context.Context, node id.Node, generation int64, c agentwire.Capabilities) error
	Clock    func() time.Time // nil: the clock of this machine
	Logger   *slog.Logger     // nil: nothing is logged
}

// Service holds the commands and queries of the package. It is safe for
// concurrent use, and any number of replicas may run side by side.
type Service struct {
	db         *postgres.DB
	reads      *nodedb.Queries
	pki        PKI
	settings   Settings
	bootstrap  BootstrapRenderer
	listening  func() bool
	onRevoked  func(ctx context.Context, tx pgx.Tx, node id.Node) error
	onDoubt    func(ctx context.Context, tx pgx.Tx, node id.Node, reason string) error
	onHostKeys func(ctx context.Context, tx pgx.Tx, node id.Node, keys HostKeys) error
	onReport   func(ctx context.Context, node id.Node, generation int64, c agentwire.Capabilities) error
	now        func() time.Time
	logger     *slog.Logger
	contacts   *Contacts
}

// New makes the service. It connects to nothing.
func New(cfg Config) *Service {
	s := &Service{
		db: cfg.DB, reads: nodedb.New(cfg.DB), pki: cfg.PKI, settings: cfg.Settings.withDefaults(), bootstrap: cfg.Bootstrap,
		listening: cfg.Listening, onRevoked: cfg.OnRevoked, onDoubt: cfg.OnDoubt,
		onHostKeys: cfg.OnHostKeys, onReport: cfg.OnReport, now: cfg.Clock, logger: cfg.Logger,
	}
	if s.listening == nil {
		s.listening = func() bool { return true }
	}
	if s.onRevoked == nil {
		s.onRevoked = func(context.Context, pgx.Tx, id.Node) error { return nil }
	}
	if s.onDoubt == nil {
		s.onDoubt = func(context.Context, pgx.Tx, id.Node, string) error { return nil }
	}
	if s.onHostKeys == nil {
		s.onHostKeys = func(context.Context, pgx.Tx, id.Node, HostKeys) error { return nil }
	}
	if s.onReport == nil {
		s.onReport = func(context.Context, id.Node, int64, agentwire.Capabilities) error { return nil }
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	s.contacts = newContacts(s)
	return s
}

func (s Settings) withDefaults() Settings {
	set := func(d *time.Duration, standard time.Duration) {
		if *d <= 0 {
			*d = standard
		}
	}
	set(&s.OfflineAfter, 5*time.Minute)
	set(&s.FlushEvery, 5*time.Second)
	set(&s.BootstrapTTL, BootstrapTTL)
	return s
}

// gap is the longest pause that still counts as uninterrupted contact: longer
// than a poll is held, and at most the silence that makes a node offline.
func (s Settings) gap() time.Duration { return min(s.OfflineAfter, 90*time.Second) }

// deaf is how long after the last flush of any process silence stops counting.
func (s Settings) deaf() time.Duration { return 6 * s.FlushEvery }

// settled is after how long every call of an agent has been written.
func (s Settings) settled() time.Duration { return 2 * s.FlushEvery }
