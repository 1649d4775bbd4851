package bringup

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/adapter/maas/pglimit"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
)

// Regions opens MAAS regions; site.MAAS implements it.
type Regions interface {
	Client(a site.Access) (*maas.Client, error)
}

// Secrets keeps rendered first boots, and the keys to machines that have no agent
// yet.
type Secrets interface {
	Put(ctx context.Context, path string, values map[string]redact.Secret) error
	Get(ctx context.Context, path string) (map[string]redact.Secret, error)
	Delete(ctx context.Context, path string) error
}

// Bootstrap renders what makes a machine a node; agentgateway.Renderer
// implements it.
type Bootstrap interface {
	CloudInit(ctx context.Context, token redact.Secret) (redact.Secret, error)
}

// BMC makes a server boot from the network without the help of MAAS.
type BMC interface {
	PXECycle(ctx context.Context, address, user string, pass redact.Secret) error
}

// Dialer reaches deployed machines.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// Tasks gives tasks to nodes that have an agent; agenttask.Commands implements
// it.
type Tasks interface {
	Enqueue(ctx context.Context, tx pgx.Tx, r agenttask.Request) (agenttask.Task, error)
	Task(ctx context.Context, task id.NodeTask) (agenttask.Task, error)
}

// Claims reads which machines running jobs have claimed.
type Claims interface {
	// ClaimedMachines returns the jobs by the system ids of their machines,
	// without one given job.
	ClaimedMachines(ctx context.Context, at id.Site, except string) (map[string]string, error)
}

// Config is what the package needs to work.
type Config struct {
	DB        *postgres.DB
	Sites     *site.Service
	Regions   Regions
	Secrets   Secrets
	Nodes     *node.Service
	Bootstrap Bootstrap
	BMC       BMC
	Tasks     Tasks
	Claims    Claims             // nil: no other job claims any
	Dialer    Dialer             // nil: the network as it is
	Watch     maas.WatcherConfig // zero: the usual paces
	// Retry is how long to leave a machine alone that could not be reached, by
	// the number of attempts so far. If nil, from 2 s up to 30 s.
	Retry func(attempts int) time.Duration
	// PowerOffWithin is how long a machine may take to be seen off. If zero, 3
	// min.
	PowerOffWithin time.Duration
	// StaysOff is how long a machine stays off in a power cycle that clears the
	// memory of its GPUs. If zero, 30 s.
	StaysOff time.Duration
	Clock    func() time.Time // nil: the clock of the machine
	Logger   *slog.Logger     // nil: nothing is logged
}

// Bringup runs stages. It is safe for concurrent use.
type Bringup struct {
	cfg Config
	now func() time.Time

	mu      sync.Mutex
	regions map[id.Site]*region
}

// New makes a Bringup. It connects to nothing.
func New(cfg Config) *Bringup {
	b := &Bringup{cfg: cfg, now: cfg.Clock, regions: map[id.Site]*region{}}
	if b.now == nil {
		b.now = time.Now
	}
	if b.cfg.Retry == nil {
		b.cfg.Retry = func(attempts int) time.Duration { return min(2*time.Second<<min(attempts-1, 5), 30*time.Second) }
	}
	if b.cfg.PowerOffWithin == 0 {
		b.cfg.PowerOffWithin = mostForPowerOff
	}
	if b.cfg.StaysOff == 0 {
		b.cfg.StaysOff = usuallyStaysOff
	}
	if b.cfg.Logger == nil {
		b.cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if b.cfg.Dialer == nil {
		b.cfg.Dialer = &net.Dialer{}
	}
	return b
}

// region is the MAAS of a site, with one watcher for all who wait there.
type region struct {
	*maas.Client
	watcher *maas.Watcher
	key     [32]byte // of what it was opened with
	checked time.Time

	// Settings that all machines of the site use.
	user    recall[maas.User]
	images  recall[[]maas.Image]
	dns     recall[string]
	racks   recall[[]maas.RackController]
	scripts recall[[]maas.NodeScript]
	bmcs    recall[map[string]string] // their addresses, by system id
	subnets recall[[]maas.Subnet]
	syncPin recall[string] // digest of the program that reports hardware
	// boots lets only one job at a time, over all replicas, watch for the
	// server that it booted: two servers that appear at once could not be told
	// apart.
	boots *pglimit.Limiter
}

func (r *region) close() {
	r.watcher.Close()
	r.boots.Close()
	r.Close()
}

// freshFor is how long credentials are not read again: long enough for the
// stages of one machine in a row, short enough for a rotation at any time.
const freshFor = 5 * time.Second

// region opens the MAAS of the work's site. If the token or the address changed, it
// opens a new client; whoever waits on the old one is woken and waits on the new one.
func (b *Bringup) region(ctx context.Context, w *Work) (*region, error) {
	b.mu.Lock()
	have := b.regions[w.Site.ID]
	fresh := have != nil && b.now().Sub(have.checked) < freshFor
	b.mu.Unlock()
	if fresh {
		return have, nil
	}
	access, err := b.cfg.Sites.Access(ctx, w.Site.ID)
	if err != nil {
		return nil, err
	}
	key := sha256.Sum256([]byte(access.URL + "\x00" + access.Token.Reveal() + "\x00" + string(access.CA)))
	b.mu.Lock()
	defer b.mu.Unlock()
	have = b.regions[w.Site.ID]
	if have != nil && have.key == key {
		have.checked = b.now()
		return have, nil
	}
	client, err := b.cfg.Regions.Client(access)
	if err != nil {
		return nil, err
	}
	if have != nil {
		have.close()
	}
	opened := &region{
		Client: client, watcher: maas.NewWatcher(client, b.cfg.Watch), key: key, checked: b.now(),
		boots: pglimit.New(b.cfg.DB, "network-boots:"+w.Site.ID.String(), 1),
	}
	b.regions[w.Site.ID] = opened
	return opened, nil
}

// doubting wraps a stage. If MAAS refuses its token, the next stage reads the token
// again at once, because an operator may have replaced it.
func (b *Bringup) doubting(stage Stage) Stage {
	return func(ctx context.Context, w *Work) (Result, error) {
		result, err := stage(ctx, w)
		if fault.CodeOf(err) == maas.CodeTokenInvalid {
			b.mu.Lock()
			defer b.mu.Unlock()
			if have := b.regions[w.Site.ID]; have != nil {
				have.checked = time.Time{}
			}
		}
		return result, err
	}
}

// Close ends all waits.
func (b *Bringup) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.regions {
		r.close()
	}
	b.regions = map[id.Site]*region{}
}

// Absent is the observed status of a machine that MAAS does not have.
const Absent = "absent"

// see records how MAAS showed the machine.
func (b *Bringup) see(w *Work, m maas.Machine) {
	w.Observed = Observed{Status: m.Status.Label(), Power: string(m.PowerState), IPs: m.IPAddresses, At: b.now()}
}

// look reads a machine. It reports the machine as absent only if MAAS itself says so
// twice. Any other 404 comes from something in front of MAAS, such as a proxy.
func look(ctx context.Context, r *region, systemID string) (maas.Machine, error) {
	m, first := r.Machine(ctx, systemID)
	if fault.CodeOf(first) != maas.CodeNotFound {
		return m, first
	}
	m, err := r.Machine(ctx, systemID)
	if fault.CodeOf(err) == maas.CodeNotFound && (!maas.SaysAbsent(first) || !maas.SaysAbsent(err)) {
		return m, fault.Wrap(err, fault.Unavailable, maas.CodeUnreachable,
			"something in front of MAAS does not find machine %s", systemID).
			WithRemedy("check what stands between here and MAAS, and the site's URL")
	}
	return m, err
}

// machine reads the machine of the work again. The job stops if the machine is
// gone or is no longer the one that the job works on.
func (b *Bringup) machine(ctx context.Context, r *region, w *Work) (maas.Machine, error) {
	m, err := look(ctx, r, w.SystemID)
	if maas.SaysAbsent(err) {
		w.Observed = Observed{Status: Absent, At: b.now()}
		return m, machineGone(w, err)
	}
	if err != nil {
		return m, err
	}
	b.see(w, m)
	return m, nil
}

// annotation is the key under which a machine that we hold in MAAS names the
// job that holds it. MAAS drops it when a release ends.
const annotation = "gpuaas-job"

// ours says whether a machine that somebody holds in MAAS is held by this job.
func ours(m maas.Machine, w *Work) bool { return m.Annotations[annotation] == w.Job }
