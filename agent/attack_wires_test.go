package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuaas/agent/internal/config"
	"gpuaas/agent/internal/planetest"
	"gpuaas/contract/agentwire"
)

// renewsAtOnce makes every agent that starts renew its certificate first.
func renewsAtOnce(s *planetest.Settings) { s.Life, s.RenewAfter = 10*time.Minute, -30*time.Minute }

// trusts returns everything on the disk that says whom the node trusts.
func (r *rig) trusts() map[string]string {
	r.t.Helper()
	out := map[string]string{}
	for _, path := range []string{
		config.CAFile, config.NodeCAFile, config.StateFolder + "/verifiers.json",
		config.StateFolder + "/identity/cert.pem",
	} {
		raw, err := os.ReadFile(filepath.Join(r.root, path))
		if err != nil {
			r.t.Fatal(err)
		}
		out[path] = string(raw)
	}
	return out
}

func (r *rig) unchanged(before map[string]string) {
	r.t.Helper()
	for path, now := range r.trusts() {
		if now != before[path] {
			r.t.Errorf("%s was changed to\n%s", path, now)
		}
	}
}

// Whoever has the key and the certificate of the listener ends TLS and can
// answer anything. They must not be able to give orders, today or after the
// next renewal.
func TestAttackAStolenListenerKeyGivesNoOrders(t *testing.T) {
	r := fresh(t)
	r.Update(renewsAtOnce)
	r.enroll()
	before := r.trusts()
	thief := r.Thief()
	thief.Update(func(s *planetest.Settings) {
		renewsAtOnce(s)
		s.Verifiers.Version = 2
		s.Trust.IssuerVersion, s.Trust.BundleVersion = 2, 2
		s.Bundle = planetest.BundleOf("2", r.ServerCA()+thief.ServerCA())
		s.Trust.Forge = func(i *agentwire.Issued) { i.Generation = 1 << 40 }
	})
	r.Stop()
	thief.Start()
	a := r.start(nil)
	thief.Await("a forged renewal", func(s *planetest.Seen) bool { return s.Renewals >= 1 })
	order := thief.Envelope(agentwire.TypeHealthProbe, agentwire.HealthProbeParams{}, nil)
	set := thief.Envelope(agentwire.TypeUpdateVerifiers,
		agentwire.UpdateVerifiersParams{Set: *thief.Statements()[0].Verifiers}, nil)
	thief.Deliver(order, set)
	for _, e := range []agentwire.Envelope{order, set} {
		if got := thief.Result(e.TaskID); got.Status != agentwire.ResultRefused {
			t.Errorf("a forged %s ended as %+v", e.Type, got)
		}
	}
	if n := counts(t, r.root, "begun"); n != 0 {
		t.Errorf("%d forged orders were carried out", n)
	}
	if err := a.stop(); err != nil {
		t.Error(err)
	}
	r.unchanged(before)
	if !strings.Contains(a.log.String(), agentwire.CodeTrustUnsigned) {
		t.Error("the refusal is not in the log")
	}

	// The control plane is back: the node works, and reports what it was
	// offered.
	thief.Stop()
	r.Start()
	r.start(nil)
	e := r.probe(nil)
	r.Deliver(e)
	if got := r.Result(e.TaskID); got.Status != agentwire.ResultSucceeded {
		t.Errorf("after the attack: %+v", got)
	}
	r.Await("a report of the refusal", func(s *planetest.Seen) bool { return len(s.TrustRefused) > 0 })
}
