package depot

import (
	"context"
	"log/slog"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/operate/artifact"
)

// Places says whose a repository is; artifact.Service does.
type Places interface {
	// Place answers a fault of the kind NotFound where there is no such tenant or project.
	Place(ctx context.Context, repository string) (artifact.Owner, error)
}

// Tasks says what a node works on; agenttask.Queue does.
type Tasks interface {
	WorksOn(ctx context.Context, n id.Node, taskType string) ([]agenttask.Task, error)
}

// Tenants says whether a tenant may make something new; identity.Service does.
type Tenants interface {
	TenantEnabled(ctx context.Context, org id.Org) error
}

// Config is what the package needs.
type Config struct {
	DB       *postgres.DB
	Upstream Upstream
	Places   Places
	Tasks    Tasks
	Tenants  Tenants
	Logger   *slog.Logger
}

// Upstream is the registry behind it.
type Upstream struct {
	URL          *url.URL
	User         string
	PasswordFile string
	// Folder is on the file system of the registry, if that is on this machine: pushes are
	// refused before it is full.
	Folder string
}

// Service lets people and nodes in. Any number of calls may run side by side.
type Service struct {
	cfg   Config
	proxy *httputil.ReverseProxy
	mu    sync.Mutex
	named map[string]naming // by repository and digest of a manifest
}

// New makes the service. It connects to nothing.
func New(cfg Config) *Service {
	s := &Service{cfg: cfg, named: map[string]naming{}}
	s.proxy = s.newProxy()
	return s
}

// password reads what the registry lets the control plane in with.
func (u Upstream) password() (redact.Secret, error) {
	raw, err := os.ReadFile(u.PasswordFile)
	if err != nil {
		return redact.Secret{}, fault.Wrap(err, fault.Unavailable, "registry_unavailable",
			"the password of the registry cannot be read").WithRemedy("check registry.password_file")
	}
	return redact.New(trimmed(raw)), nil
}

// target is what a permission is asked on. The platform's is nobody's.
func target(of artifact.Owner) auth.Target { return auth.Target{Org: of.Org, Project: of.Project} }
