package cli

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"gpuaas/cli/internal/failure"
	"gpuaas/contract/apiclient"
)

// parkedAs is a parked onboarding of another host, stage and code.
func parkedAs(hostname, id, stage, code string) string {
	return strings.NewReplacer("c07u43", hostname, onboardingID, id, "wait_for_ready", stage, "failed_commission", code).
		Replace(onboardingParked)
}

// Boards, watches and actions on many find jobs of every kind by their ids.
func TestEveryKindOfJobHasAnID(t *testing.T) {
	for _, kind := range apiclient.Words("FleetviewSpotJob.kind") {
		var v jobView
		if err := json.Unmarshal([]byte(`{"`+kind+`_id":"42"}`), &v); err != nil || v.id() != "42" {
			t.Errorf("jobID (job_board.go) does not read %s_id: %q, %v", kind, v.id(), err)
		}
	}
}

const otherOnboarding = "0190b2f4-7c1e-7d3a-8f5b-0000000000aa"

func TestManyJobsAreAskedAboutAndSentAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		args, answer, asks, sent string
		exit                     int
	}{
		"by cause": {
			"onboarding retry --batch " + batchID + " --stage wait_for_ready --class hardware_mismatch --code failed_commission " +
				"--reason fixed", "yes\n", "This does retry for 1 onboarding: c07u43\nFor each of them: Run the failed stage again",
			`{"action":"retry_stage","jobs":[{"epoch":1,"job_id":"` + onboardingID + `"}],"reason":"fixed"}`, failure.Conflict,
		},
		"all of a batch": {
			"onboarding rerun --batch " + batchID + " --reason fixed", "yes\n", "rerun for 2 onboardings: c07u43, c07u44",
			`{"action":"rerun","jobs":[{"epoch":1,"job_id":"` + onboardingID + `"},{"epoch":1,"job_id":"` + otherOnboarding +
				`"}],"reason":"fixed"}`, failure.Conflict,
		},
		"by names": {
			"onboarding cancel c07u43 " + onboardingID + " --reason fixed", "yes\n", "cancel for 1 onboarding: c07u43",
			`{"action":"cancel","jobs":[{"epoch":1,"job_id":"` + onboardingID + `"}],"reason":"fixed"}`, failure.Conflict,
		},
		"not meant": {
			"onboarding restart-clean --batch " + batchID + " --reason fixed", "no\n", "DESTROYS ALL DATA", "",
			failure.Interrupted,
		},
		"no question": {
			"onboarding retry --batch " + batchID + " --code failed_commission --reason fixed --yes", "", "",
			`{"action":"retry_stage","jobs":[{"epoch":1,"job_id":"` + onboardingID + `"}],"reason":"fixed"}`, failure.Conflict,
		},
		"none": {
			"onboarding retry --batch " + batchID + " --code none --reason fixed", "yes\n", "", "", failure.Conflict,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeAPI(t)
			f.on("list-onboardings", pageOf(onboardingParked, parkedAs("c07u44", otherOnboarding, "wait_for_deployed", "other")))
			b := signedIn(t, f)
			b.around.Terminal = func(io.Writer) bool { return true }
			b.in = c.answer
			got := b.run(strings.Fields(c.args)...)
			var bodies []string
			for _, call := range f.received() {
				if call.operation == "act-on-onboardings" {
					bodies = append(bodies, call.body)
				}
			}
			sent := strings.Join(bodies, "")
			if got.exit != c.exit || sent != c.sent || !strings.Contains(got.err, c.asks) ||
				(c.asks != "") != strings.Contains(got.err, "Type yes") {
				t.Errorf("sent %s; %+v", sent, got)
			}
		})
	}
}

// What was done to all is no failure; with -o json it is printed as the API says it.
func TestManyJobsThatWereAllDone(t *testing.T) {
	f := newFakeAPI(t)
	done := `{"action":"retry_stage","done":1,"refused":0,"jobs":[{"job_id":"` + decommissionID +
		`","hostname":"c07u31","outcome":"done","status":"running","current_stage":"drain_node","epoch":2}]}`
	f.on("act-on-decommissions", answer(202, done), answer(202, done))
	b := signedIn(t, f)
	args := "decommission retry c07u31 " + decommissionID + " --yes --reason fixed"
	if got := b.must(strings.Fields(args)...); !strings.Contains(got.stdout, "c07u31    done     running  drain_node") {
		t.Errorf("%+v", got)
	}
	if got := b.must(strings.Fields(args + " -o json")...); !strings.Contains(got.stdout, `"outcome": "done"`) {
		t.Errorf("%+v", got)
	}
}

func TestManyJobsMisnamed(t *testing.T) {
	for args, want := range map[string]string{
		"onboarding retry --reason r":                           "missing ONBOARDING, or --batch",
		"onboarding retry a --batch " + batchID + " --reason r": "not both",
		"onboarding retry a b --stage s --reason r":             "--batch is required",
		"decommission retry --code c --reason r":                "--batch is required",
		"onboarding retry a b":                                  "--reason is required",
		"onboarding retry --batch nonsense --reason r":          "is not the id of a batch",
	} {
		f := newFakeAPI(t)
		if got := signedIn(t, f).run(strings.Fields(args)...); got.exit != failure.Usage || !strings.Contains(got.err, want) {
			t.Errorf("%s: %+v", args, got)
		}
		if len(f.received()) > 0 {
			t.Errorf("%s called %v", args, f.received())
		}
	}
}
