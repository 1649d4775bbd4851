package agentgateway_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/fleet/node"
)

func installation(tb testing.TB, entries ...agentwire.Entry) []byte {
	tb.Helper()
	raw, err := json.Marshal(agentwire.Inventory{
		Installation: "i1", TakenAt: time.Now().UTC(), Entries: entries,
		Unseen: []string{},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

// A baseline is evidence only with the signature of the key of its node.
func TestAttackABaselineNeedsTheSignatureOfItsNode(t *testing.T) {
	p := newPlane(t, openBao(t))
	a, other := p.enrolled(t, "m1"), p.enrolled(t, "m2")
	raw := installation(t)
	foreign, err := agentwire.SignBaseline(other.key, a.node.String(), raw)
	if err != nil {
		t.Fatal(err)
	}
	ofOther, err := agentwire.SignBaseline(a.key, other.node.String(), raw)
	if err != nil {
		t.Fatal(err)
	}
	own, err := agentwire.SignBaseline(a.key, a.node.String(), raw)
	if err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string]agentwire.BaselineRequest{
		"of another key": {Inventory: raw, Signature: foreign}, "about another node": {Inventory: raw, Signature: ofOther},
		"about something else": {
			Inventory: installation(t, agentwire.Entry{Kind: agentwire.EntryGroup, Name: "x"}),
			Signature: own,
		}, "absent": {Inventory: raw},
	} {
		if r := a.post(agentwire.PathBaseline, in); r.status != http.StatusBadRequest &&
			r.status != http.StatusUnprocessableEntity {
			t.Errorf("a signature that is %s: %d %s", name, r.status, r.body)
		}
	}
	for name, bad := range map[string][]byte{
		"no JSON": []byte("x"), "unknown kind": installation(t, agentwire.Entry{Kind: "x", Name: "x"}),
		"too long": installation(t, agentwire.Entry{Kind: agentwire.EntryUnit, Name: strings.Repeat("x", 600)}),
	} {
		signature, err := agentwire.SignBaseline(a.key, a.node.String(), bad)
		if err != nil {
			t.Fatal(err)
		}
		if r := a.post(agentwire.PathBaseline, agentwire.BaselineRequest{
			Inventory: bad,
			Signature: signature,
		}); r.status/100 != 4 {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	var out agentwire.BaselineResponse
	a.post(agentwire.PathBaseline, agentwire.BaselineRequest{Inventory: raw, Signature: own}).want(http.StatusOK, "").
		into(&out)
	if out.Outcome != agentwire.BaselineKept {
		t.Errorf("%+v", out)
	}
}

// What a task of ours changed belongs to the baseline from its result on; what
// such a task cannot have changed never does.
func TestAttackATaskAmendsOnlyWhatItChanges(t *testing.T) {
	p := newPlane(t, openBao(t))
	a := p.active(t, "m1")
	raw := installation(t)
	signature, err := agentwire.SignBaseline(a.key, a.node.String(), raw)
	if err != nil {
		t.Fatal(err)
	}
	a.post(agentwire.PathBaseline, agentwire.BaselineRequest{Inventory: raw, Signature: signature}).want(http.StatusOK, "")
	ours := agentwire.Entry{
		Kind: agentwire.EntryUnit, Name: "/etc/systemd/system/maas_hardware_sync.timer.d/gpuaas.conf",
		Value: "sha256:1",
	}
	theirs := agentwire.Entry{Kind: agentwire.EntrySetID, Name: "/var/tmp/sh", Value: "mode 4755"}
	for _, c := range []struct {
		name    string
		entries []agentwire.Entry
		signed  func(task string) string
		amended int
	}{
		{"what it does not change", []agentwire.Entry{ours, theirs}, func(task string) string { return task }, 0},
		{"under the name of another task", []agentwire.Entry{ours}, func(string) string { return "another" }, 0},
		{"what it changes", []agentwire.Entry{ours}, func(task string) string { return task }, 1},
	} {
		task := p.enqueue(t, a.node, agentwire.TypeHWSyncReseed,
			agentwire.HWSyncParams{MAASURL: "http://maas", SystemID: "abc123", Interval: "15m"})
		var e agentwire.Envelope
		a.get(agentwire.PathWait, "wait_seconds=5").want(http.StatusOK, "").into(&e)
		signature, err := agentwire.SignAmendment(a.key, a.node.String(), c.signed(task.ID.String()), c.entries)
		if err != nil {
			t.Fatal(err)
		}
		a.post(strings.ReplaceAll(agentwire.PathResult, "{task_id}", task.ID.String()), agentwire.ResultRequest{
			Attempt: e.Attempt, Status: agentwire.ResultSucceeded,
			Output: json.RawMessage(`{"credentials_written":true,"units_restarted":[]}`),
			Amends: &agentwire.Amendment{Entries: c.entries, Signature: signature},
		}).want(http.StatusNoContent, "")
		b, ok, err := p.nodes.BaselineOf(p.ctx, a.node, "i1")
		if err != nil || !ok {
			t.Fatalf("no baseline: %v", err)
		}
		if found := b.Compare(agentwire.Inventory{Entries: []agentwire.Entry{ours, theirs}},
			node.Comparison{}); len(found) != 2-c.amended {
			t.Errorf("%s: findings %+v", c.name, found)
		}
	}
}
