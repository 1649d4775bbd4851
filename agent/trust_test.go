package agent

import (
	"crypto/ed25519"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuaas/agent/internal/config"
	"gpuaas/agent/internal/planetest"
	"gpuaas/contract/agentwire"
	"gpuaas/testkit"
)

// nudge tells the agent that there is something new to trust.
func (r *rig) nudge() agentwire.ResultRequest {
	r.t.Helper()
	var set agentwire.VerifierSet
	r.Update(func(s *planetest.Settings) { set = s.Verifiers })
	e := r.Envelope(agentwire.TypeUpdateVerifiers, agentwire.UpdateVerifiersParams{Set: set}, nil)
	r.Deliver(e)
	return r.Result(e.TaskID)
}

func (r *rig) works() {
	r.t.Helper()
	e := r.probe(nil)
	r.Deliver(e)
	if got := r.Result(e.TaskID); got.Status != agentwire.ResultSucceeded {
		r.t.Errorf("a task of the control plane ended as %+v", got)
	}
}

// If a part of an otherwise good answer is forged, the agent ignores that part
// and reports it.
func TestAttackForgedPartsOfARenewalAreLeftOut(t *testing.T) {
	forger := planetest.New(t)
	forger.Update(func(s *planetest.Settings) {
		s.Verifiers.Version, s.Trust.IssuerVersion, s.Trust.BundleVersion = 2, 2, 2
	})
	forged := forger.Statements()
	for name, c := range map[string]struct {
		forge func(*agentwire.Issued)
		want  string
	}{
		"verifiers without a signature": {func(i *agentwire.Issued) {
			i.Verifiers, i.Trust = *forged[0].Verifiers, nil
		}, agentwire.CodeTrustUnsigned + " " + agentwire.AboutVerifiers},
		"verifiers signed by a stranger": {func(i *agentwire.Issued) { i.Trust[0] = forged[0] }, agentwire.CodeTrustUnsigned +
			" " + agentwire.AboutVerifiers},
		"a bundle without a signature": {func(i *agentwire.Issued) {
			i.TrustBundle, i.Trust = planetest.BundleOf("2", i.TrustBundle.PEM+forger.ServerCA()), nil
		}, agentwire.CodeTrustUnsigned + " " + agentwire.AboutBundle},
		"a bundle signed by a stranger": {func(i *agentwire.Issued) { i.Trust[2] = forged[2] }, agentwire.CodeTrustUnsigned +
			" " + agentwire.AboutBundle},
		"an issuer signed by a stranger": {func(i *agentwire.Issued) { i.Trust[1] = forged[1] }, agentwire.CodeTrustUnsigned +
			" " + agentwire.AboutIssuer},
		"a generation out of reach": {
			func(i *agentwire.Issued) { i.Generation = 1 << 40 },
			agentwire.CodeGenerationJump + " generation",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := fresh(t)
			r.Update(renewsAtOnce)
			r.enroll()
			before := r.trusts()
			r.Update(func(s *planetest.Settings) { s.Trust.Forge = c.forge })
			a := r.start(nil)
			r.Await("the refusal", func(s *planetest.Seen) bool { return s.Renewals > 0 && s.TrustRefused[c.want] })
			r.works()
			if err := a.stop(); err != nil {
				t.Error(err)
			}
			delete(before, config.StateFolder+"/identity/cert.pem") // it was good
			for path, was := range before {
				if now := r.trusts()[path]; now != was {
					t.Errorf("%s was changed to\n%s", path, now)
				}
			}
			if s := r.status(); s.Generation != 1 || s.TrustRefused == nil ||
				!strings.Contains(a.log.String(), "recovery token") {
				t.Errorf("generation %d, refused %+v", s.Generation, s.TrustRefused)
			}
		})
	}
}

// The task is about verifiers: if something else does not fit at the moment, it
// is reported and does not make the task fail.
func TestVerifiersAreTakenOverBesideABundleThatIsRefused(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	next, _ := r.NextListener()
	r.Update(func(s *planetest.Settings) {
		s.Verifiers.Version = 2
		s.Bundle, s.Trust.BundleVersion = planetest.BundleOf("b", next), 2 // the listener is not there yet
	})
	if got := r.nudge(); got.Status != agentwire.ResultSucceeded {
		t.Errorf("%+v", got)
	}
	if s := r.status(); s.VerifierVersion != 2 || s.BundleVersion == 2 || s.TrustRefused == nil {
		t.Errorf("%+v", s)
	}
	r.Update(func(s *planetest.Settings) { s.Verifiers.Version = 1 << 40 })
	if got := r.nudge(); got.Status != agentwire.ResultFailed {
		t.Errorf("verifiers that were not taken over: %+v", got)
	}
}

// The CA of the listener is replaced and no node is cut off: nodes accept both
// CAs, the listener changes, the former CA is dropped.
func TestTheCAOfTheListenerIsReplaced(t *testing.T) {
	r := newRig(t)
	former := r.ServerCA()
	r.start(nil)
	next, swap := r.NextListener()
	taken := func(version int64, bundle string) {
		t.Helper()
		r.Update(func(s *planetest.Settings) {
			s.Bundle, s.Trust.BundleVersion = planetest.BundleOf("b", bundle), version
		})
		if got := r.nudge(); got.Status != agentwire.ResultSucceeded {
			t.Fatalf("%+v", got)
		}
		r.Await("the bundle reported", func(s *planetest.Seen) bool { return s.TrustBundles[sha256Of(bundle)] })
		raw, err := os.ReadFile(filepath.Join(r.root, config.CAFile))
		if err != nil || string(raw) != bundle || r.status().BundleVersion != version {
			t.Errorf("bundle %d is not on the disk: %v", version, err)
		}
	}
	taken(2, former+next)
	r.works()
	r.Stop()
	swap()
	r.Start()
	r.works()
	taken(3, next)
	r.works()
	for _, c := range Doctor(t.Context(), Options{HostRoot: r.root}) {
		if c.Status != CheckOK {
			t.Errorf("afterwards: %+v", c)
		}
	}
}

// A node whose only key was revoked takes nothing over. A recovery token, for
// which an operator vouches, brings it back.
func TestANodeThatKnowsOnlyARevokedSignerNeedsARecoveryToken(t *testing.T) {
	r := newRig(t)
	next, key := planetest.SecondSigner(t, "signer-2")
	r.Update(func(s *planetest.Settings) {
		s.Verifiers = agentwire.VerifierSet{
			Version: 2, Verifiers: []agentwire.Verifier{next},
			Revoked: []string{planetest.Signer},
		}
		s.Trust.Signers = map[string]ed25519.PrivateKey{next.ID: key}
	})
	a := r.start(nil)
	want := agentwire.CodeTrustUnsigned + " " + agentwire.AboutVerifiers
	r.Await("the refusal", func(s *planetest.Seen) bool { return s.TrustRefused[want] })
	if s := r.status(); s.VerifierVersion != 1 || s.TrustRefused == nil {
		t.Errorf("%+v", s)
	}
	if got := find(Doctor(t.Context(), Options{HostRoot: r.root}), "trust"); got.Status != CheckWarning ||
		!strings.Contains(got.Remedy, "--recovery") {
		t.Errorf("%+v", got)
	}
	if err := a.stop(); err != nil {
		t.Error(err)
	}
	r.enroll()
	if s := r.status(); s.VerifierVersion != 2 || s.TrustRefused != nil {
		t.Errorf("after the recovery: %+v", s)
	}
}

// If a node missed a set because a key in that set had already signed the task
// about it, the node fetches the set.
func TestASignerThatTheNodeDoesNotKnowMakesItLook(t *testing.T) {
	r := newRig(t)
	next, key := planetest.SecondSigner(t, "signer-2")
	r.start(nil, func(o *Options) { o.trust = time.Millisecond })
	r.works()
	r.Update(func(s *planetest.Settings) {
		s.Verifiers.Version, s.Verifiers.Verifiers = 2, append([]agentwire.Verifier{next}, s.Verifiers.Verifiers...)
	})
	e := r.probe(func(e *agentwire.Envelope) { e.SignerVersion = next.ID })
	message, err := e.SignedBytes()
	if err != nil {
		t.Fatal(err)
	}
	e.Signature = ed25519.Sign(key, message)
	r.Deliver(e)
	if got := r.Result(e.TaskID); got.Status != agentwire.ResultRefused ||
		got.Error.Code != string(agentwire.RefusedUnknownSigner) {
		t.Errorf("%+v", got)
	}
	r.Await("the set reported", func(s *planetest.Seen) bool { return s.Reports[len(s.Reports)-1].VerifierVersion == 2 })
}

// A control plane of the previous version signs nothing: the node keeps its
// trust, works and renews, and reports what it did not take over.
func TestAnOlderControlPlane(t *testing.T) {
	r := fresh(t)
	r.Update(func(s *planetest.Settings) {
		renewsAtOnce(s)
		s.Trust.Unsigned = true
	})
	r.enroll()
	a := r.start(nil)
	r.Await("a renewal", func(s *planetest.Seen) bool { return s.Renewals == 1 && s.Serials >= 2 })
	r.works()
	if s := r.status(); s.TrustRefused != nil {
		t.Errorf("nothing was new, and this was refused: %+v", s.TrustRefused)
	}
	r.Update(func(s *planetest.Settings) { s.Verifiers.Version = 2 })
	if got := r.nudge(); got.Status != agentwire.ResultFailed || got.Error.Code != "trust_not_offered" {
		t.Errorf("%+v", got)
	}
	if err := a.stop(); err != nil {
		t.Error(err)
	}
	r.start(nil)
	want := agentwire.CodeTrustUnsigned + " " + agentwire.AboutVerifiers
	r.Await("what was not taken over", func(s *planetest.Seen) bool { return s.Renewals == 2 && s.TrustRefused[want] })
	r.works()

	// A newer control plane replaces it: the node takes over everything.
	r.Update(func(s *planetest.Settings) { s.Trust.Unsigned = false })
	if got := r.nudge(); got.Status != agentwire.ResultSucceeded || r.status().VerifierVersion != 2 {
		t.Errorf("%+v", got)
	}
}

// The state of an agent of the previous version has no versions of bundle and
// issuer; the node trusts what is on its disk.
func TestAStateOfTheAgentBefore(t *testing.T) {
	r := fresh(t)
	r.Update(renewsAtOnce)
	r.enroll()
	if err := os.Remove(filepath.Join(r.root, config.StateFolder, "identity/trust.json")); err != nil {
		t.Fatal(err)
	}
	r.Update(func(s *planetest.Settings) { s.Trust.BundleVersion, s.Trust.IssuerVersion = 90, 90 })
	r.start(nil)
	r.Await("a renewal", func(s *planetest.Seen) bool { return s.Renewals == 1 && s.Serials >= 2 })
	r.works()
	testkit.Eventually(r.t, "the versions", func() bool { return r.status().BundleVersion == 90 })
	if s := r.status(); s.TrustRefused != nil {
		t.Errorf("%+v", s.TrustRefused)
	}
}
