package reconciliation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/reconciliation"
	simulated "gpuaas/sim/maas"
	"gpuaas/sim/maas/fleet"
	"gpuaas/sim/maas/region"
)

// regionsVariable names a file with a simulated MAAS on each line: its URL, the
// token and the URL of its control API. Regions in their own process keep their
// cost apart from that of the control plane.
const regionsVariable = "GPUAAS_BENCH_REGIONS"

// simRegion is a simulated MAAS behind its control API.
type simRegion struct{ url, token, control string }

func simRegions(b *testing.B, count, machines int) (regions []simRegion, apart bool) {
	b.Helper()
	if path := os.Getenv(regionsVariable); path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			b.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) == 3 {
				regions = append(regions, simRegion{f[0], f[1], f[2]})
			}
		}
		if len(regions) != count || len(regions[0].machines(b)) != machines {
			b.Fatalf("%s must name %d regions with %d machines each, and names %d", regionsVariable, count, machines,
				len(regions))
		}
		return regions, true
	}
	for n := range count {
		r := simulated.StartTest(b, simulated.Options{
			Control: "127.0.0.1:0", Seed: uint64(n + 1), Passive: true,
			Fleet: fleet.Options{Machines: machines, Stage: "deployed"},
		})
		regions = append(regions, simRegion{r.URL, r.Token, r.ControlURL})
	}
	return regions, false
}

func (r simRegion) ask(b *testing.B, method, path string, into any) {
	b.Helper()
	q, err := http.NewRequestWithContext(b.Context(), method, r.control+path, nil)
	if err != nil {
		b.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		b.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if closing := answer.Body.Close(); err == nil {
		err = closing
	}
	if err == nil && into != nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil || answer.StatusCode >= http.StatusBadRequest {
		b.Fatalf("%s %s: %d %s %v", method, path, answer.StatusCode, body, err)
	}
}

func (r simRegion) machines(b *testing.B) (all []region.Brief) {
	b.Helper()
	r.ask(b, http.MethodGet, "/machines", &all)
	return all
}

func (r simRegion) happen(b *testing.B, machine, what string) {
	b.Helper()
	r.ask(b, http.MethodPost, "/machines/"+machine+"/"+what, nil)
}

// asked returns what the region was asked since it was made.
func (r simRegion) asked(b *testing.B) (requests, records float64) {
	b.Helper()
	var s struct {
		Requests float64 `json:"requests"`
		Records  float64 `json:"machine_records"`
	}
	r.ask(b, http.MethodGet, "/status", &s)
	return s.Requests, s.Records
}

// estate is sites whose machines are all nodes already: onboarding so many
// would take longer than the measurement.
type estate struct {
	url     redact.Secret
	db      *postgres.DB
	vault   *plainVault
	sites   *site.Service
	service *reconciliation.Service
	regions map[id.Site]simRegion
	fleet   map[id.Site][]region.Brief
	order   []id.Site
	apart   bool         // regions are not in this process
	ahead   atomic.Int64 // of the clock of the machine, in nanoseconds
}

func newEstate(b *testing.B, count, machines int) *estate {
	b.Helper()
	e := &estate{
		url: postgrestest.OwnerURL(b), vault: &plainVault{kept: map[string]map[string]redact.Secret{}},
		regions: map[id.Site]simRegion{}, fleet: map[id.Site][]region.Brief{},
	}
	e.open(b)
	b.Cleanup(func() { e.db.Close() })
	var regions []simRegion
	regions, e.apart = simRegions(b, count, machines)
	for n, r := range regions {
		e.settle(b, n, r)
	}
	if _, err := e.db.Exec(b.Context(), "ANALYZE"); err != nil {
		b.Fatal(err)
	}
	return e
}

// open starts the control plane.
func (e *estate) open(b *testing.B) {
	b.Helper()
	db, err := postgres.Open(postgres.Config{URL: e.url, MaxConns: 20})
	if err != nil {
		b.Fatal(err)
	}
	e.db, e.sites = db, site.New(site.Config{
		DB: db, Secrets: e.vault, FingerprintRounds: 1,
		Regions: &site.MAAS{Loopback: anyPort},
	})
	opened := &reconciliation.RegionsOf{Sites: e.sites, Clients: &site.MAAS{DB: db, Loopback: anyPort}}
	b.Cleanup(opened.Close)
	e.service = reconciliation.New(reconciliation.Config{
		DB: db, Sites: e.sites, Nodes: node.New(node.Config{DB: db, Clock: e.clock}), Regions: opened, Tasks: noTasks{},
		Clock:  e.clock,
		Logger: slog.New(slog.DiscardHandler),
	})
}

// reopen starts it again and returns how many rows were written before: a
// connection reports that when it ends.
func (e *estate) reopen(b *testing.B) (rows float64) {
	b.Helper()
	e.db.Close()
	e.open(b)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for others := 1; others > 0; <-tick.C {
		err := e.db.QueryRow(b.Context(), `SELECT (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'),
			(SELECT sum(n_tup_ins + n_tup_upd + n_tup_del)::float8 FROM pg_stat_user_tables)`).Scan(&others, &rows)
		if err != nil {
			b.Fatal(err)
		}
	}
	return rows
}

func (e *estate) clock() time.Time { return time.Now().Add(time.Duration(e.ahead.Load())) }

func (e *estate) context(b *testing.B) context.Context {
	b.Helper()
	return auth.With(telemetry.WithCorrelation(b.Context(), "bench"), auth.System("bench"))
}

// settle makes a site on a region, and makes its machines nodes.
func (e *estate) settle(b *testing.B, n int, r simRegion) {
	b.Helper()
	ctx, name := e.context(b), fmt.Sprintf("dc%d", n+1)
	set := func(s string) *string { return &s }
	vid := int32(0)
	made, err := e.sites.CreateSite(ctx, name, site.SettingsChange{
		RegionCode: &name, APIBaseURL: set(r.url), PXEIface: set("ens19"), PXEVLANVID: &vid, NodePXEIface: set("eno8303"),
	})
	if err != nil {
		b.Fatal(err)
	}
	err = e.vault.Put(ctx, "maas-sites/"+made.ID.String()+"/api-token",
		map[string]redact.Secret{"token": redact.New(r.token), "api_base_url": redact.New(r.url)})
	if err != nil {
		b.Fatal(err)
	}
	profiles, err := e.sites.Profiles(ctx, made.ID, postgres.Slice[id.Profile]{Limit: 1})
	if err != nil || len(profiles) != 1 {
		b.Fatalf("profiles are %v, %v", profiles, err)
	}
	fleet := r.machines(b)
	e.order, e.regions[made.ID], e.fleet[made.ID] = append(e.order, made.ID), r, fleet
	if _, err := e.db.Exec(ctx, `UPDATE maas_sites SET api_token_fingerprint = 'a1', api_token_rotated_at = now() WHERE id = $1`, made.ID); err != nil {
		b.Fatal(err)
	}
	e.bind(b, made.ID, profiles[0].ID, name, fleet)
}

// bind enters machines as nodes.
func (e *estate) bind(b *testing.B, at id.Site, profile id.Profile, regionCode string, fleet []region.Brief) {
	b.Helper()
	nodes, names, hosts, machines, bmcs := []string{}, []string{}, []string{}, []string{}, []string{}
	for _, m := range fleet {
		host := "10.255.255.254"
		if len(m.Addresses) > 0 {
			host = m.Addresses[0]
		}
		nodes, names, hosts = append(nodes, id.NewString()), append(names, m.Hostname), append(hosts, host)
		machines, bmcs = append(machines, m.SystemID), append(bmcs, m.BMC)
	}
	exec := func(sql string, args ...any) {
		if _, err := e.db.Exec(b.Context(), sql, args...); err != nil {
			b.Fatal(err)
		}
	}
	exec(`INSERT INTO nodes (id, status, hostname, host, sku_id, gpus_total, region_code, onboarding_mode, schedulable)
		SELECT n::uuid, 'active', name, host, 'h200-sxm-baremetal-8g', 8, $4, 'maas', true
		FROM unnest($1::text[], $2::text[], $3::text[]) AS f(n, name, host)`, nodes, names, hosts, regionCode)
	exec(`INSERT INTO node_contacts (node_id, last_contact_at) SELECT n::uuid, now() + interval '30 days' FROM unnest($1::text[]) AS f(n)`, nodes)
	exec(`INSERT INTO node_maas_state (node_id, site_id, profile_id, maas_system_id, ipmi_ip, last_maas_status, last_maas_power_state, bound_at)
		SELECT n::uuid, $4, $5, machine, bmc, 'Deployed', 'on', now() - interval '1 day'
		FROM unnest($1::text[], $2::text[], $3::text[]) AS f(n, machine, bmc)`, nodes, machines, bmcs, at, profile)
}

// plainVault is a secrets engine in memory.
type plainVault struct {
	mu   sync.Mutex
	kept map[string]map[string]redact.Secret
}

func (v *plainVault) Put(_ context.Context, path string, values map[string]redact.Secret) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.kept[path] = maps.Clone(values)
	return nil
}

func (v *plainVault) Get(_ context.Context, path string) (map[string]redact.Secret, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	values, known := v.kept[path]
	if !known {
		return nil, fault.New(fault.NotFound, "secret_not_found", "there is no secret under %s", path)
	}
	return maps.Clone(values), nil
}

func (v *plainVault) Delete(_ context.Context, path string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.kept, path)
	return nil
}

// noTasks takes tasks and forgets them.
type noTasks struct{}

func (noTasks) Enqueue(context.Context, pgx.Tx, agenttask.Request) (agenttask.Task, error) {
	return agenttask.Task{}, nil
}

// processor is the CPU time that this process has used.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// resident is the most memory that this process has had, in MiB.
func resident(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Maxrss) / 1024
}
