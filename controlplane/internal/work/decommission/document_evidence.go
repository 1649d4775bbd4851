package decommission

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/fleet/node"
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

// judged says of evidence, by its number, why it does not count as it is.
type judged struct {
	overtaken map[int64]string  // by what happened on the node since
	dependent map[int64]string  // it is from an installation that somebody had root on
	said      map[string]string // why all of a kind is dependent, or was
	newest    map[string]int64  // of each kind, of what can count
}

// why is why what an agent last did of a kind does not count any more; empty: it
// does, or was not done.
func (j judged) why(kind string) string { return j.overtaken[j.newest[kind]] }

// lacking is why there is nothing of a kind that counts.
func (j judged) lacking(kind, otherwise string) string {
	if why := j.why(kind); why != "" {
		return why
	}
	return or(j.said[kind], otherwise)
}

// judge finds out which of the latest evidence was overtaken by what happened
// on the node since: somebody got access, or a validation found it unclean. And
// it finds out what is from an installation that somebody had root on.
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
			if !n.Root.Accepted() { // or it is all that there can be
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

// hadRoot says whether somebody had root on the node when the operation found it,
// which it may have proven away since, or which somebody accepted.
func (d Decommission) hadRoot(n node.Node) bool {
	return n.Root.Stands() || n.Root.Accepted() || n.Root.At != nil && n.Root.EndedAt.After(d.RequestedAt)
}

// dependent is why what was seen on a node does not speak for it independently;
// empty: it does. asked is when it was asked for.
func (d Decommission) dependent(n node.Node, asked time.Time) string {
	made := n.Installation.MadeAt
	if !d.hadRoot(n) || !n.Compromised() && !n.Root.Accepted() && made != nil && asked.After(*made) {
		return ""
	}
	return fmt.Sprintf("not independent: it was seen by the installation that somebody had root on at %s (%s)",
		stamp(*n.Root.At), n.Root.Cause)
}

// notAgain is why an operation did not clean a machine through the installation
// that was made since somebody had root on it; empty: it did, or somebody
// accepted in words to go on without.
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
			return fmt.Sprintf("%s was not carried out after it was installed anew", stage)
		}
	}
	return ""
}

// ofCleaning are the kinds of evidence that say how the node is, and so hold
// only until somebody changes it.
var ofCleaning = map[string]bool{
	EvidenceDrain: true, EvidenceStorage: true, EvidenceGPU: true,
	EvidenceValidation: true,
}

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
