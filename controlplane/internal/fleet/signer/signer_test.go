package signer_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/secrets"
	"gpuaas/controlplane/internal/fleet/signer"
	"gpuaas/stack/stacktest"
)

func TestEveryStateMeetsEveryEvent(t *testing.T) {
	for _, err := range signer.Lifecycle.Validate() {
		t.Error(err)
	}
	leads := map[signer.Status]map[signer.Event]signer.Status{
		signer.Staged:  {signer.Promote: signer.Active, signer.Revoke: signer.Revoked},
		signer.Active:  {signer.Supersede: signer.Grace, signer.Revoke: signer.Revoked},
		signer.Grace:   {signer.Rollback: signer.Active, signer.Retire: signer.Retired, signer.Revoke: signer.Revoked},
		signer.Retired: {},
		signer.Revoked: {},
	}
	for from, ways := range leads {
		for _, event := range signer.Lifecycle.AllEvents() {
			got, err := signer.Lifecycle.Next(from, event)
			if want, possible := ways[event]; possible != (err == nil) || got != want || err != nil &&
				fault.CodeOf(err) != "signer_state_conflict" {
				t.Errorf("%s --%s--> %q (%v), want %q", from, event, got, err, want)
			}
		}
	}
}

func TestReplicasThatStartTogetherMakeOneSigner(t *testing.T) {
	w := newWorld(t)
	fresh := &world{db: w.db, keys: w.keys, fleet: w.fleet, clock: w.clock}
	if _, err := w.db.Exec(t.Context(), "UPDATE signer_versions SET status = 'retired'"); err != nil {
		t.Fatal(err)
	}
	var together sync.WaitGroup
	for range 4 {
		together.Go(func() {
			if err := fresh.replica().Ensure(w.ctx); err != nil {
				t.Error(err)
			}
		})
	}
	together.Wait()
	before := w.trace(t)
	if err := w.service.Ensure(w.ctx); err != nil || w.trace(t) != before {
		t.Errorf("one more was made: %+v, then %+v, %v", before, w.trace(t), err)
	}
	if n := slices.DeleteFunc(w.all(t), func(l signer.Listed) bool { return l.Status != signer.Active }); len(n) != 1 {
		t.Errorf("%d active signers", len(n))
	}
}

func TestTheDatabaseHoldsOneOfEach(t *testing.T) {
	for _, status := range []string{"staged", "active", "grace"} {
		w := newWorld(t)
		insert := func(name string) error {
			_, err := w.db.Exec(t.Context(), `INSERT INTO signer_versions (id, status, key_name, public_key, verifier_version)
				VALUES ($1, $2, $1, $3, 1)`, name, status, make([]byte, 32))
			return err
		}
		if status != "active" {
			if err := insert("first"); err != nil {
				t.Fatal(err)
			}
		}
		if err := insert("second"); !postgres.Violates(err, "signer_versions_one") {
			t.Errorf("two are %s: %v", status, err)
		}
	}
}

func TestARotationFromBeginningToEnd(t *testing.T) {
	w := newWorld(t)
	old := w.in(t, signer.Active)
	staged := w.rotate(t, false)
	set := w.deliver(t, w.one)
	if len(set.Verifiers) != 2 || staged.VerifierVersion != set.Version || w.fleet.distributed() != 2 {
		t.Fatalf("the staged signer was not made known: %+v", set)
	}
	if e := w.task(t, w.service, w.two); e.SignerVersion != old.ID || w.refuses(e, w.two) != "" {
		t.Errorf("signed by %s: %s", e.SignerVersion, w.refuses(e, w.two))
	}

	w.tend(t)
	waiting := w.in(t, signer.Staged)
	if waiting == nil || waiting.Waiting.NodesBehind != 1 || !slices.Equal(waiting.Waiting.Sample, []id.Node{w.two}) {
		t.Fatalf("it must wait for %s: %+v", w.two, waiting)
	}
	if _, err := w.service.Rotate(w.ctx, "once more", false); fault.CodeOf(err) != "signer_rotation_running" {
		t.Errorf("a second rotation: %v", err)
	}

	inFlight := w.task(t, w.service, w.two)
	w.deliver(t, w.two)
	w.tend(t)
	active, graced := w.in(t, signer.Active), w.in(t, signer.Grace)
	if active == nil || active.ID != staged.ID || graced == nil || graced.ID != old.ID ||
		!graced.RetiresAt.Equal(w.now().Add(grace)) {
		t.Fatalf("not promoted: %+v, %+v", active, graced)
	}
	if e := w.task(t, w.service, w.one); e.SignerVersion != staged.ID || w.refuses(e, w.one) != "" ||
		w.refuses(inFlight, w.two) != "" {
		t.Error("a node refuses the new signer, or a task that the old one has signed")
	}

	w.pass(grace - time.Second)
	w.tend(t)
	if w.in(t, signer.Grace) == nil {
		t.Fatal("retired too early")
	}
	w.pass(time.Second)
	w.tend(t)
	if w.in(t, signer.Grace) != nil || w.in(t, signer.Retired) == nil || w.fleet.distributed() != 3 {
		t.Error("not retired after its grace")
	}
	w.deliver(t, w.two)
	if why := w.refuses(inFlight, w.two); why != agentwire.RefusedUnknownSigner {
		t.Errorf("a retired signer is accepted (%q)", why)
	}
	before := w.trace(t)
	w.tend(t)
	if w.trace(t) != before {
		t.Error("tending changes something although nothing is due")
	}
}

func TestAGraceIsNotCutShortByTheNextRotation(t *testing.T) {
	w := newWorld(t)
	w.rotate(t, true)
	w.deliver(t, w.one, w.two)
	next := w.rotate(t, false)
	w.deliver(t, w.one, w.two)
	w.tend(t)
	s := w.in(t, signer.Staged)
	if s == nil || s.ID != next.ID || s.Waiting.GraceOf == "" || s.Waiting.NodesBehind != 0 {
		t.Fatalf("it must wait for the grace: %+v", s)
	}
	w.pass(grace)
	w.tend(t) // ends the grace; the promotion does not wait for nodes to know that
	w.tend(t)
	if a := w.in(t, signer.Active); a.ID != next.ID {
		t.Errorf("%s is active", a.ID)
	}
}

func TestForceWaitsForNobody(t *testing.T) {
	w := newWorld(t)
	first := w.in(t, signer.Active)
	staged := w.rotate(t, false)
	if s := w.rotate(t, true); s.ID != staged.ID || s.Status != signer.Active {
		t.Errorf("force made another one: %+v", s)
	}
	a := w.in(t, signer.Active)
	if a.Waiting.NodesBehind != 2 || w.refuses(w.task(t, w.service, w.one), w.one) != agentwire.RefusedUnknownSigner {
		t.Errorf("it is not said which nodes do not know it: %+v", a.Waiting)
	}
	if third := w.rotate(t, true); third.Status != signer.Active || w.in(t, signer.Grace).ID != staged.ID {
		t.Errorf("%+v", w.all(t))
	}
	if r := w.in(t, signer.Retired); r == nil || r.ID != first.ID {
		t.Error("the grace before was not ended")
	}
}

func TestARotationCanBeUndoneInItsGrace(t *testing.T) {
	w := newWorld(t)
	if _, err := w.service.Rollback(w.ctx, "nothing to undo"); fault.CodeOf(err) != "signer_no_rollback" {
		t.Errorf("without a grace: %v", err)
	}
	old := w.in(t, signer.Active)
	bad := w.rotate(t, true)
	w.deliver(t, w.one, w.two)
	w.pass(time.Hour)
	before := w.trace(t)
	back, err := w.service.Rollback(w.ctx, "the new one is broken")
	if err != nil || back.ID != old.ID || back.Status != signer.Active || back.RetiresAt != nil {
		t.Fatalf("%+v, %v", back, err)
	}
	if g := w.in(t, signer.Grace); g == nil || g.ID != bad.ID || !g.RetiresAt.Equal(w.now().Add(grace)) {
		t.Errorf("%+v", g)
	}
	if after := w.trace(t); after.distributed != before.distributed {
		t.Error("nodes were bothered although they accept the same keys as before")
	}
	if e := w.task(t, w.service, w.one); e.SignerVersion != old.ID || w.refuses(e, w.one) != "" {
		t.Errorf("signed by %s", e.SignerVersion)
	}
	w.pass(grace)
	w.tend(t)
	if _, err := w.service.Rollback(w.ctx, "too late"); fault.CodeOf(err) != "signer_no_rollback" {
		t.Errorf("after the grace: %v", err)
	}
}

func TestEveryStepIsAuditedAndAnnounced(t *testing.T) {
	w := newWorld(t)
	w.rotate(t, false)
	w.deliver(t, w.one, w.two)
	w.tend(t)
	if _, err := w.service.Rollback(w.ctx, "go back"); err != nil {
		t.Fatal(err)
	}
	w.pass(grace)
	w.tend(t)
	active := w.in(t, signer.Active)
	if _, err := w.service.Revoke(w.ctx, active.ID, "it leaked", true); err != nil {
		t.Fatal(err)
	}
	var got []string
	rows, err := w.db.Query(t.Context(),
		`SELECT action || ' ' || actor_kind || ' ' || reason FROM audit_logs WHERE target_kind = 'signer' ORDER BY seq`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		got = append(got, line)
	}
	want := []string{
		"signer.create system first signer", "signer.rotate user it is time", "signer.promote system accepted by all nodes",
		"signer.rollback user go back", "signer.retire system grace period is over", "signer.revoke user it leaked",
	}
	if rows.Err() != nil || !slices.Equal(got, want) {
		t.Errorf("audited:\n%q\nwant\n%q (%v)", got, want, rows.Err())
	}
	// created, staged, two by the promotion, two by the rollback, retired, revoked and its successor
	if tr := w.trace(t); tr.events != 9 {
		t.Errorf("%d events", tr.events)
	}
}

func TestAPackageIsSigned(t *testing.T) {
	w := newWorld(t)
	by, signature, err := w.service.SignPackage(w.ctx, "1.2.3", "sha256:abc")
	if err != nil {
		t.Fatal(err)
	}
	set := w.fleet.set(w.one)
	if err := set.VerifyPackage("1.2.3", "sha256:abc", by, signature); err != nil {
		t.Error(err)
	}
	if set.VerifyPackage("1.2.4", "sha256:abc", by, signature) == nil {
		t.Error("the signature is good for another version")
	}
}

func openBao(tb testing.TB) *secrets.Engine {
	tb.Helper()
	bao := stacktest.Bao(tb)
	e, err := secrets.Open(secrets.Config{
		Address: bao.Address, RoleIDFile: bao.RoleIDFile, SecretIDFile: bao.SecretIDFile,
		KVMount: "gpuaas-kv",
	})
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

func TestWithTheRealEngine(t *testing.T) {
	w := newWorld(t)
	w.service = signer.New(signer.Config{
		DB: w.db, Keys: openBao(t), Fleet: w.fleet, Distribute: w.fleet.distribute,
		Clock: w.now,
	})
	w.rotate(t, true)
	w.deliver(t, w.one)
	if why := w.refuses(w.task(t, w.service, w.one), w.one); why != "" {
		t.Errorf("refused: %s", why)
	}
}

func TestAKeyThatWasExchangedSignsNothing(t *testing.T) {
	w := newWorld(t)
	_, other, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name := range w.keys.held {
		w.keys.held[name] = other
	}
	e := agentwire.Envelope{TaskID: "t", Params: []byte(`{}`)}
	if err := w.service.SignEnvelope(w.ctx, &e); fault.CodeOf(err) != "signer_key_mismatch" || e.Signature != nil {
		t.Errorf("%v, %x", err, e.Signature)
	}
}

// The difference between the two is the cost of the secrets engine.
func BenchmarkSignEnvelope(b *testing.B) {
	b.Run("keys in memory", func(b *testing.B) {
		w := newWorld(b)
		for b.Loop() {
			_ = w.task(b, w.service, w.one)
		}
	})
	b.Run("keys in the secrets engine", func(b *testing.B) {
		w := newWorld(b)
		w.service = signer.New(signer.Config{
			DB: w.db, Keys: openBao(b), Fleet: w.fleet, Distribute: w.fleet.distribute,
			Clock: w.now,
		})
		w.rotate(b, true)
		for b.Loop() {
			_ = w.task(b, w.service, w.one)
		}
	})
}

// A set that was never published, or is no longer the newest, is not sent to
// nodes, even by somebody who can give them tasks.
func TestAttackAVerifierSetThatWasNotPublishedIsNotSent(t *testing.T) {
	w := newWorld(t)
	set, err := w.service.Verifiers(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	owns := func(set agentwire.VerifierSet, typ string) (code string) {
		err := w.db.InTx(w.ctx, func(ctx context.Context, tx pgx.Tx) error {
			return signer.Publication{Set: set}.Owns(ctx, tx, id.Node{}, typ)
		})
		if err == nil {
			return ""
		}
		return fault.CodeOf(err)
	}
	if code := owns(set, agentwire.TypeUpdateVerifiers); code != "" {
		t.Errorf("the published one: %q", code)
	}
	forged := set
	forged.Verifiers = append(slices.Clone(set.Verifiers),
		agentwire.Verifier{ID: "attacker", PublicKey: set.Verifiers[0].PublicKey, State: "active"})
	old := set
	old.Version--
	for what, s := range map[string]agentwire.VerifierSet{"a key more": forged, "an older one": old} {
		if code := owns(s, agentwire.TypeUpdateVerifiers); code != "verifier_set_not_current" {
			t.Errorf("%s: %q", what, code)
		}
	}
	if code := owns(set, agentwire.TypeTerminalOpen); code != "verifier_set_not_current" {
		t.Errorf("another task: %q", code)
	}
}
