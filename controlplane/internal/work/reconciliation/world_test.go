package reconciliation_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/reconciliation"
)

var errAway = errors.New("MAAS does not answer")

// unreachable is what the client says of a MAAS that hangs.
var unreachable = fault.New(fault.Unavailable, "maas_unreachable", "MAAS does not answer in time")

// plainMAAS is a MAAS in memory that can be wrong in every way a real one can.
type plainMAAS struct {
	machines    map[string]*reconciliation.Machine
	events      []string // system ids, in the order of what happened to them
	now         func() time.Time
	switchedOff []string
	releases    []string
	program     string // digest of the program that reports hardware; empty: it is not handed out
	foundBy     string // by what a server is found again; empty: its name
	asked       func() // when a machine is asked for by itself; nil: nobody is told
	sought      func() // when a server is looked for under another id; likewise

	// What goes wrong.
	away                                                    bool // nothing is answered
	noEvents, noExceptions, noReads, noDirect               bool // that question fails
	noFind                                                  bool
	noSwitchedOff                                           bool            // likewise
	emptyExceptions, emptyReads                             bool            // that answer is empty
	hidden                                                  map[string]bool // missing in answers by id
	askedExceptions, askedReads, askedMachines, askedDirect int
}

func (m *plainMAAS) Open(context.Context, id.Site) (reconciliation.Region, error) {
	if m.away {
		return nil, errAway
	}
	return m, nil
}

func (m *plainMAAS) Exceptions(_ context.Context, each func(reconciliation.Machine)) (int, error) {
	m.askedExceptions++
	return m.listed(m.noExceptions, each, func(
		x *reconciliation.Machine,
	) bool {
		return x.State != reconciliation.Installed
	})
}

func (m *plainMAAS) SwitchedOff(_ context.Context, each func(reconciliation.Machine)) (int, error) {
	return m.listed(m.noSwitchedOff, each, func(
		x *reconciliation.Machine,
	) bool {
		return x.State == reconciliation.Installed && x.Power == "off"
	})
}

// listed hands machines out; of an answer that fails, a part came.
func (m *plainMAAS) listed(fails bool, each func(reconciliation.Machine), wanted func(*reconciliation.Machine) bool) (
	n int, err error,
) {
	if m.emptyExceptions {
		return 0, nil
	}
	for _, key := range slices.Sorted(maps.Keys(m.machines)) {
		if x := m.machines[key]; wanted(x) {
			n++
			each(*x)
			if fails {
				return n, errAway
			}
		}
	}
	if fails {
		return n, errAway
	}
	return n, nil
}

func (m *plainMAAS) Changed(_ context.Context, after int64) (reconciliation.Changes, error) {
	if m.noEvents {
		return reconciliation.Changes{}, errAway
	}
	if after == 0 || after > int64(len(m.events)) {
		return reconciliation.Changes{Cursor: int64(len(m.events)), Lost: true}, nil
	}
	return reconciliation.Changes{
		Machines: slices.Clone(m.events[after:]), Cursor: int64(len(m.events)),
		Events: len(m.events) - int(after),
	}, nil
}

func (m *plainMAAS) Read(_ context.Context, ids []string) ([]reconciliation.Machine, error) {
	m.askedReads++
	m.askedMachines += len(ids)
	if m.noReads {
		return nil, errAway
	}
	var out []reconciliation.Machine
	for _, i := range ids {
		if x := m.machines[i]; x != nil && !m.hidden[i] && !m.emptyReads {
			out = append(out, *x)
		}
	}
	return out, nil
}

func (m *plainMAAS) Direct(_ context.Context, i string) (reconciliation.Machine, bool, error) {
	m.askedDirect++
	if m.asked != nil {
		m.asked()
	}
	if m.noDirect {
		return reconciliation.Machine{}, false, errAway
	}
	if x := m.machines[i]; x != nil {
		return *x, true, nil
	}
	return reconciliation.Machine{}, false, nil
}

func (m *plainMAAS) Find(_ context.Context, hostname string, _ []string, _ string) (
	*reconciliation.Machine, string, error,
) {
	if m.sought != nil {
		m.sought()
	}
	if m.noDirect || m.noFind {
		return nil, "", errAway
	}
	for _, x := range m.machines {
		if x.Hostname == hostname {
			found := *x
			return &found, cmp.Or(m.foundBy, "hostname"), nil
		}
	}
	return nil, "", nil
}

func (m *plainMAAS) SwitchOff(_ context.Context, i, _ string) error {
	m.switchedOff = append(m.switchedOff, i)
	m.machines[i].Power = "off"
	return nil
}

func (m *plainMAAS) Release(_ context.Context, i, _, _ string) error {
	m.releases = append(m.releases, i)
	m.set(i, "Ready", reconciliation.Free)
	return nil
}

func (m *plainMAAS) RunScriptsSHA256(context.Context) (string, error) {
	if m.program == "" {
		return "", errAway
	}
	return m.program, nil
}

func (m *plainMAAS) Now() time.Time { return m.now() }

func (m *plainMAAS) Cost() reconciliation.Cost { return reconciliation.Cost{} }

// set changes a machine, as somebody does who acts in MAAS.
func (m *plainMAAS) set(i, status string, state reconciliation.State) {
	m.machines[i].Status, m.machines[i].State = status, state
	m.events = append(m.events, i)
}

// quietJobs are jobs that remember what they were told.
type quietJobs struct {
	under   []bringup.Working
	noticed []string
	reached map[string]bool
}

func (q *quietJobs) Under(context.Context, id.Site) ([]bringup.Working, error) { return q.under, nil }

func (q *quietJobs) Notice(_ context.Context, w bringup.Working, seen string, _ map[string]any) error {
	q.noticed = append(q.noticed, w.String()+": "+seen)
	return nil
}

func (q *quietJobs) Reconcile(_ context.Context, w bringup.Working) (bool, error) {
	return q.reached[w.ID], nil
}

// kept are tasks that were asked for.
type kept struct{ tasks []agenttask.Request }

func (k *kept) Enqueue(_ context.Context, _ pgx.Tx, r agenttask.Request) (agenttask.Task, error) {
	k.tasks = append(k.tasks, r)
	return agenttask.Task{}, nil
}

// world is a site whose machines are nodes, with a clock of its own.
type world struct {
	tenants map[id.Node]string // who works on a node, in words
	*desk
	tb       testing.TB
	db       *postgres.DB
	name     string          // of the site, which begins the names of its nodes
	ctx      context.Context //nolint:containedctx // of the test
	at       id.Site
	maas     *plainMAAS
	jobs     *quietJobs
	tasks    *kept
	nodes    []id.Node
	time     time.Time
	settings reconciliation.Settings
	regions  reconciliation.Regions // nil: the plain MAAS
	service  *reconciliation.Service
}

func newWorld(tb testing.TB, nodes int) *world {
	tb.Helper()
	db, owner := postgrestest.NewWithOwner(tb)
	return newWorldIn(tb, db, owner, "dc1", nodes)
}

func newWorldIn(tb testing.TB, db, owner *postgres.DB, name string, nodes int) *world {
	tb.Helper()
	w := &world{
		tb: tb, desk: &desk{owner: owner}, db: db, name: name, time: time.Now(),
		jobs: &quietJobs{reached: map[string]bool{}}, tasks: &kept{},
	}
	w.ctx = auth.With(telemetry.WithCorrelation(context.Background(), "test"), auth.System("test"))
	w.maas = &plainMAAS{
		machines: map[string]*reconciliation.Machine{}, now: w.now, hidden: map[string]bool{},
		events: []string{"elsewhere"},
	}
	w.at = w.site(tb, name, nil)
	for n := range nodes {
		w.add(tb, n)
	}
	w.restart()
	return w
}

func (w *world) now() time.Time { return w.time }

// restart makes the service anew, as a worker does that died.
func (w *world) restart() {
	sites := site.New(site.Config{DB: w.db})
	var regions reconciliation.Regions = w.maas
	if w.regions != nil {
		regions = w.regions
	}
	w.service = reconciliation.New(reconciliation.Config{
		DB: w.db, Sites: sites, Nodes: node.New(node.Config{DB: w.db}), Regions: regions, Tasks: w.tasks,
		Jobs:  []reconciliation.Jobs{w.jobs},
		Clock: w.now, Settings: w.settings,
		Reimage: func(context.Context, id.Node, string) (string, error) { return "decommission 1", nil },
		Tenant:  func(_ context.Context, n id.Node) (string, error) { return w.tenants[n], nil },
	})
}

func (w *world) hostname(n int) string { return fmt.Sprintf("%s-gpu-%03d", w.name, n) }

func machineOf(n int) string { return fmt.Sprintf("m%03d", n) }

func (w *world) add(tb testing.TB, n int) id.Node {
	tb.Helper()
	name := w.hostname(n)
	read := time.Duration(0)
	made := w.node(tb, name, w.at, &read)
	w.exec(tb, `UPDATE node_maas_state SET last_reconciled_at = $2 WHERE node_id = $1`, made, w.time)
	w.exec(tb, `UPDATE node_maas_state SET maas_system_id = $2, last_maas_status = 'Deployed', last_maas_power_state = 'on', last_maas_ips = $3,
		bound_at = now() - interval '1 day', installation_id = $4 WHERE node_id = $1`, made, machineOf(n), []string{fmt.Sprintf("10.0.0.%d", n+1)}, 1000+n)
	w.exec(tb, `UPDATE nodes SET host = $2, status = 'active', schedulable = true WHERE id = $1`, made,
		fmt.Sprintf("10.0.0.%d", n+1))
	w.exec(tb, `INSERT INTO node_contacts (node_id, last_contact_at) VALUES ($1, now() + interval '30 days')
		ON CONFLICT (node_id) DO UPDATE SET last_contact_at = excluded.last_contact_at`, made)
	w.maas.machines[machineOf(n)] = w.healthy(n)
	w.nodes = append(w.nodes, made)
	return made
}

func (w *world) healthy(n int) *reconciliation.Machine {
	return &reconciliation.Machine{
		SystemID: machineOf(n), Hostname: w.hostname(n), Status: "Deployed", State: reconciliation.Installed, Power: "on",
		Owner: "gpuaas",
		IPs:   []string{fmt.Sprintf("10.0.0.%d", n+1)}, Installation: int64(1000 + n), SyncEnabled: true,
		SyncInterval: 15 * time.Minute, LastSync: new(w.time.Add(1000 * time.Hour)),
	}
}

// look is one run, its second look included.
func (w *world) look(tb testing.TB) reconciliation.Run {
	tb.Helper()
	return w.run(tb, id.New[id.ReconciliationRun]())
}

func (w *world) run(tb testing.TB, run id.ReconciliationRun) reconciliation.Run {
	tb.Helper()
	in := reconciliation.Input{Site: w.at, Run: run}
	looked, err := w.service.Reconcile(w.ctx, in)
	if err != nil {
		tb.Fatal(err)
	}
	if looked.Again > 0 {
		w.time = w.time.Add(looked.Again)
		if err := w.service.ReconcileAgain(w.ctx, in); err != nil {
			tb.Fatal(err)
		}
	}
	out, err := w.service.RunOf(w.ctx, run)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// cycle is a run of the schedule, and the time until the next one.
func (w *world) cycle(tb testing.TB) reconciliation.Run {
	tb.Helper()
	out := w.look(tb)
	w.time = w.time.Add(5 * time.Minute)
	return out
}

// asked is a run that somebody asks for.
func (w *world) asked(tb testing.TB, r reconciliation.RunRequest) reconciliation.Run {
	tb.Helper()
	r.Site = w.at
	run, err := w.service.RequestRun(w.ctx, r)
	if err != nil {
		tb.Fatal(err)
	}
	return w.run(tb, run.ID)
}

func (w *world) status(tb testing.TB, n int) node.Status {
	tb.Helper()
	got, err := node.Get(w.ctx, w.db, w.nodes[n])
	if err != nil {
		tb.Fatal(err)
	}
	return got.Status
}

// open are the findings about a node that are not over.
func (w *world) open(tb testing.TB, n int) map[reconciliation.Type]reconciliation.Finding {
	tb.Helper()
	out := map[reconciliation.Type]reconciliation.Finding{}
	list, err := w.service.Findings(w.ctx, reconciliation.FindingFilter{Node: w.nodes[n]},
		postgres.Slice[reconciliation.FindingPosition]{Limit: 100})
	if err != nil {
		tb.Fatal(err)
	}
	for _, f := range list {
		if f.Status != reconciliation.Closed {
			out[f.Type] = f.Finding
		}
	}
	return out
}

func (w *world) quarantined(tb testing.TB) (n int) {
	tb.Helper()
	if err := w.db.QueryRow(w.ctx, `SELECT count(*) FROM nodes WHERE status = 'quarantined' AND hostname LIKE $1`, w.name+
		"-%").Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

func (w *world) count(tb testing.TB, query string, args ...any) (n int) {
	tb.Helper()
	if err := w.db.QueryRow(w.ctx, query, args...).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

type idOfRun = id.ReconciliationRun

func newRun() id.ReconciliationRun { return id.New[id.ReconciliationRun]() }

func (w *world) silence(n int) {
	w.exec(w.tb, `UPDATE node_contacts SET last_contact_at = now() - interval '1 hour' WHERE node_id = $1`, w.nodes[n])
}

func (w *world) hear(n int) {
	w.exec(w.tb, `UPDATE node_contacts SET last_contact_at = now() + interval '30 days' WHERE node_id = $1`, w.nodes[n])
	w.exec(w.tb, `UPDATE nodes SET status = 'active', schedulable = true WHERE id = $1 AND status = 'offline'`, w.nodes[n])
}

func (w *world) suspect(n int) {
	w.tb.Helper()
	err := w.db.InTx(w.ctx, func(ctx context.Context, tx pgx.Tx) error {
		return w.service.Suspect(ctx, tx, w.nodes[n], "its agent fell silent")
	})
	if err != nil {
		w.tb.Fatal(err)
	}
}
