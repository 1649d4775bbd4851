package site

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/adapter/maas/pglimit"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/postgres"
)

// anonymous stands for the token of a site that has none. MAAS tells its
// version to everybody, so reachability can be told without one.
var anonymous = redact.New("none:none:none")

// MAAS opens regions over the network.
type MAAS struct {
	// DB keeps the limit of a site over all replicas. Nil: over this process.
	DB *postgres.DB
	// Loopback says which regions may be on this very machine. Nil: none.
	Loopback func(netip.AddrPort) bool

	mu      sync.Mutex
	limiter map[id.Site]maas.Limiter
}

// Open prepares the calls of a probe: short, and not repeated, because a caller
// waits.
func (m *MAAS) Open(a Access) (Region, error) {
	client, err := m.client(a, func(cfg *maas.Config) {
		cfg.ReadTimeout, cfg.ListTimeout, cfg.Retries = 8*time.Second, 8*time.Second, -1
		cfg.MaxAnswer = 16 << 20
	})
	if err != nil {
		return nil, err
	}
	return region{client}, nil
}

// Client is a client for work on the site.
func (m *MAAS) Client(a Access) (*maas.Client, error) { return m.client(a, func(*maas.Config) {}) }

func (m *MAAS) client(a Access, adjust func(*maas.Config)) (*maas.Client, error) {
	cfg := maas.Config{
		URL: a.URL, Token: a.Token, CA: a.CA, AllowedNetworks: a.AllowedNetworks, Loopback: m.Loopback,
		Limiter: m.limit(a.Site.ID),
	}
	if cfg.Token.IsZero() {
		cfg.Token = anonymous
	}
	adjust(&cfg)
	return maas.New(cfg)
}

func (m *MAAS) limit(site id.Site) maas.Limiter {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.limiter == nil {
		m.limiter = map[id.Site]maas.Limiter{}
	}
	switch {
	case m.limiter[site] != nil:
	case m.DB == nil:
		m.limiter[site] = maas.NewLimiter(maas.PerSite)
	default:
		m.limiter[site] = pglimit.New(m.DB, site.String(), maas.PerSite)
	}
	return m.limiter[site]
}

// Close lets go of what the limits hold.
func (m *MAAS) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.limiter {
		if shared, ok := l.(*pglimit.Limiter); ok {
			shared.Close()
		}
	}
}

// region answers the questions of a probe by the client.
type region struct{ *maas.Client }

func (r region) Version(ctx context.Context) (string, error) {
	v, err := r.Client.Version(ctx)
	return v.Version, err
}

func (r region) User(ctx context.Context) (RegionUser, error) {
	u, err := r.WhoAmI(ctx)
	return RegionUser{Name: u.Username, Admin: u.Admin}, err
}

func (r region) Racks(ctx context.Context) ([]Rack, error) {
	found, err := r.RackControllers(ctx)
	return RacksOf(found), err
}

// RacksOf are rack controllers as far as a site asks about them.
func RacksOf(found []maas.RackController) []Rack {
	racks := make([]Rack, len(found))
	for i, c := range found {
		racks[i] = Rack{Name: c.Hostname, Rackd: c.Service("rackd").Status, Healthy: c.Healthy()}
		for _, n := range c.Interfaces {
			if n.VLAN != nil {
				racks[i].Interfaces = append(racks[i].Interfaces, RackInterface{
					Name: maas.Shown(n.Name), VID: n.VLAN.VID, DHCP: n.VLAN.DHCPOn, Secondary: n.VLAN.SecondaryRack != "",
				})
			}
		}
	}
	return racks
}

func (r region) Scripts(ctx context.Context) ([]Script, error) {
	found, err := r.Client.Scripts(ctx)
	return ScriptsOf(found), err
}

// ScriptsOf are scripts of MAAS as far as a site asks about them.
func ScriptsOf(found []maas.NodeScript) []Script {
	out := make([]Script, len(found))
	for i, s := range found {
		out[i] = Script{Name: s.Name, Versions: s.Versions()}
	}
	return out
}

// namedAtOnce keeps a listing within the time of a request: MAAS takes up to a
// tenth of a second for each machine of it.
const namedAtOnce = 25

func (r region) Machines(ctx context.Context, hostnames []string) ([]RegionMachine, error) {
	var out []RegionMachine
	for some := range slices.Chunk(hostnames, namedAtOnce) {
		found, err := r.Client.Machines(ctx, maas.Filter{Hostnames: some})
		if err != nil {
			return nil, err
		}
		for _, m := range found {
			taken := m.Status == maas.StatusAllocated || m.Status == maas.StatusDeploying || m.Status == maas.StatusDeployed
			out = append(out, RegionMachine{
				SystemID: m.SystemID, Hostname: m.Hostname, Status: m.Status.Label(), Taken: taken,
			})
		}
	}
	return out, nil
}

func (r region) Lacks(ctx context.Context, images []Image) ([]Image, error) {
	all, err := r.Images(ctx)
	if err != nil {
		return nil, err
	}
	var lacking []Image
	for _, wanted := range images {
		arch, _, _ := strings.Cut(wanted.Architecture, "/")
		var fitting []maas.Image
		for _, image := range all {
			if has, _, _ := strings.Cut(image.Architecture, "/"); has == arch {
				fitting = append(fitting, image)
			}
		}
		if !maas.HasImage(fitting, wanted.Name) {
			lacking = append(lacking, wanted)
		}
	}
	return lacking, nil
}
