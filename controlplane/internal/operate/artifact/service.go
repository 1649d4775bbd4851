package artifact

import (
	"context"

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
}

// New makes the service. It connects to nothing.
func New(db *postgres.DB, registry Registry) *Service { return &Service{db: db, registry: registry} }
