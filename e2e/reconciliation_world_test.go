package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/apiclient"
	"gpuaas/sim/lab"
	"gpuaas/sim/maas"
	"gpuaas/sim/maas/fleet"
	"gpuaas/stack"
	"gpuaas/stack/stacktest"
	"gpuaas/testkit"
)

const reconciliationAPI = "/api/v1/admin/reconciliation"

// watched is a site of a lab whose machines are nodes, and whose reconciliation
// happens every few seconds.
type watched struct {
	p       *plane // serves the API
	worker  *plane // nil: p does everything
	env     []string
	cli     []string
	engines *stack.Stack
	db      *pgx.Conn
	state   string
	record  lab.Record
	site    string
}

// often has sites looked at every few seconds.
func often(more ...string) []string {
	return append([]string{
		"GPUAAS_RECONCILIATION_EVERY=2s", "GPUAAS_RECONCILIATION_LOOK_AGAIN_AFTER=1s",
		"GPUAAS_RECONCILIATION_SWEEP_WITHIN=30m",
		"GPUAAS_LIMITS_REQUESTS_PER_SECOND=1000", "GPUAAS_LIMITS_BURST=1000",
	}, more...)
}

// openAgentsLab opens a lab of machines that are agents of this process.
func openAgentsLab(t *testing.T, o lab.Options, machines int) *lab.Lab {
	t.Helper()
	o.Region = maas.Options{Control: "127.0.0.1:0", Fleet: fleet.Options{Machines: machines, Stage: "new"}}
	l, err := lab.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// watch starts a control plane for a lab and makes a site of that. Roles that
// are apart can be killed apart.
func watch(t *testing.T, record lab.Record, state string, apart bool, settings ...string) *watched {
	t.Helper()
	w := &watched{engines: stacktest.Start(t, stack.Options{}), state: state, record: record}
	address := freeAddress(t)
	w.env = append([]string{onLoopback(t, record.URL)}, often(settings...)...)
	w.env = append(w.env,
		"GPUAAS_NODES_LISTEN="+address, "GPUAAS_NODES_URL=https://"+address, "GPUAAS_NODES_SSH_PROXY="+record.SSHProxy,
		"GPUAAS_NODES_NEWCOMER_RATE=200")
	if apart {
		w.p = startPlane(t, w.engines.Endpoints(), planeOptions{env: w.env, roles: "api,relay"})
		w.startWorker(t)
	} else {
		w.p = startPlane(t, w.engines.Endpoints(), planeOptions{env: w.env})
	}
	w.cli = w.p.cli(t)
	w.useLab(t, record)
	var site struct {
		ID string `json:"site_id"`
	}
	if err := json.Unmarshal([]byte(succeed(t, w.cli, "site", "get", "lab", "-o", "json")), &site); err != nil {
		t.Fatal(err)
	}
	w.site = site.ID
	w.db = connect(t, w.engines.SuperuserURL(), "gpuaas")
	return w
}

// useLab makes a site of a lab, or brings it up to date.
func (w *watched) useLab(t *testing.T, record lab.Record) {
	t.Helper()
	if err := record.Save(lab.RecordFile(w.state)); err != nil {
		t.Fatal(err)
	}
	succeed(t, w.cli, "sim", "site", "--state", w.state, "--csv", filepath.Join(w.state, "lab.csv"))
}

func (w *watched) startWorker(t *testing.T) {
	t.Helper()
	w.worker = startPlane(t, w.engines.Endpoints(), planeOptions{env: w.env, roles: "worker", token: w.p.token})
}

// onboardAll makes nodes of machines and has each of them looked at.
func (w *watched) onboardAll(t *testing.T, machines []lab.Machine) {
	t.Helper()
	var batch struct {
		BatchID string `json:"batch_id"`
	}
	w.p.do(t, http.MethodPost, "/api/v1/admin/onboardings/batch", map[string]any{
		"site_id": w.site, "sku_id": "h200-sxm-baremetal-8g", "nodes": machines,
	}, http.StatusAccepted, &batch)
	testkit.Succeeds(t, "all machines to be nodes", 3*time.Minute, func() error {
		var b struct {
			Counts map[string]int `json:"counts"`
		}
		w.p.do(t, http.MethodGet, "/api/v1/admin/onboarding-batches/"+batch.BatchID, nil, http.StatusOK, &b)
		if failed := b.Counts["failed_retryable"] + b.Counts["failed_manual_intervention"]; failed > 0 {
			t.Fatalf("%d are parked:\n%s", failed, succeed(t, w.cli, "onboarding", "list", "--batch", batch.BatchID))
		}
		if b.Counts["completed"] != len(machines) {
			return fmt.Errorf("%v", b.Counts)
		}
		return nil
	})
	for _, m := range machines { // an agent that was heard of since proves what runs there
		succeed(t, w.cli, "node", "task", "run", m.Hostname, "node.heartbeat_check", "--reason", "test", "--wait")
	}
	succeed(t, w.cli, "reconcile", "--site", "lab", "--full", "--reason", "begin with everything known")
	o := w.overview(t)
	if o.Ok != int64(len(machines)) || o.Drifted != 0 || o.State != "ok" {
		t.Fatalf("nothing happened yet, and the site is %+v", o)
	}
	testkit.Succeeds(t, "what runs on each machine to be known", time.Minute, func() error {
		if n := w.counted(t, `SELECT count(*) FROM node_maas_state WHERE installation_id = 0`); n > 0 {
			return fmt.Errorf("of %d it is not", n)
		}
		return nil
	})
}

// happens lets something befall a machine past the API of MAAS.
func (w *watched) happens(t *testing.T, what ...string) {
	t.Helper()
	succeed(t, w.cli, append([]string{"sim", "machines", "--state", w.state}, what...)...)
}

func (w *watched) overview(t *testing.T) apiclient.ReconciliationSiteOverview {
	t.Helper()
	var o apiclient.ReconciliationOverview
	w.p.do(t, http.MethodGet, reconciliationAPI+"/status", nil, http.StatusOK, &o)
	for _, s := range o.Sites {
		if s.SiteId.String() == w.site {
			return s
		}
	}
	t.Fatalf("the status does not have the site: %+v", o)
	return apiclient.ReconciliationSiteOverview{}
}

// drift is a node among those that are not as they should be; nil: it is as it
// should be.
func (w *watched) drift(t *testing.T, hostname string) *apiclient.ReconciliationDriftView {
	t.Helper()
	list := all[apiclient.ReconciliationDriftView](t, w.p, reconciliationAPI+"/drift")
	i := slices.IndexFunc(list, func(d apiclient.ReconciliationDriftView) bool { return d.Hostname == hostname })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// findings are all that was ever found about a node, the newest first.
func (w *watched) findings(t *testing.T, hostname string) []apiclient.ReconciliationFindingView {
	t.Helper()
	return all[apiclient.ReconciliationFindingView](t, w.p, reconciliationAPI+"/findings?node_id="+w.p.nodeID(t, hostname))
}

// awaitFinding waits until a finding of one of some types about a node is as it
// should be.
func (w *watched) awaitFinding(t *testing.T, hostname, status string,
	types ...string,
) apiclient.ReconciliationFindingView {
	t.Helper()
	var found apiclient.ReconciliationFindingView
	testkit.Succeeds(t, fmt.Sprintf("%s to be %s about %s", strings.Join(types, " or "), status, hostname), 2*time.Minute,
		func() error {
			list := w.findings(t, hostname)
			i := slices.IndexFunc(list, func(f apiclient.ReconciliationFindingView) bool {
				return slices.Contains(types, f.Type) && string(f.Status) == status
			})
			if i < 0 {
				return fmt.Errorf("there is %s", summary(list))
			}
			found = list[i]
			return nil
		})
	return found
}

func summary(list []apiclient.ReconciliationFindingView) string {
	out := []string{}
	for _, f := range list {
		text := f.Type + " " + string(f.Status)
		if f.Withheld != nil {
			text += " (withheld: " + *f.Withheld + ")"
		}
		out = append(out, text)
	}
	return "[" + strings.Join(out, ", ") + "]"
}

func (w *watched) awaitNode(t *testing.T, hostname, status string) {
	t.Helper()
	testkit.Succeeds(t, hostname+" to be "+status, 2*time.Minute, func() error { return w.p.nodeIs(hostname, status) })
}

// runs are the runs of the site, the newest first.
func (w *watched) runs(t *testing.T) []apiclient.ReconciliationRunView {
	t.Helper()
	return all[apiclient.ReconciliationRunView](t, w.p, reconciliationAPI+"/runs?site_id="+w.site)
}

// awaitRun waits for a run of the schedule that began after a time and ended in
// one of some ways.
func (w *watched) awaitRun(t *testing.T, after time.Time, outcomes ...string) apiclient.ReconciliationRunView {
	t.Helper()
	var run apiclient.ReconciliationRunView
	testkit.Succeeds(t, "a run that ends as "+strings.Join(outcomes, " or "), 2*time.Minute, func() error {
		seen := map[string]int{}
		for _, r := range w.runs(t) {
			if r.EndedAt == nil || r.BeganAt == nil || r.BeganAt.Before(after) || r.Trigger != "schedule" || r.Outcome == nil {
				continue
			}
			if slices.Contains(outcomes, string(*r.Outcome)) {
				run = r
				return nil
			}
			seen[string(*r.Outcome)]++
		}
		return fmt.Errorf("they ended as %v", seen)
	})
	return run
}

// count checks how many rows a query counts.
func (w *watched) count(t *testing.T, want int, query string, args ...any) {
	t.Helper()
	if n := w.counted(t, query, args...); n != want {
		t.Errorf("%s: %d, want %d", query, n, want)
	}
}

func (w *watched) counted(t *testing.T, query string, args ...any) (n int) {
	t.Helper()
	if err := w.db.QueryRow(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}
