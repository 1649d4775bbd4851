package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func fixed() time.Time { return start }

func envelope(id string, attempt int) agentwire.Envelope {
	return agentwire.Envelope{
		TaskID: id, NodeID: "n", Type: agentwire.TypeHeartbeatCheck, Params: json.RawMessage(`{}`), Generation: 3,
		Attempt:  attempt,
		IssuedAt: start, ExpiresAt: start.Add(time.Minute),
	}
}

func result(status string) agentwire.ResultRequest {
	return agentwire.ResultRequest{
		Attempt: 1, Status: status, Output: json.RawMessage(`{"a":1}`), StartedAt: start,
		FinishedAt: start,
	}
}

func open(t *testing.T, dir string) *Journal {
	t.Helper()
	j, err := Open(dir, "n", fixed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestEverythingIsThereAfterACrash(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	must(t, j.RaiseGeneration(2))
	must(t, j.Accept(envelope("running", 1)))
	must(t, j.Checkpoint("running", "stage", "two"))
	j.Step("running", agentwire.Step{Seq: 1, Name: "look", Status: "started", At: start})
	must(t, j.Accept(envelope("running", 2)))
	must(t, j.Accept(envelope("unsent", 1)))
	must(t, j.Finish("unsent", result(agentwire.ResultSucceeded)))
	must(t, j.Accept(envelope("sent", 1)))
	must(t, j.Finish("sent", result(agentwire.ResultFailed)))
	must(t, j.Sent("sent"))
	must(t, j.Accept(envelope("gone", 1)))
	must(t, j.Abandon("gone"))

	// No Close: the process was killed.
	for range 3 { // the second reading is one of a rewritten file
		again := open(t, dir)
		if g := again.Generation(); g != 3 {
			t.Errorf("generation %d, want the one of the newest task", g)
		}
		if u := again.Unfinished(); len(u) != 1 || u[0].ID() != "running" || u[0].Envelope.Attempt != 2 ||
			len(u[0].Steps) != 0 {
			t.Errorf("unfinished %+v", u)
		}
		if v := again.Recall("running", "stage"); v != "two" {
			t.Errorf("checkpoint %q", v)
		}
		if u := again.Unsent(); len(u) != 1 || u[0].ID() != "unsent" || u[0].Result.Status != agentwire.ResultSucceeded {
			t.Errorf("unsent %+v", u)
		}
		if e, ok := again.Lookup("sent"); !ok || !e.Sent || string(e.Result.Output) != `{"a":1}` {
			t.Errorf("sent %+v %v", e, ok)
		}
		if _, ok := again.Lookup("gone"); ok {
			t.Error("an abandoned task is still known")
		}
		if d := again.Damage(); len(d) > 0 {
			t.Errorf("damage %v", d)
		}
		again.mu.Lock()
		must(t, again.rewrite())
		again.mu.Unlock()
	}
}

func TestATornLastRecordIsCutOff(t *testing.T) {
	whole := t.TempDir()
	j := open(t, whole)
	must(t, j.Accept(envelope("a", 1)))
	before := j.size
	must(t, j.Accept(envelope("b", 1)))
	data, err := os.ReadFile(filepath.Join(whole, fileName))
	must(t, err)
	for cut := before; cut < int64(len(data)); cut++ {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, fileName), data[:cut], 0o600))
		j := open(t, dir)
		if _, ok := j.Lookup("b"); ok {
			t.Fatalf("cut at %d: half a record is believed", cut)
		}
		if d := j.Damage(); len(d) > 0 {
			t.Fatalf("cut at %d: a torn record is called damage: %v", cut, d)
		}
		must(t, j.Accept(envelope("c", 1)))
		again := open(t, dir)
		if len(again.Unfinished()) != 2 || len(again.Damage()) > 0 {
			t.Fatalf("cut at %d: after the next record: %+v, damage %v", cut, again.Unfinished(), again.Damage())
		}
	}
}

func TestDamageInTheMiddleCostsOneRecordAndIsTold(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	must(t, j.Accept(envelope("a", 1)))
	from := j.size
	must(t, j.Accept(envelope("b", 1)))
	must(t, j.Finish("b", result(agentwire.ResultSucceeded)))
	must(t, j.Accept(envelope("c", 1)))
	path := filepath.Join(dir, fileName)
	data, err := os.ReadFile(path)
	must(t, err)
	data[from+40] ^= 0x10
	must(t, os.WriteFile(path, data, 0o600))

	again := open(t, dir)
	if len(again.Damage()) != 1 || !strings.Contains(again.Damage()[0], fmt.Sprintf("byte %d", from)) {
		t.Errorf("damage %v", again.Damage())
	}
	if len(again.Unfinished()) != 2 {
		t.Errorf("unfinished %+v, want a and c", again.Unfinished())
	}
	if u := again.Unsent(); len(u) != 1 || u[0].ID() != "b" {
		t.Errorf("the result of b was lost with its envelope: %+v", u)
	}
	if kept, err := os.ReadFile(filepath.Join(dir, damagedName)); err != nil || !bytes.Equal(kept, data) {
		t.Errorf("the damaged file was not kept: %v", err)
	}
	if d := open(t, dir).Damage(); len(d) > 0 {
		t.Errorf("the damage is still there after the rewrite: %v", d)
	}
}

func TestTheJournalStaysSmall(t *testing.T) {
	dir := t.TempDir()
	now := start
	j, err := Open(dir, "n", func() time.Time { return now })
	must(t, err)
	defer j.Close()
	for i := range 5000 {
		id := fmt.Sprintf("task-%d", i)
		e := envelope(id, 1)
		e.ExpiresAt = now.Add(time.Minute)
		must(t, j.Accept(e))
		r := result(agentwire.ResultSucceeded)
		r.FinishedAt = now
		must(t, j.Finish(id, r))
		must(t, j.Sent(id))
		now = now.Add(10 * time.Minute)
	}
	if j.size > 2*compactAbove {
		t.Errorf("%d bytes after 5000 tasks", j.size)
	}
	if _, ok := j.Lookup("task-0"); ok {
		t.Error("the oldest task is still known")
	}
	if _, ok := j.Lookup("task-4990"); !ok {
		t.Error("a task of the last day was forgotten")
	}
}

func TestAFullJournalRefusesNewTasksOnly(t *testing.T) {
	j := open(t, t.TempDir())
	big := envelope("big", 1)
	big.Params = json.RawMessage(`"` + strings.Repeat("x", maxSize) + `"`)
	must(t, j.Accept(big))
	if err := j.Accept(envelope("next", 1)); err == nil {
		t.Fatal("a task was accepted beyond the limit")
	}
	must(t, j.Finish("big", result(agentwire.ResultSucceeded)))
	must(t, j.Accept(envelope("next", 1)))
}

func FuzzRead(f *testing.F) {
	var whole []byte
	for _, r := range []record{
		{Kind: kindGeneration, Generation: 2},
		{Kind: kindCheckpoint, Task: "t", Key: "k", Value: "v"},
		{Kind: kindResult, Task: "t", Result: &agentwire.ResultRequest{Status: "failed"}},
		{Kind: kindSent, Task: "t"},
	} {
		line, err := encode(r)
		if err != nil {
			f.Fatal(err)
		}
		whole = append(whole, line...)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)-3])
	f.Add([]byte("00000000 {}\n"))
	f.Add([]byte("\n\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		// Whatever is appended, the earlier records are found again.
		c := read(append(bytes.Clone(whole), data...))
		if e, ok := c.tasks["t"]; ok && e.Result == nil {
			t.Error("a result was lost")
		}
		if c.generation < 2 {
			t.Error("the generation went back")
		}
		first := read(data)
		var again []byte
		for _, r := range first.records() {
			line, err := encode(r)
			if err != nil {
				t.Fatalf("what was read cannot be written: %v", err)
			}
			again = append(again, line...)
		}
		second := read(again)
		if len(second.damage) > 0 || second.torn || len(second.tasks) != len(first.tasks) ||
			second.generation != first.generation {
			t.Errorf("rewriting changed the content: %+v, was %+v", second, first)
		}
	})
}
