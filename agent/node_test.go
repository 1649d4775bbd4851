package agent

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gpuaas/agent/internal/journal"
	"gpuaas/agent/internal/task"
	"gpuaas/contract/agentwire"
	"gpuaas/testkit"
)

const formerNode = "01890000-0000-7000-8000-00000000000f"

// wasAnotherNode leaves traces of another node on the machine: a newer
// generation, an unfinished task, and the result of a task that removes the
// agent.
func (r *rig) wasAnotherNode() (unfinished, removal agentwire.Envelope) {
	r.t.Helper()
	j, err := journal.Open(filepath.Join(r.root, "var/lib/gpuaas/journal"), formerNode, time.Now)
	if err != nil {
		r.t.Fatal(err)
	}
	theirs := func(e *agentwire.Envelope) { e.NodeID, e.Generation = formerNode, 5 }
	unfinished = r.probe(theirs)
	removal = r.Envelope(agentwire.TypeDrain, agentwire.DrainParams{}, theirs)
	for _, err := range []error{
		j.Accept(unfinished), j.Accept(removal),
		j.Finish(removal.TaskID, agentwire.ResultRequest{
			Attempt: 1, Status: agentwire.ResultSucceeded,
			FinishedAt: time.Now(),
		}), j.Close(),
	} {
		if err != nil {
			r.t.Fatal(err)
		}
	}
	return unfinished, removal
}

// A machine that is enrolled as another node is only that node.
func TestAMachineThatWasAnotherNode(t *testing.T) {
	for name, begin := range map[string]func(*rig){
		"before it enrolled":          func(r *rig) { r.wasAnotherNode(); r.enroll() },
		"and nothing else was begun":  func(r *rig) { r.enroll(); r.wasAnotherNode() },
		"and the first poll had work": func(r *rig) { r.wasAnotherNode(); r.Deliver(r.probe(nil)); r.enroll() },
	} {
		t.Run(name, func(t *testing.T) {
			r := fresh(t)
			begin(r)
			removed := make(chan struct{}, 9)
			a := r.start(map[string]task.Handler{agentwire.TypeDrain: finishing{scripted{finish: func(context.Context,
				*task.Task,
			) error {
				removed <- struct{}{}
				return nil
			}}}})
			for range 3 {
				e := r.probe(nil)
				r.Deliver(e)
				if got := r.Result(e.TaskID); got.Status != agentwire.ResultSucceeded {
					t.Fatalf("a task of the node: %+v", got.Error)
				}
			}
			testkit.Eventually(r.t, "all results marked as sent", func() bool { return r.status().ResultsUnsent == 0 })
			select {
			case <-a.ended:
				t.Error("the agent was ended by the node before it")
			default:
			}
			if err := a.stop(); err != nil || len(removed) > 0 {
				t.Errorf("ended with %v, removed %d times", err, len(removed))
			}
			if s := r.status(); s.TasksUnfinished != 0 || s.ResultsUnsent != 0 {
				t.Errorf("left over: %+v", s)
			}
			done, err := filepath.Glob(filepath.Join(r.root, "effect-*"))
			if err != nil || len(done) > 4 {
				t.Errorf("carried out: %v, %v", done, err)
			}
			if _, err := os.Stat(filepath.Join(r.root, "var/lib/gpuaas/journal/journal.former")); err != nil {
				t.Errorf("what was left is not kept: %v", err)
			}
		})
	}
}
