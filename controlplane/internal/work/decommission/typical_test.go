package decommission_test

import (
	"net/http"
	"testing"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/decommission"
)

// typical is how long a stage is said to take, by mode.
func (d *desk) typical(tb testing.TB, stage, query string) map[decommission.Mode]float64 {
	tb.Helper()
	var all struct{ Items []decommission.ModeView }
	d.call(tb, http.MethodGet, "decommission-stages"+query, nil).Into(tb, http.StatusOK, &all)
	out := map[decommission.Mode]float64{}
	for _, m := range all.Items {
		for _, s := range m.Stages {
			if s.Typical == nil {
				continue
			}
			if s.Name != stage {
				tb.Errorf("%s of %s takes %v", s.Name, m.Mode, *s.Typical)
			}
			out[m.Mode] = *s.Typical
		}
	}
	return out
}

func TestStagesTypicallyTake(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const stage = "drain_node"
	if got := d.typical(t, stage, ""); len(got) > 0 {
		t.Errorf("before anybody went through it, it takes %v", got)
	}
	for mode, took := range map[decommission.Mode][]int{decommission.SoftReset: {5, 10, 300}, decommission.Reimage: {60}} {
		for _, seconds := range took {
			of := d.request(t, d.node(t, node.Active, true), mode)
			d.exec(t, `UPDATE node_decommissions SET status = 'running', started_at = now() WHERE id = $1`, of.ID)
			d.exec(t, `INSERT INTO job_events (job_id, epoch, stage, attempt, status, occurred_at)
				SELECT $1, 1, $2, 1, e.status, now() + e.after * interval '1 second'
				FROM (VALUES ('started', -700), ('failed', -600), ('started', 0), ('note', 1), ('succeeded', $3)) AS e(status, after)`, of.ID, stage, seconds)
			d.exec(t, `INSERT INTO job_events (job_id, epoch, stage, attempt, status) VALUES ($1, 1, 'disable_node', 1, 'skipped')`, of.ID)
		}
	}
	for query, known := range map[string]bool{
		"": true, "?site_id=" + d.site.ID.String(): true,
		"?site_id=" + id.NewString(): false,
	} {
		got := d.typical(t, stage, query)
		if known && (got[decommission.SoftReset] != 10 || got[decommission.Reimage] != 60 || len(got) != 2) || !known &&
			len(got) > 0 {
			t.Errorf("%q: it takes %v", query, got)
		}
	}
	d.call(t, http.MethodGet, "decommission-stages?site_id=somewhere", nil).Refused(t, http.StatusUnprocessableEntity,
		"validation_error")
}
