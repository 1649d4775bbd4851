package fleetview_test

import (
	"net/http"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/fleet/fleetview"
)

// world is a control plane that can do nothing but look at its fleet.
type world struct {
	owner   *postgres.DB
	service *fleetview.Service
	api     *httpapi.API
}

// now is the time of the world; what is seeded lies around it.
var now = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// families are the kinds of jobs of the world.
var families = []fleetview.Family{
	{Noun: "onboarding", Statuses: []string{"pending", "running", "failed_retryable"}},
	{Noun: "decommission", Statuses: []string{"pending", "running", "compensating"}},
	{Noun: "loan", Statuses: []string{"asked", "stuck"}},
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	db, owner := postgrestest.NewWithOwner(tb)
	w := &world{owner: owner, service: fleetview.New(db, families, func() time.Time { return now })}
	w.api = httpapitest.New(db)
	w.service.Register(w.api)
	return w
}

func (w *world) get(tb testing.TB, token, path string) httpapitest.Answer {
	tb.Helper()
	return httpapitest.Call(tb, w.api.Handler(), httpapitest.Request{
		As: token, Method: http.MethodGet, Path: "/api/v1/admin/fleet" + path,
	})
}

func get[T any](tb testing.TB, w *world, path string) (out T) {
	tb.Helper()
	w.get(tb, httpapitest.Root, path).Into(tb, http.StatusOK, &out)
	return out
}

func (w *world) exec(tb testing.TB, query string, args ...any) {
	tb.Helper()
	if _, err := w.owner.Exec(tb.Context(), query, args...); err != nil {
		tb.Fatal(err)
	}
}

const (
	someSKU  = "h200-sxm-baremetal-8g"
	otherSKU = "h200-sxm-slice"
)

func (w *world) site(tb testing.TB, name, region string) id.Site {
	tb.Helper()
	s := id.New[id.Site]()
	w.exec(tb, `INSERT INTO maas_sites (id, name, region_code, api_base_url, pxe_iface, pxe_vlan_vid, node_pxe_iface, fingerprint_salt)
		VALUES ($1, $2, $3, 'http://maas.example:5240/MAAS', 'ens19', 0, 'eno1', decode(repeat('00', 16), 'hex'))`, s, name, region)
	w.exec(tb, `INSERT INTO maas_site_profiles (id, site_id, name) VALUES ($1, $2, 'default')`, id.New[id.Profile](), s)
	return s
}

// node adds a node in a state whose agent is as it should be; set is what else
// there is to say about it, as assignments of SQL.
func (w *world) node(tb testing.TB, hostname, region, status, set string) id.Node {
	tb.Helper()
	n := id.New[id.Node]()
	w.exec(tb, `INSERT INTO nodes (id, status, hostname, host, sku_id, gpus_total, region_code, onboarding_mode, schedulable, reported_agent_version, reported_agent_commit,
			certificate_not_after) VALUES ($1, $2::text, $3::text, 'host-of-' || $3::text, $4, 8, $5, 'manual', $2::text = 'active', '1.0.0', 'abc123', $6)`,
		n, status, hostname, someSKU, region, now.Add(time.Hour))
	if set != "" {
		w.exec(tb, `UPDATE nodes SET `+set+` WHERE id = $1`, n)
	}
	return n
}

func (w *world) bind(tb testing.TB, n id.Node, s id.Site) {
	tb.Helper()
	w.exec(tb,
		`INSERT INTO node_maas_state (node_id, site_id, profile_id, maas_system_id) SELECT $1, $2, id, $3 FROM maas_site_profiles WHERE site_id = $2`, n, s, n.String())
}

func (w *world) find(tb testing.TB, s id.Site, n id.Node, severity, status string) {
	tb.Helper()
	f := id.New[id.Finding]()
	w.exec(tb, `INSERT INTO reconciliation_findings (id, site_id, node_id, type, severity, subject, status, expected, observed, message, opened_at, last_seen_at, closed_at)
		VALUES ($1, $2, $3, 'released', $4, $5, $6::text, '', '', '', $7::timestamptz, $7, CASE WHEN $6::text = 'closed' THEN $7::timestamptz END)`, f, s, n, severity, f.String(), status, now)
}

// ends are when a job in a status was parked and was over, as SQL.
const ends = `CASE WHEN $5::text LIKE 'failed%' THEN clock_timestamp() END, CASE WHEN $5::text IN ('completed', 'cancelled', 'reconciled') THEN clock_timestamp() END`

// onboard adds an onboarding whose node may not be there yet.
func (w *world) onboard(tb testing.TB, s id.Site, n id.Node, hostname, status string) id.Onboarding {
	tb.Helper()
	o := id.New[id.Onboarding]()
	w.exec(tb, `INSERT INTO node_onboardings (id, site_id, profile_id, hostname, ipmi_ip, sku_id, node_id, status, parked_at, completed_at, current_stage, workflow_id, requested_by, correlation_id)
		SELECT $1, $2, id, $3, $3, $6, $4, $5::text, `+ends+`, 'x', 'w', 'o', 'c' FROM maas_site_profiles WHERE site_id = $2`, o, s, hostname, n, status, someSKU)
	return o
}

// lend adds a job of a kind that is about anything; no node: it is about none.
func (w *world) lend(tb testing.TB, n id.Node, status string) string {
	tb.Helper()
	of, phase := id.NewString(), map[string]string{"asked": "waiting", "stuck": "parked"}[status]
	w.exec(tb, `INSERT INTO jobs (id, family, node_id, subject, status, phase, parked_at, current_stage, workflow_id, requested_by, correlation_id)
		VALUES ($1, 'loan', $2, 'Dune', $3, $4::text, CASE WHEN $4::text = 'parked' THEN now() END, 'x', 'w', 'o', 'c')`,
		of, n, status, phase)
	return of
}

func (w *world) decommission(tb testing.TB, s id.Site, n id.Node, status string) id.Decommission {
	tb.Helper()
	d := id.New[id.Decommission]()
	w.exec(tb, `INSERT INTO node_decommissions (id, site_id, hostname, node_id, status, parked_at, completed_at, mode, reason, current_stage, workflow_id, requested_by, correlation_id)
		VALUES ($1, $2, $3, $4, $5::text, `+ends+`, 'soft_reset', 'r', 'x', 'w', 'o', 'c')`, d, s, "n", n, status)
	return d
}
