package decommission

import (
	"encoding/json"
	"fmt"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/node"
)

// latest is what stages brought when they were last carried out: what a stage
// saw before that, it saw of something that has changed since. A decision to go
// on without a stage leaves what it was taken about, and nothing from before
// that; a stage that found nothing to do leaves what it did.
func latest(evidence []Evidence) []Evidence {
	last, about := map[string]Evidence{}, map[string]Evidence{}
	for _, e := range evidence {
		before := last[e.Stage]
		switch {
		case e.Kind == EvidenceNotApplicable:
			continue
		case e.Kind == EvidenceOverride && before.Epoch == e.Epoch-1: // the decision begins an epoch
			about[e.Stage] = before
		case before.Epoch != e.Epoch:
			delete(about, e.Stage)
		}
		last[e.Stage] = e
	}
	newest := map[string]int64{}
	for _, e := range evidence {
		newest[e.Stage+" "+e.Kind] = e.Seq
	}
	var out []Evidence
	for _, e := range evidence {
		counts := e.together(last[e.Stage]) || e.together(about[e.Stage])
		if counts && e.Kind != EvidenceNotApplicable && (e.Kind == EvidenceFollowUp || newest[e.Stage+" "+e.Kind] == e.Seq) {
			out = append(out, e)
		}
	}
	return out
}

// together says whether two pieces of evidence are of one execution of a stage.
func (e Evidence) together(o Evidence) bool {
	return e.Stage == o.Stage && e.Epoch == o.Epoch && e.Attempt == o.Attempt
}

// overtaken holds, by the kind of evidence, why what an agent did to the node
// does not count any more.
type overtaken map[string]string

// judge finds out which of the latest evidence was overtaken by what happened
// on the node since: somebody got access, or a validation found it unclean.
func judge(evidence []Evidence, n node.Node) (overtaken, error) {
	failed, err := lastFailed(evidence)
	if err != nil {
		return nil, err
	}
	out := overtaken{}
	for _, e := range latest(evidence) {
		if !ofCleaning[e.Kind] {
			continue
		}
		var s seen
		if err := json.Unmarshal(e.Value, &s); err != nil {
			return nil, unreadable(e, err)
		}
		switch {
		case n.TaintedAt != nil && !s.AskedAt.After(*n.TaintedAt):
			out[e.Kind] = fmt.Sprintf("what was done was asked for at %s, and somebody got access, or the node was found unclean, at %s", stamp(s.AskedAt), stamp(*n.TaintedAt))
		case e.Seq < failed:
			out[e.Kind] = fmt.Sprintf("what was done was asked for at %s, and a validation after that found the node unclean", stamp(s.AskedAt))
		}
	}
	return out, nil
}

// ofCleaning are the kinds of evidence that say how the node is, and so hold
// only until somebody changes it.
var ofCleaning = map[string]bool{EvidenceDrain: true, EvidenceStorage: true, EvidenceGPU: true, EvidenceValidation: true}

// lastFailed is the number of the last validation that found something; 0: none
// did.
func lastFailed(evidence []Evidence) (seq int64, err error) {
	for _, e := range evidence {
		if e.Kind != EvidenceValidation {
			continue
		}
		err := fromTask(e, func(_ seen, out agentwire.ValidateCleanOutput) {
			if !out.Clean || len(out.Findings) > 0 {
				seq = e.Seq
			}
		})
		if err != nil {
			return 0, err
		}
	}
	return seq, nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// newest is the number of the newest evidence; 0: there is none.
func newest(evidence []Evidence) (seq int64) {
	for _, e := range evidence {
		seq = max(seq, e.Seq)
	}
	return seq
}
