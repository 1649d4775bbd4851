package node_test

import (
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/fleet/node"
)

// A backup of an hour ago does not know the certificates that nodes renewed since.
// After its restore they go on, and only they.
func TestAttackARestoreLetsNoStrangerIn(t *testing.T) {
	w := newWorld(t)
	taken, restored := time.Now().Add(-time.Hour), time.Now()
	renewed := func(a *agent, serial string) node.Presented {
		p := a.Presented
		p.Serial = serial
		p.Certificate.IssuedAt = taken.Add(30 * time.Minute)
		p.Certificate.NotAfter, p.Certificate.KeyFingerprint = restored.Add(23*time.Hour), "fingerprint"
		return p
	}
	refused := func(what string, p node.Presented) {
		t.Helper()
		if _, err := w.service.Authorize(t.Context(), p); fault.CodeOf(err) != agentwire.CodeCertificateRevoked {
			t.Errorf("%s: %v", what, err)
		}
	}
	a, gone := w.active(t, "a"), w.active(t, "gone")
	refused("before a restore", renewed(a, "aa"))
	if err := w.service.RevokeIdentity(system(t), gone.node, "stolen"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a start that is repeated notes it again
		if err := w.service.NoteRestore(t.Context(), taken, restored); err != nil {
			t.Fatal(err)
		}
	}
	refused("revoked before the backup", renewed(gone, "bb"))
	for what, change := range map[string]func(p *node.Presented){
		"issued before the backup": func(p *node.Presented) { p.Certificate.IssuedAt = taken.Add(-time.Hour) },
		"issued after the restore": func(p *node.Presented) { p.Certificate.IssuedAt = restored.Add(time.Second) },
		"of another machine":       func(p *node.Presented) { p.Instance = "another" },
	} {
		p := renewed(a, "cc")
		change(&p)
		refused(what, p)
	}
	var calls errgroup.Group
	for range 8 { // an agent has several requests under way
		calls.Go(func() error {
			_, err := w.service.Authorize(t.Context(), renewed(a, "aa"))
			return err
		})
	}
	if err := calls.Wait(); err != nil {
		t.Fatalf("the node that renewed: %v", err)
	}
	if n := w.audited(t, a.node, "node.adopt_certificate"); n != 1 {
		t.Errorf("audited %d times", n)
	}
	if n := w.count(t, `SELECT count(*) FROM audit_logs WHERE action = 'system.restore'`); n != 1 {
		t.Errorf("the restore was audited %d times", n)
	}
	if err := w.service.RevokeIdentity(system(t), a.node, "stolen meanwhile"); err != nil {
		t.Fatal(err)
	}
	refused("revoked after the restore", renewed(a, "aa"))
	refused("another one of a node that was revoked after the restore", renewed(a, "dd"))
}

func TestARestoreHasItsTimesInOrder(t *testing.T) {
	w := newWorld(t)
	now := time.Now()
	wantCode(t, w.service.NoteRestore(t.Context(), now, now.Add(-time.Minute)), fault.Invalid, "restore_times")
	wantCode(t, w.service.NoteRestore(t.Context(), now, now.Add(time.Hour)), fault.Invalid, "restore_times")
}
