package decommission

import (
	"context"
	"slices"
	"time"

	"gpuaas/contract/certificate"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/job"
)

// DocumentOf is what the evidence of an operation supports.
func DocumentOf(d Decommission, n node.Node, evidence []Evidence, now time.Time) (certificate.Document, error) {
	return document(d, n, evidence, now)
}

// Acted adds what operators did to a document.
func Acted(doc *certificate.Document, ledger []job.Event) { acted(doc, ledger) }

// From says in which states a node may be for a mode.
func From(m Mode) []node.Status { return from[m] }

// HolderOf is the name by which an operation holds its node.
func HolderOf(d Decommission) string { return d.holder() }

// Parked is how an operation stands that a failure parked at a stage.
func Parked(m Mode, stage string, class job.FailureClass, code string) Decommission {
	d := family().ParkedBy(stage, class)
	d.Mode, d.Hostname, d.ErrorCode, d.ErrorMessage = m, "c0001", code, "it does not work"
	return d
}

// Explain says how an operation stands.
func Explain(d Decommission, events []job.Event, now time.Time) job.Explanation {
	return family().Explain(d, events, now)
}

// LegalActions lists what an operator may do now.
func LegalActions(d Decommission) []job.Trigger { return family().LegalActions(d) }

// Recommended is the best action for an operation that is parked.
func Recommended(d Decommission) job.Trigger { return family().Recommended(d) }

// Checked gives a request its defaults, or says what makes no sense about it.
func (r Request) Checked() (Request, error) { return r.checked() }

// NextTurn is the activity that reads the row.
func (s *Service) NextTurn(ctx context.Context, job string) (durable.Turn, error) {
	return s.runner.NextTurn(ctx, job)
}

// RunOne is one attempt at one stage.
func (s *Service) RunOne(ctx context.Context, call durable.StageCall) (durable.Turn, error) {
	return s.runner.RunOne(ctx, call)
}

// PauseBatch begins no further decommission of a batch.
func (s *Service) PauseBatch(ctx context.Context, batch id.DecommissionBatch, reason string) (Batch, error) {
	return s.changed(ctx, batch, s.batches.Pause(ctx, id.JobBatch(batch), reason))
}

// ResumeBatch goes on with a batch that is paused or halted.
func (s *Service) ResumeBatch(ctx context.Context, batch id.DecommissionBatch, reason string) (Batch, error) {
	return s.changed(ctx, batch, s.batches.Resume(ctx, id.JobBatch(batch), reason))
}

// CancelBatch ends a batch.
func (s *Service) CancelBatch(ctx context.Context, batch id.DecommissionBatch, reason string) (Batch, error) {
	return s.changed(ctx, batch, s.batches.Cancel(ctx, id.JobBatch(batch), reason))
}

func (s *Service) changed(ctx context.Context, batch id.DecommissionBatch, err error) (Batch, error) {
	if err != nil {
		return Batch{}, err
	}
	return s.Batch(ctx, batch)
}

// TargetOf is the stage that an action leads to.
func TargetOf(d Decommission, action job.Trigger) string {
	_, stage := family().TargetOf(d, action)
	return stage
}

// LayOut makes the table of a mode from the names of its stages.
func LayOut(m Mode, names ...string) job.Table { return laidOut(map[Mode][]string{m: names})[m] }

// OfferedOverride is what explanations offer to go on without.
func OfferedOverride(d Decommission) *OverrideOffer {
	return explanationOf(d, family().Explain(d, nil, time.Now())).Override
}

// TableOf returns the stages of a mode.
func TableOf(m Mode) job.Table { return slices.Clone(tables[m]) }
