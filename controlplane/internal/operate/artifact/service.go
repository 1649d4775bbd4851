package artifact

import (
	"context"
	"sync"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
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
}

// Service holds the commands and queries of the package. Any number of replicas may
// run side by side.
type Service struct {
	db       *postgres.DB
	registry Registry
	readers  *readers
}

// New makes the service. It connects to nothing.
func New(db *postgres.DB, registry Registry) *Service {
	return &Service{db, registry, &readers{of: map[id.Org]int{}}}
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
