package artifact

import (
	"context"
	"sync"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/postgres"
)

// Registry reads from registries that tenants name; registry.Client does. Whatever is
// asked for by digest is compared with it.
type Registry interface {
	Manifest(ctx context.Context, repository, digest string) (mediaType string, body []byte, err error)
	Tagged(ctx context.Context, repository, tag string) (mediaType string, body []byte, err error)
	Blob(ctx context.Context, repository, digest string, most int64) ([]byte, error)
	// Referrers lists the digests of what refers to a manifest and may be of a type.
	Referrers(ctx context.Context, repository, digest, artifactType string) ([]string, error)
	// Token gets a token that reads one repository until it expires, or none where nobody
	// needs one.
	Token(ctx context.Context, repository, digest string) (token redact.Secret, expires time.Time, err error)
}

// Login is what a registry lets somebody in with. Its zero value is nobody's.
type Login struct {
	User     string
	Password redact.Secret
}

// Objects make addresses that read one file for a short time.
type Objects interface {
	// Sign makes one of a store that speaks the protocol of S3.
	Sign(ctx context.Context, address, region string, key Login, now time.Time, life time.Duration) (redact.Secret, error)
	// Resolve asks a hub for one, and refuses a file with another digest.
	Resolve(ctx context.Context, address, digest string, token redact.Secret) (redact.Secret, error)
}

// Secrets keep the secrets of sources.
type Secrets interface {
	Put(ctx context.Context, path string, values map[string]redact.Secret) error
	Get(ctx context.Context, path string) (map[string]redact.Secret, error)
	Delete(ctx context.Context, path string) error
}

// Config is what a service needs.
type Config struct {
	DB         *postgres.DB
	Registries func(Login) Registry
	Objects    Objects
	Secrets    Secrets
	Clock      func() time.Time // nil: time.Now
}

// Service holds the commands and queries of the package. Any number of replicas may
// run side by side.
type Service struct {
	db         *postgres.DB
	registries func(Login) Registry
	objects    Objects
	secrets    Secrets
	clock      func() time.Time
	readers    *readers
}

// New makes the service. It connects to nothing.
func New(cfg Config) *Service {
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	return &Service{cfg.DB, cfg.Registries, cfg.Objects, cfg.Secrets, cfg.Clock, &readers{of: map[id.Org]int{}}}
}

// How many reads of registries go on at a time. Each may take half a minute and some
// memory, and whoever asks may run the registry.
const (
	readsOfOne = 2 // of a tenant, or of the platform
	readsOfAll = 10
)

// readers counts who reads from registries. Any number of calls may run side by side.
type readers struct {
	mu  sync.Mutex
	all int
	of  map[id.Org]int
}

// enter lets somebody read until they say that they are done, or refuses it.
func (r *readers) enter(org id.Org) (done func(), _ error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of[org] >= readsOfOne || r.all >= readsOfAll {
		return nil, fault.New(fault.RateLimited, "artifact_registry_busy", "registries are being asked about too many "+
			"artifacts at once").WithRemedy("try again when the others are done; half a minute at most")
	}
	r.of[org]++
	r.all++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.all--
		if r.of[org]--; r.of[org] == 0 {
			delete(r.of, org)
		}
	}, nil
}
