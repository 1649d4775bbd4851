package decommission

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/fleet/node"
)

// latest returns the evidence from the last run of each stage: earlier runs saw
// a state that has changed since. A decision to go on without a stage keeps the
// evidence that it was made about, and nothing older. A stage that found
// nothing to do keeps its earlier evidence.
func latest(evidence []Evidence) []Evidence {
	last, about := map[string]Evidence{}, map[string]Evidence{}
	for _, e := range evidence {
		before := last[e.Stage]
		switch {
		case e.Kind == EvidenceNotApplicable:
			continue
		case e.Kind == EvidenceOverride && before.Epoch == e.Epoch-1: // the decision starts a new epoch
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

// together says whether two pieces of evidence come from the same run of a
// stage.
func (e Evidence) together(o Evidence) bool {
	return e.Stage == o.Stage && e.Epoch == o.Epoch && e.Attempt == o.Attempt
}

// judged says, by the number of the evidence, why it does not count as it is.
type judged struct {
	overtaken map[int64]string  // something happened on the node since
	dependent map[int64]string  // it comes from an installation that somebody had root on
	said      map[string]string // why all evidence of a kind is dependent, or was
	newest    map[string]int64  // by kind, among the evidence that can count
}

// why returns why the newest evidence of a kind no longer counts, or "" if it
// counts or does not exist.
func (j judged) why(kind string) string { return j.overtaken[j.newest[kind]] }

// lacking returns why no evidence of a kind counts.
func (j judged) lacking(kind, otherwise string) string {
	if why := j.why(kind); why != "" {
		return why
	}
	return or(j.said[kind], otherwise)
}

// judge finds the latest evidence that no longer counts because somebody got
// access to the node since, or a validation found it unclean. It also finds the
// evidence that comes from an installation that somebody had root on.
func judge(d Decommission, n node.Node, evidence []Evidence) (judged, error) {
	failed, err := lastFailed(evidence)
	if err != nil {
		return judged{}, err
	}
	out := judged{
		overtaken: map[int64]string{}, dependent: map[int64]string{}, said: map[string]string{},
		newest: map[string]int64{},
	}
	for _, e := range latest(evidence) {
		if !ofCleaning[e.Kind] {
			continue
		}
		var s seen
		if err := json.Unmarshal(e.Value, &s); err != nil {
			return judged{}, unreadable(e, err)
		}
		if why := d.dependent(n, s.AskedAt); why != "" {
			out.dependent[e.Seq], out.said[e.Kind] = why, why
			if !n.Root.Accepted() { // otherwise it is the only evidence there can be
				continue
			}
		}
		out.newest[e.Kind] = e.Seq
		switch {
		case n.TaintedAt != nil && !s.AskedAt.After(*n.TaintedAt):
			out.overtaken[e.Seq] = fmt.Sprintf("what was done was asked for at %s, and somebody got access, or the node was found unclean, at %s", stamp(s.AskedAt), stamp(*n.TaintedAt))
		case e.Seq < failed:
			out.overtaken[e.Seq] = fmt.Sprintf("what was done was asked for at %s, and a validation after that found the node unclean", stamp(s.AskedAt))
		}
	}
	return out, nil
}

// hadRoot says whether somebody had root on the node when the operation began,
// even if the operation has disproved it or somebody has accepted it since.
func (d Decommission) hadRoot(n node.Node) bool {
	return n.Root.Stands() || n.Root.Accepted() || n.Root.At != nil && n.Root.EndedAt.After(d.RequestedAt)
}

// dependent returns why evidence from a node is not independent proof, or "" if
// it is. asked is the time at which the task was created.
func (d Decommission) dependent(n node.Node, asked time.Time) string {
	made := n.Installation.MadeAt
	if !d.hadRoot(n) || !n.Compromised() && !n.Root.Accepted() && made != nil && asked.After(*made) {
		return ""
	}
	return fmt.Sprintf("not independent: it was seen by the installation that somebody had root on at %s (%s)",
		stamp(*n.Root.At), n.Root.Cause)
}

// notAgain returns why the operation did not clean the machine through the
// installation made after somebody had root. It returns "" if it did, or if
// somebody accepted in words to go on without.
func (j judged) notAgain(d Decommission, n node.Node, evidence []Evidence) string {
	stages := map[string]string{EvidenceStorage: StageStorage, EvidenceGPU: StageScrub}
	switch {
	case !d.hadRoot(n), d.Mode != Reimage && n.Root.Accepted():
		return ""
	case d.Mode == Reimage:
		stages = map[string]string{EvidenceStorage: StageStorageAgain, EvidenceGPU: StageScrubAgain}
	}
	for kind, stage := range stages {
		waived := slices.ContainsFunc(evidence, func(e Evidence) bool {
			return e.Stage == stage && e.Kind == EvidenceOverride
		})
		spared := kind == EvidenceStorage && d.StorageCleanup.sparesDisks()
		if !waived && (spared || j.newest[kind] == 0) {
			return fmt.Sprintf("%s was not carried out after it was reinstalled", stage)
		}
	}
	return ""
}

// ofCleaning are the kinds of evidence that describe the state of the node.
// They hold only until somebody changes the node.
var ofCleaning = map[string]bool{
	EvidenceDrain: true, EvidenceStorage: true, EvidenceGPU: true,
	EvidenceValidation: true,
}

// lastFailed returns the number of the last validation that found something, or
// 0.
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

// newest returns the number of the newest evidence, or 0 if there is none.
func newest(evidence []Evidence) (seq int64) {
	for _, e := range evidence {
		seq = max(seq, e.Seq)
	}
	return seq
}
