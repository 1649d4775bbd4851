package bringup

import (
	"context"
	"fmt"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/work/job"
)

// RemoveMAASRecord names the stage "Remove the machine from MAAS".
const RemoveMAASRecord = "remove_maas_record"

var _ = catalog.Declare(job.Stage{
	Name: RemoveMAASRecord, Title: "Remove the machine from MAAS", Attempts: 2, Resume: RemoveMAASRecord,
	Looks:   "the policy, and the machine in MAAS",
	Does:    "deletes the machine in MAAS if the policy says so",
	Expects: "the record is gone, or left by policy; a failure is a follow-up and never stops the job",
	Again:   "it looks first",
	Fails:   []job.FailureMode{MAASAway},
}, (*Bringup).RemoveMAASRecord)

// The code of failures that only this stage has.
var codeRecordNotRemoved = job.DeclareCode(job.Code{
	Name:    "record_not_removed",
	Cause:   "MAAS refuses to delete the machine, or somebody added it again immediately.",
	Remedy:  "remove the machine from MAAS by hand",
	Runbook: "decommission-parked",
})

// removalAttempts is how many attempts the stage gets if MAAS is away. Then it leaves
// the record to an operator.
const removalAttempts = 3

// RemoveMAASRecord deletes the machine in MAAS if the profile says so. If it cannot,
// it leaves a follow-up to an operator and the job ends, because the node is deleted
// already.
func (b *Bringup) RemoveMAASRecord(ctx context.Context, w *Work) (Result, error) {
	if !w.Profile.Policy.RemoveMAASRecord {
		return b.recordLeft(w, "left by policy"), nil
	}
	if w.SystemID == "" {
		return b.recordLeft(w, "it is not known which machine of MAAS it was"), nil
	}
	why, err := b.removeRecord(ctx, w)
	switch {
	case err == nil:
		w.Facts.RecordRemoved = &RecordFacts{Removed: true, At: b.now().UTC(), Why: why}
		return Result{Message: fmt.Sprintf("%s: %s", w.Hostname, why), Details: map[string]any{"removed": true}}, nil
	case ctx.Err() != nil || fault.CodeOf(err) == durable.CodeSuperseded:
		return Result{}, err
	}
	f := Classify(err)
	if f.Class == UpstreamTransient && w.Attempt < removalAttempts {
		return Result{}, f
	}
	out := b.recordLeft(w, f.Message)
	out.Skipped, out.Message = false, fmt.Sprintf("the record of %s in MAAS could not be removed: %s", w.Hostname,
		f.Message)
	out.Evidence = []Evidence{{Kind: EvidenceFollowUp, Value: FollowUp{
		What: fmt.Sprintf("remove machine %s (%s) from MAAS of site %s", w.SystemID, w.Hostname, w.Site.Name), Why: f.Message,
		Command: "maas $PROFILE machine delete " + w.SystemID,
	}}}
	return out, nil
}

func (b *Bringup) recordLeft(w *Work, why string) Result {
	w.Facts.RecordRemoved = &RecordFacts{At: b.now().UTC(), Why: why}
	return Result{
		Skipped: true, Message: fmt.Sprintf("the record of %s stays in MAAS: %s", w.Hostname, why),
		Details: map[string]any{"removed": false},
	}
}

// removeRecord deletes the machine in MAAS and says how the record went away.
func (b *Bringup) removeRecord(ctx context.Context, w *Work) (string, error) {
	const gone = "MAAS does not have the machine any more"
	r, m, err := b.sameMachine(ctx, w)
	if maas.SaysAbsent(err) {
		return gone, nil
	}
	if err != nil {
		return "", err
	}
	if !m.Status.Free() {
		return "", foreign(m, w)
	}
	if err := b.refuseClaimed(ctx, w, m); err != nil {
		return "", err
	}
	if err := w.Fence(ctx); err != nil {
		return "", err
	}
	err = r.Delete(ctx, w.SystemID)
	if err == nil {
		w.Observed = Observed{Status: Absent, At: b.now()}
		return "its record was removed from MAAS", nil
	}
	if ctx.Err() != nil {
		return "", err
	}
	m, lookErr := b.machine(ctx, r, w) // its answer may have been lost
	switch {
	case maas.SaysAbsent(lookErr):
		return gone, nil
	case lookErr != nil:
		return "", lookErr
	}
	return "", refused(err, codeRecordNotRemoved, "MAAS still has %s, as %s", w.Hostname, m.Status.Label())
}
