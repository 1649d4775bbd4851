package bringup_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane/internal/adapter/ssh/sshtest"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
)

// awaiting is a job whose machine is deployed, synced and at its first boot.
func awaiting(t *testing.T) (*world, *box, *bringup.Work) {
	t.Helper()
	w, s := newStreet(t, 1)
	b, job := s.awaiting(t, w, 1)
	return w, b, job
}

func (s *street) awaiting(t *testing.T, w *world, n int) (*box, *bringup.Work) {
	t.Helper()
	b, job := s.deploys(t, w, n)
	w.does(t, bringup.EnsureHardwareSyncConfigured, job)
	w.does(t, bringup.WaitForHardwareSyncHealthy, job)
	job.Since = time.Now()
	job.Deadline = job.Since.Add(30 * time.Minute)
	return b, job
}

// polls lets the agent of the job's node poll for the first time.
func (w *world) polls(t *testing.T, job *bringup.Work) {
	t.Helper()
	if _, err := w.owner.Exec(t.Context(), `UPDATE nodes SET first_poll_at = now(), reported_agent_version = '1.2.3' WHERE id = $1`, job.Node); err != nil {
		t.Fatal(err)
	}
}

// passes lets time of the wait pass.
func passes(job *bringup.Work, d time.Duration) {
	job.Since, job.Deadline = job.Since.Add(-d), job.Deadline.Add(-d)
	if at := job.Facts.TokenRefreshed; at != nil {
		job.Facts.TokenRefreshed = set(at.Add(-d))
	}
}

// waits runs the stage, which must leave until the first poll or so long.
func (w *world) waits(t *testing.T, job *bringup.Work, about time.Duration) bringup.Result {
	t.Helper()
	r := w.does(t, bringup.WaitForAgentEnrollment, job)
	if r.Await == nil || r.Await.Signal != node.EnrolledSignal || r.Await.Most > about ||
		r.Await.Most < about-time.Minute {
		t.Fatalf("%+v, %+v: want a wait of about %s", r, r.Await, about)
	}
	return r
}

func (w *world) expiry(t *testing.T, job *bringup.Work) (at time.Time) {
	t.Helper()
	if err := w.owner.QueryRow(t.Context(), `SELECT max(expires_at) FROM node_tokens WHERE node_id = $1 AND revoked_at IS NULL`, job.Node).Scan(&at); err != nil {
		t.Fatal(err)
	}
	return at
}

func record(layer, state string, code int) string {
	return fmt.Sprintf(`{"layer":%q,"version":"7","digest":"sha256:0","state":%q,"started_at":"2026-01-01T00:00:00Z","ended_at":null,"exit_code":%d,`+
		`"step":"run /usr/bin/x gpuaas_nCANARYTOKEN","reason":"curl: (7) could not connect gpuaas_nCANARYTOKEN"}`+"\n", layer, state, code)
}

func TestAnAgentThatHasPolledIsEnrolled(t *testing.T) {
	t.Parallel()
	w, b, job := awaiting(t)
	said := len(b.Commands())
	w.asked.reset()
	if r := w.waits(t, job, 10*time.Minute); r.Message != "" {
		t.Errorf("nothing is new, yet it says %q", r.Message)
	}
	w.polls(t, job)
	r := w.does(t, bringup.WaitForAgentEnrollment, job)
	if r.Await != nil || !strings.Contains(r.Message, "1.2.3") || job.Facts.TokenRefreshes != 0 {
		t.Errorf("%+v", r)
	}
	if len(b.Commands()) != said || w.asked.of("machine.get") != 2 {
		t.Errorf("more than needed was done: %q, %s", b.Commands()[said:], w.asked)
	}
}

func TestAMachineThatDoesNotEnrolIsRefreshedTwice(t *testing.T) {
	t.Parallel()
	w, b, job := awaiting(t)
	w.waits(t, job, 10*time.Minute)
	if _, err := w.owner.Exec(t.Context(), `UPDATE node_tokens SET expires_at = now() - interval '1 minute' WHERE node_id = $1`, job.Node); err != nil {
		t.Fatal(err)
	}
	b.set(func() {
		b.records = record("deploy-user", "succeeded", 0) + record("agent-bootstrap", "failed", 7)
	})
	for refresh := 1; refresh <= 2; refresh++ {
		passes(job, 10*time.Minute)
		said := len(b.Commands())
		r := w.waits(t, job, 10*time.Minute)
		if got := b.Commands()[said:]; !slices.Equal(got, []string{recordsCommand, repeatCommand}) {
			t.Errorf("said %q", got)
		}
		if job.Facts.TokenRefreshes != refresh || r.Message == "" || r.Details["first_boot_layer"] != "agent-bootstrap" {
			t.Errorf("refresh %d: %+v, %+v", refresh, r, job.Facts)
		}
		if until := w.expiry(t, job); until.Before(time.Now().Add(time.Hour)) || !job.Facts.TokenExpiresAt.Equal(until) {
			t.Errorf("the token lives until %s, the facts say %s", until, job.Facts.TokenExpiresAt)
		}
		w.discreet(t, r.Message, fmt.Sprint(r.Details))
		// The signal of something else, or of nothing, makes it look again.
		w.waits(t, job, 10*time.Minute)
	}
	passes(job, 10*time.Minute)
	f := w.fails(t, bringup.WaitForAgentEnrollment, job, bringup.AgentEnrollmentFailure, "gpuaas_bootstrap_failed")
	if !f.Final || f.Details["first_boot_layer"] != "agent-bootstrap" || f.Details["first_boot_status"] != 7 ||
		!strings.Contains(f.Details["first_boot_reason"].(string), "could not connect") {
		t.Errorf("%+v", f)
	}
	if text := fmt.Sprint(f.Message, f.Details); strings.Contains(text, "CANARYTOKEN") {
		t.Errorf("a token is told: %s", text)
	}
	// An operator resumes: the machine tries at once, and late success counts.
	job.Epoch++
	job.Since = time.Now()
	job.Deadline = job.Since.Add(30 * time.Minute)
	said := len(b.Commands())
	w.waits(t, job, 20*time.Minute)
	if got := b.Commands()[said:]; len(got) != 2 || job.Facts.TokenRefreshes != 1 {
		t.Errorf("said %q, %+v", got, job.Facts)
	}
	passes(job, time.Hour)
	w.polls(t, job)
	if r := w.does(t, bringup.WaitForAgentEnrollment, job); r.Await != nil {
		t.Errorf("%+v", r)
	}
	b.discreetAbout(t, job)
}

func TestWhyAnAgentDoesNotCome(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		records string
		spoil   func(b *box)
		code    string
		told    string
	}{
		"the site's bundle": {record("site-bundle", "failed", 3), nil, "site_bootstrap_failed", "site-bundle"},
		"a layer of ours": {
			record("site-bundle", "succeeded", 0) + record("hardware-sync", "failed", 1), nil,
			"gpuaas_bootstrap_failed", "hardware-sync",
		},
		"still at it":       {record("agent-bootstrap", "started", 0), nil, "failed_enrollment", "started"},
		"everything worked": {record("agent-bootstrap", "succeeded", 0), nil, "failed_enrollment", "succeeded"},
		"nonsense":          {"\x1b[31m{\n[]\n" + strings.Repeat("x", 1<<20), nil, "failed_enrollment", "poll"},
		"no records":        {"", nil, "failed_enrollment", "poll"},
		"cannot be reached": {"", func(b *box) { b.away = []string{"*"} }, "failed_enrollment", "no SSH connection"},
		"records are refused": {
			"", func(b *box) { b.replies[recordsCommand] = sshtest.Reply{Status: 1, Stderr: "sudo: no"} },
			"failed_enrollment", "status 1",
		},
	}
	w, street := newStreet(t, len(cases))
	n := 0
	for name, c := range cases {
		n++
		t.Run(name, func(t *testing.T) {
			b, job := street.awaiting(t, w, n)
			b.set(func() {
				b.records = c.records
				if c.spoil != nil {
					c.spoil(b)
				}
			})
			job.Facts.EnrollEpoch, job.Facts.TokenRefreshes = job.Epoch, 2
			passes(job, 31*time.Minute)
			f := w.fails(t, bringup.WaitForAgentEnrollment, job, bringup.AgentEnrollmentFailure, c.code)
			if text := fmt.Sprint(f.Message, f.Details); !strings.Contains(text, c.told) ||
				strings.Contains(text, "CANARYTOKEN") || len(text) > 4000 {
				t.Errorf("told: %s", text)
			}
			if _, told := f.Details["first_boot_reason"]; told && c.code == "site_bootstrap_failed" {
				t.Error("what a program of the site printed is told")
			}
			if slices.Contains(b.Commands(), repeatCommand) {
				t.Error("the first boot was repeated")
			}
		})
	}
}

func TestARefreshThatCannotReachTheMachineStillWaits(t *testing.T) {
	t.Parallel()
	w, b, job := awaiting(t)
	b.set(func() { b.away = []string{"*"} })
	passes(job, 11*time.Minute)
	r := w.waits(t, job, 10*time.Minute)
	if job.Facts.TokenRefreshes != 1 || !strings.Contains(fmt.Sprint(r.Details["ssh"]), "no SSH connection") {
		t.Errorf("%+v", r)
	}
}

// The agent needs the control plane to enrol: however long that was away, the
// wait goes on for a while when it is back.
func TestAnOutageOfTheControlPlaneDoesNotUseUpTheWait(t *testing.T) {
	t.Parallel()
	w, _, job := awaiting(t)
	w.waits(t, job, 10*time.Minute)
	for refresh := 1; refresh <= 2; refresh++ {
		passes(job, 40*time.Minute)
		w.waits(t, job, 10*time.Minute)
		w.waits(t, job, 10*time.Minute)
		if job.Facts.TokenRefreshes != refresh {
			t.Errorf("refreshed %d times, want %d", job.Facts.TokenRefreshes, refresh)
		}
	}
	passes(job, 40*time.Minute)
	if r := w.waits(t, job, 10*time.Minute); r.Message == "" || job.Facts.TokenRefreshes != 2 {
		t.Errorf("%+v, refreshed %d times", r, job.Facts.TokenRefreshes)
	}
	w.waits(t, job, 10*time.Minute)
	passes(job, 10*time.Minute+time.Second) // somebody was there all the time
	w.fails(t, bringup.WaitForAgentEnrollment, job, bringup.AgentEnrollmentFailure, "failed_enrollment")
}

// An agent that comes after the wait was given up ends the job once somebody
// adopts what there is: nothing is awaited or seeded again.
func TestALateAgentIsAdopted(t *testing.T) {
	t.Parallel()
	w, b, job := awaiting(t)
	job.Facts.EnrollEpoch, job.Facts.TokenRefreshes = job.Epoch, 2
	passes(job, 31*time.Minute)
	w.fails(t, bringup.WaitForAgentEnrollment, job, bringup.AgentEnrollmentFailure, "failed_enrollment")
	w.polls(t, job)
	job.Epoch++
	said := len(b.Commands())
	r, err := w.bringup.Adopt(system(t), job)
	if err != nil || r.Next != bringup.WaitForAgentEnrollment {
		t.Fatalf("it goes on with %q, %v", r.Next, err)
	}
	if r := w.does(t, r.Next, job); r.Await != nil || len(b.Commands()) != said {
		t.Errorf("%+v, said %q", r, b.Commands()[said:])
	}
}

func TestWhatEndsTheWaitForAnAgent(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		spoil func(t *testing.T, w *world, b *box, job *bringup.Work)
		code  string
	}{
		"released": {func(t *testing.T, w *world, _ *box, job *bringup.Work) {
			t.Helper()
			w.polls(t, job)
			w.happens(t, job.SystemID, "release")
		}, "machine_not_deployed"},
		"recreated": {func(t *testing.T, w *world, _ *box, job *bringup.Work) {
			t.Helper()
			w.happens(t, job.SystemID, "recreate")
		}, "machine_gone"},
		"another key": {func(t *testing.T, _ *world, b *box, job *bringup.Work) {
			t.Helper()
			b.Reinstall(t)
			passes(job, 11*time.Minute)
		}, "ssh_host_key_changed"},
		"no node": {func(_ *testing.T, _ *world, _ *box, job *bringup.Work) { job.Node[15] ^= 1 }, "node_conflict"},
		"node taken away": {func(t *testing.T, w *world, _ *box, job *bringup.Work) {
			t.Helper()
			if _, err := w.owner.Exec(t.Context(), `UPDATE nodes SET status = 'quarantined' WHERE id = $1`, job.Node); err != nil {
				t.Fatal(err)
			}
		}, "node_conflict"},
	}
	w, street := newStreet(t, len(cases))
	n := 0
	for name, c := range cases {
		n++
		t.Run(name, func(t *testing.T) {
			b, job := street.awaiting(t, w, n)
			c.spoil(t, w, b, job)
			if f := w.fails(t, bringup.WaitForAgentEnrollment, job, bringup.StateAmbiguity, c.code); !f.Final {
				t.Error("it would be tried again")
			}
		})
	}
}

func TestAWaitThatWasTakenOverRefreshesNothing(t *testing.T) {
	t.Parallel()
	w, b, job := awaiting(t)
	passes(job, 11*time.Minute)
	before, said := w.expiry(t, job), len(b.Commands())
	taken := errors.New("taken over")
	job.Fence = func(context.Context) error { return taken }
	if _, err := w.bringup.WaitForAgentEnrollment(system(t), job); !errors.Is(err, taken) {
		t.Errorf("failure is %v", err)
	}
	if !w.expiry(t, job).Equal(before) || len(b.Commands()) != said {
		t.Error("something was done")
	}
}
