package depot

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"sync"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
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
	DB *postgres.DB
	// Registry is the way to the registry, which lets in nobody else.
	Registry http.RoundTripper
	// Folder is on the file system of the registry, if that is on this machine: pushes are
	// refused before it is full.
	Folder  string
	Places  Places
	Tasks   Tasks
	Tenants Tenants
	Logger  *slog.Logger
}

// Service lets people and nodes in. Any number of calls may run side by side.
type Service struct {
	cfg   Config
	proxy *httputil.ReverseProxy
	life  context.Context //nolint:containedctx // of all transfers
	close context.CancelFunc

	mu    sync.Mutex
	named map[string]naming // by repository and digest of a manifest
	kept  int               // how many digests they hold together
	under map[string]int    // transfers under way, by who asked for them
}

// New makes the service. It connects to nothing.
func New(cfg Config) *Service {
	s := &Service{cfg: cfg, named: map[string]naming{}, under: map[string]int{}}
	s.life, s.close = context.WithCancel(context.Background())
	s.proxy = s.newProxy()
	return s
}

// Close ends all transfers: whoever waits for one goes on elsewhere, from where it was.
func (s *Service) Close() { s.close() }

// enter counts a transfer of somebody, who may have so many at a time.
func (s *Service) enter(who string, most int) (leave func(), _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.under[who] >= most {
		return nil, fault.New(fault.RateLimited, "registry_transfers_exceeded", "%d transfers of yours are under way", most).
			WithRemedy("wait for one of them to end")
	}
	s.under[who]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.under[who]--; s.under[who] == 0 {
			delete(s.under, who)
		}
	}, nil
}

// target is what a permission is asked on. The platform's is nobody's.
func target(of artifact.Owner) auth.Target { return auth.Target{Org: of.Org, Project: of.Project} }
