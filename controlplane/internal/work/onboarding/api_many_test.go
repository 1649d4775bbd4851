package onboarding_test

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/work/job"
	"gpuaas/controlplane/internal/work/onboarding"
)

// parkedBatch is a batch of machines that are all parked for one cause.
func (d *desk) parkedBatch(tb testing.TB, count int) onboarding.NewBatchView {
	tb.Helper()
	nodes := make([]object, count)
	for i := range nodes {
		nodes[i] = object{"hostname": fmt.Sprintf("n%d", i), "ipmi_ip": fmt.Sprintf("10.0.0.%d", i+1)}
	}
	var made onboarding.NewBatchView
	d.call(tb, http.MethodPost, "onboardings/batch", d.selectors(object{"nodes": nodes})).Decode(tb, &made)
	for _, o := range made.Onboardings {
		d.park(tb, o.OnboardingID, "failed_manual_intervention")
	}
	return made
}

func acted(tb testing.TB, a httpapitest.Answer) (v job.ManyView) {
	tb.Helper()
	a.Into(tb, http.StatusAccepted, &v)
	return v
}

func (d *desk) audited(tb testing.TB, of id.Onboarding, action job.Trigger) int {
	tb.Helper()
	return d.count(tb, `SELECT count(*) FROM audit_logs WHERE target_id = $1 AND action = $2 AND reason = 'switch replaced'`,
		of.String(), "onboarding."+string(action))
}

// One request acts on every job it names. Each that cannot be acted on says why,
// and keeps no other from it.
func TestManyJobsAreActedOnByTheirIDs(t *testing.T) {
	d := newDesk(t)
	b := d.parkedBatch(t, 3).Onboardings
	pending := d.requested(t, "early", "10.0.1.1").OnboardingID
	unknown := id.New[id.Onboarding]()
	d.call(t, http.MethodPost, "onboardings/"+b[1].OnboardingID.String()+"/mark-manual-intervention",
		object{"reason": "mine"})
	d.call(t, http.MethodPost, "onboardings/"+b[2].OnboardingID.String()+"/retry", object{"reason": "mine"})
	d.park(t, b[2].OnboardingID, "failed_retryable")
	body := object{"action": "retry_stage", "reason": "switch replaced", "jobs": []object{
		{"job_id": b[0].OnboardingID, "epoch": 1},
		{"job_id": b[2].OnboardingID, "epoch": 1},
		{"job_id": pending},
		{"job_id": unknown},
		{"job_id": b[1].OnboardingID},
		{"job_id": b[0].OnboardingID},
	}}
	key := id.NewString()
	first := d.callAs(t, httpapitest.Root, http.MethodPost, "onboardings/actions", key, body)
	v := acted(t, first)
	var got []string
	for _, j := range v.Jobs {
		line := j.Hostname + " " + string(j.Outcome)
		if j.Refusal != nil {
			line += " " + j.Refusal.Code
			if j.Refusal.Message == "" || j.Refusal.Remedy == "" {
				t.Errorf("%s is refused without a word: %+v", j.Hostname, j.Refusal)
			}
		}
		got = append(got, line)
	}
	want := []string{
		"n0 done", "n2 refused job_changed", "early refused action_not_allowed", " refused onboarding_not_found", "n1 done",
	}
	if !slices.Equal(got, want) || v.Done != 2 || v.Refused != 3 || v.Jobs[0].Status != job.Running ||
		v.Jobs[0].Epoch != 2 {
		t.Errorf("answer is %s", first.Body)
	}
	for of, n := range map[id.Onboarding]int{
		b[0].OnboardingID: 1, b[1].OnboardingID: 1, b[2].OnboardingID: 0, pending: 0,
	} {
		if got := d.audited(t, of, job.RetryStage); got != n {
			t.Errorf("%s: %d audit entries, want %d", of, got, n)
		}
	}
	if again := d.callAs(t, httpapitest.Root, http.MethodPost, "onboardings/actions", key, body); !bytes.Equal(again.Body,
		first.Body) {
		t.Errorf("repeated with its key: %s", again.Body)
	}
	// Without the key it is harmless too: what is being done is not done twice.
	v = acted(t, d.call(t, http.MethodPost, "onboardings/actions", body))
	if v.Done != 2 || v.Jobs[0].Epoch != 2 || d.audited(t, b[0].OnboardingID, job.RetryStage) != 1 {
		t.Errorf("repeated: %+v", v)
	}
}

func TestManyJobsAreActedOnByTheirCause(t *testing.T) {
	d := newDesk(t)
	b := d.parkedBatch(t, 4)
	other := d.requested(t, "alone", "10.0.1.1").OnboardingID
	d.park(t, other, "failed_retryable")
	d.call(t, http.MethodPost, "onboardings/"+b.Onboardings[3].OnboardingID.String()+"/retry", object{"reason": "mine"})
	ask := func(parked object) httpapitest.Answer {
		parked["batch_id"] = b.BatchID
		return d.call(t, http.MethodPost, "onboardings/actions",
			object{"action": "rerun", "reason": "switch replaced", "parked": parked})
	}
	for _, c := range []object{{"stage": "wait_for_deployed"}, {"error_code": "x"}, {"failure_class": "state_ambiguity"}} {
		ask(c).Refused(t, http.StatusConflict, "none_parked_so")
	}
	v := acted(t, ask(object{
		"stage": "wait_for_ready", "error_code": "failed_commission", "failure_class": "hardware_mismatch",
	}))
	var names []string
	for _, j := range v.Jobs {
		names = append(names, j.Hostname)
	}
	slices.Sort(names)
	if strings.Join(names, " ") != "n0 n1 n2" || v.Done != 3 || v.Refused != 0 {
		t.Errorf("answer is %+v", v)
	}
	if n := d.audited(t, b.Onboardings[0].OnboardingID, job.Rerun); n != 1 {
		t.Errorf("%d audit entries", n)
	}
	if n := d.audited(t, other, job.Rerun); n != 0 {
		t.Error("one of no batch was acted on")
	}
	ask(object{}).Refused(t, http.StatusConflict, "none_parked_so")
}

// Nobody destroys what is on machines that nobody looked at.
func TestManyMachinesAreNotWipedUnseen(t *testing.T) {
	d := newDesk(t)
	b := d.parkedBatch(t, 2)
	for _, o := range b.Onboardings {
		d.set(t, `UPDATE node_onboardings SET observed_status = 'Deployed', facts = '{"node_created": true}' WHERE id = $1`,
			o.OnboardingID)
	}
	ask := func(more object) job.ManyView {
		more["action"], more["reason"] = "restart_clean", "switch replaced"
		return acted(t, d.call(t, http.MethodPost, "onboardings/actions", more))
	}
	one := b.Onboardings[0].OnboardingID
	for _, v := range []job.ManyView{
		ask(object{"parked": object{"batch_id": b.BatchID}}), ask(object{"jobs": []object{{"job_id": one}}}),
	} {
		if v.Done != 0 || v.Jobs[0].Refusal == nil || v.Jobs[0].Refusal.Code != "epoch_missing" {
			t.Errorf("answer is %+v", v)
		}
	}
	if v := ask(object{"jobs": []object{{"job_id": one, "epoch": 1}}}); v.Done != 1 ||
		v.Jobs[0].Status != job.Compensating {
		t.Errorf("answer is %+v", v)
	}
}

func TestManyJobsAreNamedOneWay(t *testing.T) {
	d := newDesk(t)
	b := d.parkedBatch(t, 1)
	named := []object{{"job_id": b.Onboardings[0].OnboardingID}}
	for name, c := range map[string]struct {
		body  object
		field string
	}{
		"no jobs":    {object{"action": "rerun", "reason": "r"}, "body"},
		"empty list": {object{"action": "rerun", "reason": "r", "jobs": []object{}}, "body"},
		"both": {
			object{"action": "rerun", "reason": "r", "jobs": named, "parked": object{"batch_id": b.BatchID}},
			"body",
		},
		"no reason":      {object{"action": "rerun", "jobs": named}, "body"},
		"unknown action": {object{"action": "explode", "reason": "r", "jobs": named}, "body.action"},
		"too many": {
			object{"action": "rerun", "reason": "r", "jobs": slices.Repeat(named, 1001)}, "body.jobs",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d.call(t, http.MethodPost, "onboardings/actions", c.body).
				Wants(t, http.StatusUnprocessableEntity, "validation_error", c.field)
		})
	}
	d.call(t, http.MethodPost, "onboardings/actions", object{"action": "rerun", "reason": "  ", "jobs": named}).
		Refused(t, http.StatusUnprocessableEntity, "reason_missing")
	d.call(t, http.MethodPost, "onboardings/actions",
		object{"action": "rerun", "reason": "r", "parked": object{"batch_id": id.NewString()}}).
		Refused(t, http.StatusNotFound, "onboarding_batch_not_found")
	d.callAs(t, "auditor", http.MethodPost, "onboardings/actions", id.NewString(), object{}).
		Refused(t, http.StatusForbidden, "insufficient_permissions")
}
