package node_test

import (
	"testing"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/fleet/node"
)

func TestALookAtACallerMovesNothing(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	first := a.Presented
	first.Session = "first"
	if err := a.poll(t, "first"); err != nil {
		t.Fatal(err)
	}
	if who, err := w.service.Still(t.Context(), first); err != nil || who.Node != a.node || who.Status != node.Active ||
		who.Generation != 1 {
		t.Fatalf("the present one: %+v %v", who, err)
	}
	if err := a.poll(t, "second"); err != nil {
		t.Fatal(err)
	}
	foreign := first
	foreign.Session, foreign.Instance = "second", "clone"
	for _, p := range []node.Presented{first, foreign} {
		for range 2 {
			_, err := w.service.Still(t.Context(), p)
			wantCode(t, err, fault.Conflict, agentwire.CodeIdentityInUse)
		}
	}
	second := first
	second.Session = "second"
	if _, err := w.service.Still(t.Context(), second); err != nil {
		t.Errorf("the present one: %v", err)
	}
	if n := w.read(t, a.node); n.HoldReason != "" || w.told(t, a.node, "node.identity_conflict") != 0 {
		t.Errorf("a look is taken for a conflict: %+v", n)
	}
	unknown := second
	unknown.Serial = "00"
	_, err := w.service.Still(t.Context(), unknown)
	wantCode(t, err, fault.Unauthenticated, agentwire.CodeCertificateRevoked)
	w.drive(t, a.node, node.Drain, node.Drained)
	_, err = w.service.Still(t.Context(), second)
	wantCode(t, err, fault.Forbidden, agentwire.CodeNodeFenced)
	if err := w.service.RevokeIdentity(system(t), a.node, "stolen"); err != nil {
		t.Fatal(err)
	}
	_, err = w.service.Still(t.Context(), second)
	wantCode(t, err, fault.Unauthenticated, agentwire.CodeCertificateRevoked)
}
