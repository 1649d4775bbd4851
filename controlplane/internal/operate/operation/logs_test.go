package operation_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/operate/operation"
)

// printing begins a run on a node, and gives what its task prints.
func (w *world) printing(tb testing.TB) (o operation.Operation, node id.Node, task id.NodeTask) {
	tb.Helper()
	ref := w.define(tb, "web.prepare")
	node = w.node(tb, "n1")
	o = w.submit(tb, operation.Ask{
		Ref: ref, Targets: operation.Selector{Nodes: []id.Node{node}},
		Trigger: operation.ByAdmin,
	})
	task, err := id.Parse[id.NodeTask](w.fetch(tb)[0].TaskID)
	if err != nil {
		tb.Fatal(err)
	}
	return o, node, task
}

func lines(from, to int64, step string) agentwire.LogsRequest {
	r := agentwire.LogsRequest{Attempt: 1}
	for seq := from; seq <= to; seq++ {
		r.Lines = append(r.Lines, agentwire.LogLine{
			Seq: seq, Step: step, Stream: agentwire.StreamStdout, At: time.Now().UTC(), Text: fmt.Sprintf("line %d of %s", seq,
				step),
		})
	}
	return r
}

func texts(of []operation.Line) string {
	var out []string
	for _, l := range of {
		out = append(out, l.Text)
	}
	return strings.Join(out, "|")
}

// Lines are kept once, in their order, whatever is sent twice or out of turn.
func TestLinesAreKeptOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o, node, task := w.printing(t)
	for _, c := range []struct {
		send agentwire.LogsRequest
		next int64
	}{
		{lines(1, 3, "one"), 4},
		{lines(1, 3, "one"), 4}, // the answer was lost
		{lines(2, 5, "one"), 6}, // and more came meanwhile
		{lines(9, 9, "two"), 6}, // some are missing
		{lines(6, 7, "two"), 8},
		{agentwire.LogsRequest{Attempt: 1}, 8}, // only asks
	} {
		got, err := w.service.AppendLogs(w.ctx, node, task, c.send)
		if err != nil || got.Next != c.next {
			t.Fatalf("after %d lines it goes on with %d (%v), want %d", len(c.send.Lines), got.Next, err, c.next)
		}
	}
	all, _, more, err := w.service.Lines(w.ctx, o.ID, operation.LogWish{}, operation.LogPosition{}, 100)
	if err != nil || more || len(all) != 7 || all[6].Seq != 7 || all[0].Hostname != "n1" {
		t.Fatalf("%d lines are kept: %s, %v", len(all), texts(all), err)
	}
	some, at, more, err := w.service.Lines(w.ctx, o.ID, operation.LogWish{}, operation.LogPosition{}, 4)
	if err != nil || !more || texts(some) != texts(all[:4]) {
		t.Fatalf("a page: %s, %v, %v", texts(some), more, err)
	}
	rest, _, more, err := w.service.Lines(w.ctx, o.ID, operation.LogWish{}, at, 4)
	if err != nil || more || texts(rest) != texts(all[4:]) {
		t.Errorf("the rest: %s, %v, %v", texts(rest), more, err)
	}
	found, _, _, err := w.service.Lines(w.ctx, o.ID, operation.LogWish{Step: "two"}, operation.LogPosition{}, 10)
	if err != nil || len(found) != 2 {
		t.Errorf("of a step: %s, %v", texts(found), err)
	}
	found, _, _, err = w.service.Lines(w.ctx, o.ID, operation.LogWish{Search: "LINE 5"}, operation.LogPosition{}, 10)
	if err != nil || texts(found) != "line 5 of one" {
		t.Errorf("searched: %s, %v", texts(found), err)
	}
}

// Deliveries of the same lines at the same time, and of different ones, keep each line
// once and in its place.
func TestDeliveriesAtTheSameTimeKeepEachLineOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o, node, task := w.printing(t)
	const most = 60
	var all sync.WaitGroup
	for sender := range int64(4) {
		all.Go(func() {
			for next := int64(1); next <= most; {
				got, err := w.service.AppendLogs(w.ctx, node, task, lines(next, min(next+sender, most), "one"))
				if err != nil {
					t.Error(err)
					return
				}
				next = got.Next
			}
		})
	}
	all.Wait()
	kept, _, _, err := w.service.Lines(w.ctx, o.ID, operation.LogWish{}, operation.LogPosition{}, 2*most)
	if err != nil {
		t.Fatal(err)
	}
	chunks := w.count(t, `SELECT count(*) FROM operation_logs`)
	for after := (operation.LogPosition{}); len(kept) < most; { // of many chunks only some are looked at
		more, at, _, err := w.service.Lines(w.ctx, o.ID, operation.LogWish{}, kept[len(kept)-1].At, 2*most)
		if err != nil || at == after {
			t.Fatalf("%d lines of %d chunks are there: %v", len(kept), chunks, err)
		}
		kept, after = append(kept, more...), at
	}
	for i, l := range kept {
		if l.Seq != int64(i+1) {
			t.Fatalf("line %d has the number %d", i+1, l.Seq)
		}
	}
	if len(kept) != most {
		t.Errorf("%d lines are kept, want %d", len(kept), most)
	}
}

// A node adds to what its own tasks print, and to nothing else; and what it sends is
// bounded.
func TestAttackANodePrintsOnlyForItsOwnTasks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, node, task := w.printing(t)
	other := w.node(t, "n2")
	_, err := w.service.AppendLogs(w.ctx, other, task, lines(1, 1, "one"))
	wantCode(t, "another node", err, agentwire.CodeTaskNotYours)
	_, err = w.service.AppendLogs(w.ctx, node, id.New[id.NodeTask](), lines(1, 1, "one"))
	wantCode(t, "no task", err, agentwire.CodeTaskNotYours)
	long := lines(1, 1, "one")
	long.Lines[0].Text = strings.Repeat("x", agentwire.MaxLogText+1)
	_, err = w.service.AppendLogs(w.ctx, node, task, long)
	wantCode(t, "a line that is too long", err, "operation_logs_invalid")
	_, err = w.service.AppendLogs(w.ctx, node, task, lines(1, agentwire.MaxLogLines+1, "one"))
	wantCode(t, "too many", err, "operation_logs_invalid")
	torn := lines(1, 2, "one")
	torn.Lines[1].Seq = 5
	_, err = w.service.AppendLogs(w.ctx, node, task, torn)
	wantCode(t, "numbers with a gap", err, "operation_logs_invalid")
	if n := w.count(t, `SELECT count(*) FROM operation_logs`); n != 0 {
		t.Errorf("%d chunks were kept", n)
	}
}

// What looks like a secret is not kept, even if a node sends it.
func TestWhatLooksLikeASecretIsNotKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o, node, task := w.printing(t)
	r := lines(1, 5, "one")
	secrets := []string{
		"hunter2canary", "c2VjcmV0Y2FuYXJ5", "ghp_canarycanarycanary12", "AKIACANARYCANARY1234",
		"eyJhbGciOiJIUzI1.eyJjYW5hcnkiOjF9.sig",
	}
	r.Lines[0].Text = "password=" + secrets[0]
	r.Lines[1].Text = "Authorization: Bearer " + secrets[1]
	r.Lines[2].Text = "clone with " + secrets[2]
	r.Lines[3].Text = "key " + secrets[3] + " used"
	r.Lines[4].Text = "got " + secrets[4]
	if _, err := w.service.AppendLogs(w.ctx, node, task, r); err != nil {
		t.Fatal(err)
	}
	all, _, _, err := w.service.Lines(w.ctx, o.ID, operation.LogWish{}, operation.LogPosition{}, 10)
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range all {
		if strings.Contains(l.Text, secrets[i]) || !strings.Contains(l.Text, "[redacted]") {
			t.Errorf("kept: %s", l.Text)
		}
	}
}
