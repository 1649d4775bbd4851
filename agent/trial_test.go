package agent

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gpuaas/agent/internal/planetest"
	"gpuaas/agent/internal/update"
	"gpuaas/contract/agentwire"
	"gpuaas/testkit"
)

// onTrial installs this version beside an older one, as an update would.
func (r *rig) onTrial() (current func() string) {
	r.t.Helper()
	folder := filepath.Join(r.root, "opt/gpuaas/agent")
	for _, v := range []string{"1.0.0", testBuild.Version} {
		if err := os.MkdirAll(filepath.Join(folder, v), 0o750); err != nil {
			r.t.Fatal(err)
		}
	}
	change := update.Change{
		TaskID: "t", From: "1.0.0", To: testBuild.Version, Folder: testBuild.Version, Home: "1.0.0",
		State: update.OnTrial, At: time.Now(),
	}
	if err := errors.Join(
		os.Symlink(testBuild.Version, filepath.Join(folder, "current")),
		os.Symlink("1.0.0", filepath.Join(folder, "previous")),
		os.WriteFile(filepath.Join(r.root, "var/lib/gpuaas/update.json"), []byte(asJSON(r.t, change)), 0o600),
	); err != nil {
		r.t.Fatal(err)
	}
	return func() string {
		to, err := os.Readlink(filepath.Join(folder, "current"))
		if err != nil {
			r.t.Fatal(err)
		}
		return filepath.Base(to)
	}
}

func (r *rig) lastChange() update.State {
	r.t.Helper()
	c, _, err := update.New(hostOfRoot(r.root), testBuild.Version, time.Now).Last()
	if err != nil {
		r.t.Fatal(err)
	}
	return c.State
}

func TestANewVersionIsConfirmedByAPoll(t *testing.T) {
	r := newRig(t)
	current := r.onTrial()
	a := r.start(nil)
	testkit.Eventually(r.t, "confirmed", func() bool { return r.lastChange() == update.Confirmed })
	if err := a.stop(); err != nil || current() != testBuild.Version {
		t.Errorf("ended with %v, current is %s", err, current())
	}
}

// If the record cannot be written when the control plane is reached, a later
// contact writes it, and the trial does not fail meanwhile.
func TestAConfirmationIsTriedAgain(t *testing.T) {
	r := newRig(t)
	current := r.onTrial()
	a, err := open(Options{HostRoot: r.root, Build: testBuild, trial: time.Hour}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	reached, err := a.beginTrial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	record := filepath.Join(r.root, "var/lib/gpuaas/update.json")
	if err := errors.Join(os.Rename(record, record+".kept"), os.Mkdir(record, 0o700)); err != nil {
		t.Fatal(err)
	}
	reached()
	if err := errors.Join(os.Remove(record), os.Rename(record+".kept", record)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		reached()
		if r.lastChange() != update.Confirmed || current() != testBuild.Version {
			t.Fatalf("the change is %s, current is %s", r.lastChange(), current())
		}
	}
	r.Await("one renewal", func(s *planetest.Seen) bool { return s.Renewals == 1 })
}

func TestANewVersionThatReachesNobodyGivesWay(t *testing.T) {
	r := newRig(t)
	current := r.onTrial()
	r.Stop()
	a := r.start(nil, func(o *Options) { o.trial = 200 * time.Millisecond })
	<-a.ended
	if err := a.stop(); !errors.Is(err, ErrRestart) {
		t.Errorf("ended with %v", err)
	}
	if current() != "1.0.0" || r.lastChange() != update.RolledBack {
		t.Errorf("current is %s, the change %s", current(), r.lastChange())
	}
}

// Whoever cannot renew is lost when the certificate ends: such a version gives way, and
// says why.
func TestANewVersionThatCannotRenewGivesWay(t *testing.T) {
	r := newRig(t)
	current := r.onTrial()
	r.refuseRenewals(http.StatusUnprocessableEntity, "csr_refused", 1000)
	a := r.start(nil)
	<-a.ended
	if err := a.stop(); !errors.Is(err, ErrRestart) {
		t.Errorf("ended with %v", err)
	}
	c, _, err := update.New(hostOfRoot(r.root), testBuild.Version, time.Now).Last()
	if err != nil || current() != "1.0.0" || c.State != update.RolledBack || !strings.Contains(c.Reason, "csr_refused") {
		t.Errorf("current is %s, %+v, %v", current(), c, err)
	}
}

// A control plane that is not able to renew says nothing about the version: it is
// confirmed, and renews as soon as it can.
func TestAControlPlaneThatCannotRenewFailsNoTrial(t *testing.T) {
	r := newRig(t)
	r.onTrial()
	r.refuseRenewals(http.StatusServiceUnavailable, "unavailable", 1)
	r.start(nil)
	testkit.Eventually(r.t, "confirmed", func() bool { return r.lastChange() == update.Confirmed })
	r.Await("a renewal", func(s *planetest.Seen) bool { return s.Renewals == 1 })
}

// A version that somebody went back to is known, and has nothing to prove.
func TestAWayBackNeedsNoRenewal(t *testing.T) {
	r := newRig(t)
	r.onTrial()
	record := filepath.Join(r.root, "var/lib/gpuaas/update.json")
	c, _, err := update.New(hostOfRoot(r.root), testBuild.Version, time.Now).Last()
	if err != nil {
		t.Fatal(err)
	}
	c.Back = true
	if err := os.WriteFile(record, []byte(asJSON(t, c)), 0o600); err != nil {
		t.Fatal(err)
	}
	r.refuseRenewals(http.StatusUnprocessableEntity, "csr_refused", 1000)
	r.start(nil)
	testkit.Eventually(r.t, "confirmed", func() bool { return r.lastChange() == update.Confirmed })
}

func TestAnAgentSaysHowItIs(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	r.Await("vitals", func(s *planetest.Seen) bool {
		return s.Vitals.MemoryBytes > 1<<20 && s.Vitals.MemoryBytes < 4<<30 && s.Vitals.Uptime >= time.Second
	})
}

// refuseRenewals refuses so many of them.
func (r *rig) refuseRenewals(status int, code string, times int64) {
	var asked atomic.Int64
	r.Update(func(s *planetest.Settings) {
		s.Refuse = func(req *http.Request) *agentwire.Problem {
			if !strings.HasSuffix(req.URL.Path, "/cert/renew") || asked.Add(1) > times {
				return nil
			}
			return &agentwire.Problem{Status: status, Code: code, Title: code}
		}
	})
}

func TestTheGuardTakesAVersionAwayThatDoesNotStart(t *testing.T) {
	r := newRig(t)
	current := r.onTrial()
	for range 3 {
		if back, err := Guard(Options{HostRoot: r.root}); err != nil || back {
			t.Fatalf("%v, %v", back, err)
		}
	}
	if back, err := Guard(Options{HostRoot: r.root}); err != nil || !back || current() != "1.0.0" {
		t.Errorf("%v, %v, current is %s", back, err, current())
	}
}
