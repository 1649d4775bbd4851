package decommission_test

import (
	"net/http"
	"testing"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
)

func TestManyDecommissionsAreActedOn(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	b, _, err := d.service.RequestBatch(d.ctx, batchOf(d.fleet(t, 2)...))
	if err != nil {
		t.Fatal(err)
	}
	begun, _ := d.members(t, b.ID)
	d.park(t, begun[0].ID, "drain_node")
	d.park(t, begun[1].ID, "disable_node")
	pending := d.request(t, d.node(t, node.Active, true), decommission.FullDecommission).ID
	ask := func(more object) httpapitest.Answer {
		more["action"], more["reason"] = "retry_stage", "agent restarted"
		return d.call(t, http.MethodPost, "decommissions/actions", more)
	}
	var v job.ManyView
	ask(object{"parked": object{"batch_id": b.ID, "stage": "drain_node", "error_code": "agent_unreachable"}}).
		Into(t, http.StatusAccepted, &v)
	if v.Done != 1 || len(v.Jobs) != 1 || v.Jobs[0].Hostname != begun[0].Hostname || v.Jobs[0].Status != job.Running {
		t.Errorf("answer is %+v", v)
	}
	ask(object{"jobs": []object{{"job_id": begun[1].ID, "epoch": 1}, {"job_id": pending}}}).Into(t, http.StatusAccepted,
		&v)
	if v.Done != 1 || v.Refused != 1 || v.Jobs[1].Refusal == nil || v.Jobs[1].Refusal.Code != "action_not_allowed" {
		t.Errorf("answer is %+v", v)
	}
	if n := d.count(t, `SELECT count(*) FROM audit_logs WHERE action = 'decommission.retry_stage' AND reason = 'agent restarted'`); n != 2 {
		t.Errorf("%d audit entries", n)
	}
	ask(object{"parked": object{"batch_id": id.NewString()}}).Refused(t, http.StatusNotFound,
		"decommission_batch_not_found")
}
