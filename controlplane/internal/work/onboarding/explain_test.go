package onboarding_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
	"gpuaas/controlplane/internal/work/onboarding"
)

var writeExplanations = flag.Bool("update", false, "write the golden explanations")

func at(minute int) time.Time { return time.Date(2026, 3, 4, 5, minute, 0, 0, time.UTC) }

func atp(minute int) *time.Time {
	t := at(minute)
	return &t
}

// underWay is an onboarding that is being carried out.
func underWay(change func(*onboarding.Onboarding)) onboarding.Onboarding {
	o := onboarding.Onboarding{ID: fixed[id.Onboarding](1), Job: job.Job{
		Node: fixed[id.Node](2), Site: fixed[id.Site](3),
		Status: job.Running, Stage: bringup.WaitForDeployed, Attempt: 1, Epoch: 2,
		RequestedAt: at(0), AdmittedAt: atp(1), StartedAt: atp(1), StageStartedAt: atp(8), UpdatedAt: at(28),
	}, Machine: bringup.Machine{
		Hostname: "c07u43", IPMIIP: "10.0.0.43", ObservedSince: atp(10),
		Observed: bringup.Observed{Status: "Deploying", Power: "on", IPs: []string{"10.20.0.43"}, At: at(28)},
	}}
	change(&o)
	return o
}

func fixed[ID ~[16]byte](n byte) ID { return ID{15: n} }

// parked is an onboarding that failed.
func parked(class job.FailureClass, stage, code, message string) onboarding.Onboarding {
	return underWay(func(o *onboarding.Onboarding) {
		o.Stage, o.FailureClass, o.ErrorCode, o.ErrorMessage, o.ErrorRemedy = stage, class, code, message, "put it right"
		o.Status, o.ParkedAt = job.FailedManualIntervention, atp(20)
		if class == bringup.UpstreamTransient {
			o.Status = job.FailedRetryable
		}
	})
}

type explained struct {
	name   string
	o      onboarding.Onboarding
	events []job.Event
}

func ended(status job.Status, change func(*onboarding.Onboarding)) onboarding.Onboarding {
	return underWay(func(o *onboarding.Onboarding) {
		o.Status, o.Stage, o.CompletedAt, o.StageStartedAt = status, bringup.WaitForAgentEnrollment, atp(29), nil
		change(o)
	})
}

func cases() []explained {
	same := func(*onboarding.Onboarding) {}
	failedOnce := []job.Event{
		{Seq: 1, Epoch: 2, Stage: bringup.WaitForDeployed, Attempt: 1, Status: job.StageStarted, OccurredAt: at(8)},
		{
			Seq: 2, Epoch: 2, Stage: bringup.WaitForDeployed, Attempt: 1, Status: job.StageFailed,
			Message: "MAAS does not answer", OccurredAt: at(9),
		},
	}
	return []explained{
		{"pending, waits for a place", underWay(func(o *onboarding.Onboarding) {
			o.Status, o.Stage, o.AdmittedAt, o.StartedAt, o.StageStartedAt = job.Pending, bringup.LoadSiteConfig, nil, nil, nil
			o.Observed, o.ObservedSince = bringup.Observed{}, nil
		}), nil},
		{"pending, has a place", underWay(func(o *onboarding.Onboarding) {
			o.Status, o.Stage, o.StartedAt, o.StageStartedAt = job.Pending, bringup.LoadSiteConfig, nil, nil
			o.Observed, o.ObservedSince = bringup.Observed{}, nil
		}), nil},
		{"running", underWay(same), nil},
		{"running, after a failed attempt", underWay(func(o *onboarding.Onboarding) { o.Attempt = 2 }), failedOnce},
		{"running, after an action", underWay(func(o *onboarding.Onboarding) {
			o.Action, o.Epoch = job.Rerun, 3
		}), failedOnce},
		{"compensating", underWay(func(o *onboarding.Onboarding) {
			o.Status, o.Action = job.Compensating, job.Cancel
		}), nil},
		{"compensating, not begun", underWay(func(o *onboarding.Onboarding) {
			o.Status, o.Action, o.StageStartedAt = job.Compensating, job.Cancel, nil
		}), nil},
		{"completed", ended(job.Completed, same), nil},
		{"reconciled", ended(job.Reconciled, func(o *onboarding.Onboarding) { o.Adopted = true }), nil},
		{"cancelled", ended(job.Cancelled, func(o *onboarding.Onboarding) {
			o.Stage, o.Facts.Left = bringup.DeployViaMAAS, []string{"the machine stays in MAAS as Ready"}
		}), nil},
		{"failed, input", parked(bringup.InputConfigError, bringup.LoadSiteConfig, "site_disabled",
			"the site dc1 is disabled"), nil},
		{"failed, capability", parked(bringup.SiteCapabilityMissing, bringup.LoadSiteConfig, "maas_image_missing",
			"MAAS has no image ubuntu/noble"), nil},
		{"failed, transient", parked(bringup.UpstreamTransient, bringup.WaitForReady, "some_new_code",
			"MAAS does not answer"), nil},
		{"failed, BMC", parked(bringup.BMCPowerFailure, bringup.CommissionNode, "maas_bmc_failure",
			"the BMC 10.0.0.43 does not answer"), nil},
		{"failed, discovery", parked(bringup.PXEDiscoveryFailure, bringup.CreateOrFindInMAAS, "discovery_timeout",
			"no machine appeared in 30 min"), nil},
		{"failed, hardware", parked(bringup.HardwareMismatch, bringup.ConfigureStorage, "boss_disk_not_found",
			"none of 9 disks is a BOSS disk"), nil},
		{"failed, installer", parked(bringup.DeployInstallerFailure, bringup.ClassifyDeployFailure, "deploy_failed",
			"the installation failed"), nil},
		{"failed, deployment of a row of before", parked(bringup.DeployCloudInitFailure,
			bringup.ClassifyDeployFailure, "deploy_failed", "the installation failed"), nil},
		{"failed, connectivity", deployed(parked(bringup.PostDeployConnectivityFailure, bringup.EnsureHardwareSyncConfigured,
			"ssh_unreachable", "10.20.0.43:22 does not answer")), nil},
		{"failed, hardware sync", deployed(parked(bringup.HardwareSyncFailure, bringup.WaitForHardwareSyncHealthy,
			"failed_hw_sync_health", "no sync for 60 min")), nil},
		{"failed, enrolment", deployed(parked(bringup.AgentEnrollmentFailure, bringup.WaitForAgentEnrollment,
			"failed_enrollment", "the agent has not polled in 30 min")), nil},
		{
			"failed, ambiguous, adoptable", deployed(
				parked(bringup.StateAmbiguity, bringup.WaitForDeployed, "maas_state_conflict", "somebody deployed the machine")),
			nil,
		},
		{"failed, ambiguous, gone", absent(parked(bringup.StateAmbiguity, bringup.WaitForReady, "machine_gone",
			"machine 4y3h7n is no longer in MAAS")), nil},
		{"failed, marked", parked(bringup.StateAmbiguity, bringup.WaitForReady, "operator_marked",
			"an operator stopped automation"), nil},
		{"failed, marked, told by whom", underWay(func(o *onboarding.Onboarding) {
			*o = parked(bringup.StateAmbiguity, bringup.WaitForReady, "operator_marked", "an operator stopped the automation")
			o.Action = job.MarkManual
		}), decided(job.MarkManual, "the rack is moved")},
		{"failed, then marked", underWay(func(o *onboarding.Onboarding) {
			*o = parked(bringup.HardwareMismatch, bringup.ConfigureStorage, "boss_disk_not_found",
				"none of 9 disks is a BOSS disk")
			o.Action = job.MarkManual
		}), decided(job.MarkManual, "I look at it")},
		{"cancelled, told by whom", ended(job.Cancelled, func(o *onboarding.Onboarding) {
			o.Stage = bringup.WaitForReady
		}), decided(job.Cancel, "wrong rack")},
		{"compensating, told by whom", underWay(func(o *onboarding.Onboarding) {
			o.Status, o.Action = job.Compensating, job.RestartClean
		}), decided(job.RestartClean, "suspect")},
		{"failed, disks are to be initialised", underWay(func(o *onboarding.Onboarding) {
			*o = parked(bringup.DeployCloudInitFailure, bringup.WaitForDeployed, "deployment_failed", "the installer failed")
			o.InitializeDisks = true
		}), nil},
		{"failed, undoing got stuck", underWay(func(o *onboarding.Onboarding) {
			*o = parked(bringup.BMCPowerFailure, bringup.WaitForDeployed, "maas_bmc_failure", "the BMC does not answer")
			o.Action = job.Cancel
		}), nil},
	}
}

// decided is the ledger after an operator acted.
func decided(action job.Trigger, reason string) []job.Event {
	return []job.Event{
		{
			Seq: 1, Epoch: 2, Stage: bringup.WaitForReady, Status: job.OperatorAction, Message: "an older one",
			Details: json.RawMessage(`{"action":"rerun","actor":"bob"}`), OccurredAt: at(5),
		},
		{
			Seq: 2, Epoch: 2, Stage: bringup.WaitForReady, Status: job.OperatorAction, Message: reason,
			Details: json.RawMessage(`{"action":"` + string(action) +
				`","actor":"01a1e019-0af2-78c8-9802-9b5514190f15","actor_name":"ada","actor_role":"platform_admin"}`),
			OccurredAt: at(19),
		},
	}
}

func deployed(o onboarding.Onboarding) onboarding.Onboarding {
	o.Facts.DeployedAt, o.Observed.Status = atp(12), "Deployed"
	return o
}

func absent(o onboarding.Onboarding) onboarding.Onboarding {
	o.Observed = bringup.Observed{Status: bringup.Absent, At: at(19)}
	return o
}

// What operators read is reviewed as text; the file is written by
// go test -run TestExplanations -update.
func TestExplanations(t *testing.T) {
	var b strings.Builder
	for _, c := range cases() {
		e := onboarding.Explain(c.o, c.events, at(45))
		_, _ = fmt.Fprintf(&b, "## %s\n%s\nexpected: %s\nobserved: %s\n", c.name, e.Summary, e.Expected, e.Observed)
		if e.LikelyCause != "" {
			_, _ = fmt.Fprintf(&b, "%s %s: %s\n", e.FailureClass, e.ErrorCode, e.LikelyCause)
		}
		for _, a := range e.Actions {
			if a.Legal {
				_, _ = fmt.Fprintf(&b, "  %d. %s (%s): %s\n     %s\n", a.Rank, a.Action, a.Safety, a.Does, a.Command)
			}
		}
		b.WriteString("\n")
	}
	path := filepath.Join("testdata", "explanations.golden")
	if *writeExplanations {
		if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("explanations differ (- file, + now); write them with: "+
			"go test ./controlplane/internal/work/onboarding -update\n%s", diff)
	}
}

func TestEveryClassAndStatusIsExplained(t *testing.T) {
	classes, statuses := map[job.FailureClass]bool{}, map[string]bool{}
	for _, c := range cases() {
		classes[c.o.FailureClass], statuses[string(c.o.Status)] = true, true
		e := onboarding.Explain(c.o, c.events, at(45))
		state, _ := job.Parking.Table.State(c.o.Status)
		switch {
		case e.Summary == "" || e.Observed == "" || e.Expected == "" != state.Terminal || e.WaitingSince == nil ||
			e.StageTitle == "":
			t.Errorf("%s is not explained: %+v", c.name, e)
		case (e.LikelyCause == "") != (c.o.FailureClass == ""):
			t.Errorf("%s has the cause %q", c.name, e.LikelyCause)
		case !state.Terminal && len(e.Actions) != len(job.Parking.AllActions()), state.Terminal && len(e.Actions) != 0:
			t.Errorf("%s offers %d actions", c.name, len(e.Actions))
		}
		checkActions(t, c, e)
	}
	met := map[job.FailureClass]bool{}
	for _, s := range onboarding.Stages() {
		for _, f := range s.Fails {
			met[f.Class] = true
		}
	}
	for class := range met {
		if !classes[class] {
			t.Errorf("no case of class %s", class)
		}
	}
	for _, status := range job.Parking.Table.Values() {
		if !statuses[status] {
			t.Errorf("no case of status %s", status)
		}
	}
}

// checkActions holds the list to its promise: legal ones first, ranked, each
// with a command, and a parked job always has one.
func checkActions(t *testing.T, c explained, e onboarding.Explanation) {
	t.Helper()
	legal := onboarding.LegalActions(c.o)
	for i, a := range e.Actions {
		if a.Legal != (i < len(legal)) || a.Legal && a.Rank != i+1 || !a.Legal && a.Rank != 0 {
			t.Errorf("%s: action %d is %+v of %d legal", c.name, i, a, len(legal))
		}
		if a.Does == "" || a.Safety == "" || !strings.HasPrefix(a.Command, "gpuaas onboarding ") ||
			strings.Contains(a.Command, "_") {
			t.Errorf("%s: %+v", c.name, a)
		}
	}
	if c.o.ParkedAt != nil && len(legal) == 0 {
		t.Errorf("%s: nothing can be done", c.name)
	}
}

// Explanations are for people and programs that compare them.
func TestExplanationsAreDeterministic(t *testing.T) {
	for _, c := range cases() {
		one, err := json.Marshal(onboarding.Explain(c.o, c.events, at(45)))
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			if two, err := json.Marshal(onboarding.Explain(c.o, c.events, at(45))); err != nil || string(one) != string(two) {
				t.Fatalf("%s: %s\n%s\n%v", c.name, one, two, err)
			}
		}
	}
}
