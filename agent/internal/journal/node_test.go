package journal

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"gpuaas/contract/agentwire"
)

func lines(t *testing.T, records ...record) []byte {
	t.Helper()
	var all []byte
	for _, r := range records {
		line, err := encode(r)
		must(t, err)
		all = append(all, line...)
	}
	return all
}

// A machine that becomes another node starts without the records of the former
// node.
func TestAJournalOfAnotherNodeIsPutAside(t *testing.T) {
	task := envelope("theirs", 1)
	task.NodeID, task.Generation = "other", 7
	done := result(agentwire.ResultSucceeded)
	for name, before := range map[string][]byte{
		"with tasks": lines(t, record{Kind: kindGeneration, Node: "other", Generation: 5},
			record{Kind: kindAccepted, Task: "theirs", Envelope: &task}),
		"with a result": lines(t, record{Kind: kindAccepted, Task: "theirs", Envelope: &task},
			record{Kind: kindResult, Task: "theirs", Result: &done}),
		"without a task":  lines(t, record{Kind: kindGeneration, Node: "other", Generation: 5}),
		"without its sum": append(lines(t, record{Kind: kindAccepted, Task: "theirs", Envelope: &task}), "x\n"...),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, os.WriteFile(filepath.Join(dir, fileName), before, 0o600))
			for range 2 {
				j := open(t, dir)
				if g := j.Generation(); g != 0 {
					t.Errorf("generation %d of another node", g)
				}
				if all := append(j.Unfinished(), append(j.Unsent(), j.Finished()...)...); len(all) > 0 || len(j.Damage()) > 0 {
					t.Errorf("tasks of another node: %+v, damage %v", all, j.Damage())
				}
			}
			if kept, err := os.ReadFile(filepath.Join(dir, formerName)); err != nil || !bytes.Equal(kept, before) {
				t.Errorf("the journal before was not kept: %v", err)
			}
		})
	}
}

func TestAJournalStaysWithItsNode(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	must(t, j.RaiseGeneration(4))
	must(t, j.Close())
	for range 2 {
		if g := open(t, dir).Generation(); g != 4 {
			t.Fatalf("generation %d after it was opened again", g)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, formerName)); err == nil {
		t.Error("it was put aside")
	}
}

// Before journals named their node, one journal could hold tasks of two.
func TestTasksOfAnotherNodeAreDropped(t *testing.T) {
	dir := t.TempDir()
	theirs, ours := envelope("theirs", 1), envelope("ours", 1)
	theirs.NodeID = "other"
	done := result(agentwire.ResultSucceeded)
	must(t, os.WriteFile(filepath.Join(dir, fileName), lines(t,
		record{Kind: kindAccepted, Task: "theirs", Envelope: &theirs},
		record{Kind: kindAccepted, Task: "ours", Envelope: &ours},
		record{Kind: kindResult, Task: "lost", Result: &done}), 0o600))
	j := open(t, dir)
	if u := j.Unfinished(); len(u) != 1 || u[0].ID() != "ours" {
		t.Errorf("unfinished %+v", u)
	}
	if u := j.Unsent(); len(u) != 1 || u[0].ID() != "lost" {
		t.Errorf("a result whose envelope was lost: %+v", u)
	}
	if unfinished, unsent, _, err := Look(dir); unfinished != 1 || unsent != 1 || err != nil {
		t.Errorf("on the disk: %d, %d, %v", unfinished, unsent, err)
	}
}
