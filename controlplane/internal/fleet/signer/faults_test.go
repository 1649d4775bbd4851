package signer_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/signer"
)

func TestRevokingASigner(t *testing.T) {
	staged := func(t *testing.T, w *world) string { return w.rotate(t, false).ID }
	graced := func(t *testing.T, w *world) string {
		old := w.in(t, signer.Active).ID
		w.rotate(t, true)
		w.deliver(t, w.one, w.two)
		return old
	}
	active := func(t *testing.T, w *world) string { return w.in(t, signer.Active).ID }
	for name, c := range map[string]struct {
		arrange func(t *testing.T, w *world) string // returns the signer to revoke
		force   bool
		code    string
		heir    func(before []signer.Listed) string // status of the successor before; empty: the active one stays
	}{
		"staged": {arrange: staged},
		"grace":  {arrange: graced},
		"active, the staged one is accepted everywhere": {
			arrange: func(t *testing.T, w *world) string {
				w.rotate(t, false)
				w.deliver(t, w.one, w.two)
				return active(t, w)
			},
			heir: func(b []signer.Listed) string { return idOf(b, signer.Staged) },
		},
		"active, the staged one is not known everywhere, one is in grace": {
			arrange: func(t *testing.T, w *world) string {
				graced(t, w)
				w.rotate(t, false)
				return active(t, w)
			},
			heir: func(b []signer.Listed) string { return idOf(b, signer.Grace) },
		},
		"active, one is in grace": {
			arrange: func(t *testing.T, w *world) string { graced(t, w); return active(t, w) },
			heir:    func(b []signer.Listed) string { return idOf(b, signer.Grace) },
		},
		"active, the staged one is not known everywhere": {arrange: func(t *testing.T,
			w *world,
		) string {
			staged(t, w)
			return active(t, w)
		}, code: "signer_no_successor"},
		"active, the staged one is not known everywhere, by force": {arrange: func(t *testing.T,
			w *world,
		) string {
			staged(t, w)
			return active(t, w)
		}, force: true, heir: func(b []signer.Listed) string { return idOf(b, signer.Staged) }},
		"active and alone":           {arrange: active, code: "signer_no_successor"},
		"active and alone, by force": {arrange: active, force: true, heir: func([]signer.Listed) string { return "new" }},
		"retired": {arrange: func(t *testing.T,
			w *world,
		) string {
			old := graced(t, w)
			w.pass(grace)
			w.tend(t)
			return old
		}, force: true, code: "signer_state_conflict"},
		"revoked": {arrange: func(t *testing.T, w *world) string {
			s := staged(t, w)
			if _, err := w.service.Revoke(w.ctx, s, "it leaked", false); err != nil {
				t.Fatal(err)
			}
			return s
		}, force: true, code: "signer_state_conflict"},
		"unknown": {arrange: func(*testing.T, *world) string { return "nobody" }, code: "signer_not_found"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			target := c.arrange(t, w)
			before, left := w.all(t), w.trace(t)
			got, err := w.service.Revoke(w.ctx, target, "it leaked", c.force)
			if c.code != "" {
				if fault.CodeOf(err) != c.code || w.trace(t) != left {
					t.Errorf("got %v, want %s and no change", err, c.code)
				}
				return
			}
			if err != nil || got.Status != signer.Revoked {
				t.Fatalf("%+v, %v", got, err)
			}
			w.wantRevoked(t, target, before, c.heir)
		})
	}
}

func idOf(all []signer.Listed, status signer.Status) string {
	for _, l := range all {
		if l.Status == status {
			return l.ID
		}
	}
	return ""
}

func (w *world) wantRevoked(t *testing.T, target string, before []signer.Listed, heir func([]signer.Listed) string) {
	t.Helper()
	want := idOf(before, signer.Active)
	if heir != nil {
		want = heir(before)
	}
	now := w.in(t, signer.Active)
	if now == nil || now.ID == target || want != "new" && now.ID != want {
		t.Errorf("active is %+v, want %s", now, want)
	}
	set := w.deliver(t, w.one)
	if len(set.Revoked) != 1 || set.Revoked[0] != target {
		t.Errorf("nodes are not told: %+v", set)
	}
	e := w.task(t, w.service, w.one)
	if why := w.refuses(e, w.one); why != "" {
		t.Errorf("a node with the new set refuses the new signer: %s", why)
	}
	e.SignerVersion = target
	if why := w.refuses(e, w.one); why != agentwire.RefusedRevokedSigner {
		t.Errorf("the revoked one is refused as %q", why)
	}
}

func TestWithoutTheSecretsEngineNothingChanges(t *testing.T) {
	w := newWorld(t)
	before := w.trace(t)
	w.keys.breaks(errAway)
	e := agentwire.Envelope{TaskID: "t", Params: []byte(`{}`)}
	_, _, packageErr := w.service.SignPackage(w.ctx, "1", "d")
	_, rotateErr := w.service.Rotate(w.ctx, "it is time", true)
	_, revokeErr := w.service.Revoke(w.ctx, w.in(t, signer.Active).ID, "it leaked", true)
	for name, err := range map[string]error{
		"sign": w.service.SignEnvelope(w.ctx, &e), "sign package": packageErr, "rotate": rotateErr, "revoke": revokeErr,
	} {
		if fault.KindOf(err) != fault.Unavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after := w.trace(t); after != before || e.Signature != nil {
		t.Errorf("before %+v, after %+v", before, after)
	}
	w.keys.breaks(nil)
	w.rotate(t, true)
}

func TestTheFirstSignerWaitsForTheSecretsEngine(t *testing.T) {
	w := newWorld(t)
	if _, err := w.db.Exec(t.Context(), "UPDATE signer_versions SET status = 'retired'"); err != nil {
		t.Fatal(err)
	}
	e := agentwire.Envelope{TaskID: "t", Params: []byte(`{}`)}
	if err := w.service.SignEnvelope(w.ctx, &e); fault.CodeOf(err) != "signer_missing" ||
		fault.KindOf(err) != fault.Unavailable {
		t.Errorf("without a signer: %v", err)
	}
	w.keys.breaks(errAway)
	if err := w.service.Ensure(w.ctx); fault.KindOf(err) != fault.Unavailable || w.in(t, signer.Active) != nil {
		t.Errorf("made without a key: %v", err)
	}
	w.keys.breaks(nil)
	if err := w.service.Ensure(w.ctx); err != nil || w.in(t, signer.Active) == nil {
		t.Errorf("not made afterwards: %v", err)
	}
}

func TestAStepThatCannotBeFinishedIsNotTaken(t *testing.T) {
	w := newWorld(t)
	before := w.trace(t)
	w.fleet.block = errors.New("the queue is full")
	if _, err := w.service.Rotate(w.ctx, "it is time", false); !errors.Is(err, w.fleet.block) || w.trace(t) != before {
		t.Errorf("a signer was staged that no node hears of: %v", err)
	}
	w.fleet.block = nil
	w.rotate(t, false)
	w.deliver(t, w.one, w.two)
	before = w.trace(t)
	w.fleet.fail = errAway
	if err := w.service.Tend(w.ctx); !errors.Is(err, errAway) || w.trace(t) != before {
		t.Errorf("promoted without knowing who accepts it: %v", err)
	}
	w.fleet.fail = nil
	w.tend(t)
}

// Two replicas sign without a pause while signers come and go. A node with the
// present set must accept every task.
func TestSigningGoesOnDuringRotations(t *testing.T) {
	w := newWorld(t)
	replicas := []*signer.Service{w.replica(), w.replica()}
	ctx, done := context.WithCancel(t.Context())
	var signing sync.WaitGroup
	var signed [2]int
	var inFlight sync.RWMutex // a task in flight ends before a grace of hours does
	progress := make(chan int, 1)
	for i, by := range replicas {
		node := []id.Node{w.one, w.two}[i]
		signing.Go(func() {
			for ctx.Err() == nil {
				inFlight.RLock()
				e := w.task(t, by, node)
				if why := w.refuses(e, node); why != "" {
					t.Errorf("replica %d: task of %s refused: %s", i, e.SignerVersion, why)
				}
				inFlight.RUnlock()
				signed[i]++
				select {
				case progress <- i:
				default:
				}
			}
		})
	}
	for range 5 {
		w.rotate(t, false)
		<-progress
		w.tend(t)
		w.deliver(t, w.one, w.two)
		<-progress
		var tending sync.WaitGroup
		for _, r := range replicas { // both at once: the step is taken once
			tending.Go(func() {
				if err := r.Tend(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		tending.Wait()
		<-progress
		if w.in(t, signer.Staged) != nil {
			t.Fatal("not promoted")
		}
		if _, err := w.service.Rollback(w.ctx, "there"); err != nil {
			t.Fatal(err)
		}
		if _, err := w.service.Rollback(w.ctx, "and back"); err != nil {
			t.Fatal(err)
		}
		inFlight.Lock()
		w.pass(grace)
		inFlight.Unlock()
		w.tend(t)
		w.deliver(t, w.one, w.two)
	}
	done()
	signing.Wait()
	if signed[0] == 0 || signed[1] == 0 {
		t.Errorf("signed %v", signed)
	}
	var retired int
	err := w.db.QueryRow(t.Context(), "SELECT count(*) FROM signer_versions WHERE status = 'retired'").Scan(&retired)
	if err != nil || retired != 5 {
		t.Errorf("%d signers were retired, %v", retired, err)
	}
}
