package decommission

import (
	"context"
	"fmt"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/fleet/certificate"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// StageCertificate names the stage "Sign the evidence".
const StageCertificate = "issue_certificate"

var _ = catalog.Declare(job.Stage{
	Name: StageCertificate, Title: "Sign the evidence", Attempts: 5, Resume: StageCertificate,
	Looks:    "the evidence of all stages",
	Does:     "issues the certificate or handover receipt, signed and chained",
	Expects:  "it is signed and kept",
	Again:    "one that was issued is taken as it is",
	OnCancel: nothingUndone,
	Fails:    []job.FailureMode{maasAway, {Class: bringup.StateAmbiguity, When: "a claim has no evidence"}, rootHad},
}, hooks.issue)

// The failure code that only this stage has.
var codeEvidenceMissing = job.DeclareCode(job.Code{
	Name: "evidence_missing", Class: bringup.StateAmbiguity,
	Cause:   "A stage was skipped and left no evidence.",
	Remedy:  "check the stages and their evidence; rerun to carry them out again",
	Runbook: "decommission-parked",
	Mends:   job.Mends{bringup.Decommission: job.Rerun},
})

// mostActions limits how many ledger entries are searched for actions.
const mostActions = 5000

// issue signs the evidence. The job stops if a claim has no evidence, or if
// somebody got access to the node since.
func (s *Service) issue(ctx context.Context, d Decommission, _ *bringup.Work) (job.Result, error) {
	n, err := s.nodes.Detail(ctx, d.Node)
	if err != nil {
		return job.Result{}, err
	}
	evidence, err := s.EvidenceOf(ctx, d.ID)
	if err != nil {
		return job.Result{}, err
	}
	if err := timely(d, n, evidence); err != nil {
		return job.Result{}, err
	}
	doc, err := document(d, n, evidence, s.now())
	if err != nil {
		return job.Result{}, err
	}
	ledger, err := s.Events(ctx, d.ID, 0, mostActions)
	if err != nil {
		return job.Result{}, err
	}
	acted(&doc, ledger)
	if err := s.neutral(ctx, d, n, &doc); err != nil {
		return job.Result{}, err
	}
	issued, err := s.certificates.Issue(ctx, certificate.Draft{
		Kind: doc.Kind, Decommission: d.ID, Node: d.Node,
		EvidenceSeq: newest(evidence), Body: doc,
	})
	if f, _ := fault.As(err); fault.CodeOf(err) == certificate.CodeUnfounded {
		return job.Result{}, codeEvidenceMissing.Failed("the evidence does not support a certificate: %s", f.Message).
			ForGood().Because(err)
	}
	if err != nil {
		return job.Result{}, err
	}
	return job.Result{
		Message: fmt.Sprintf("%s %s was issued, number %d of the node", issued.Kind, issued.ID, issued.Seq),
		Details: map[string]any{"certificate_id": issued.ID, "digest": issued.Digest, "seq": issued.Seq},
	}, nil
}

// timely refuses to certify a node as clean if somebody got access since it was
// validated or, where the installation stays, since it was cleaned. On a
// reinstalled machine, evidence that is out of date is named as not covered,
// unless somebody had root before: then everything is cleaned again, and only
// that counts. A node that leaves for good is not certified as clean.
func timely(d Decommission, n node.Node, evidence []Evidence) error {
	if d.Mode == FullDecommission {
		return nil
	}
	if err := n.Incredible(); err != nil {
		return incredible(d, err)
	}
	late, err := judge(d, n, evidence)
	if err != nil {
		return err
	}
	if why := late.notAgain(d, n, evidence); why != "" {
		return tainted(d, why)
	}
	why := late.why(EvidenceValidation)
	if n.Tainted() && why == "" {
		why = "it is not proven clean"
	}
	if d.Mode == SoftReset || d.Mode == Retire {
		why = or(why, or(late.why(EvidenceDrain), or(late.why(EvidenceStorage), late.why(EvidenceGPU))))
	}
	if d.hadRoot(n) {
		why = or(why, or(late.why(EvidenceStorage), late.why(EvidenceGPU)))
	}
	if why == "" {
		return nil
	}
	return tainted(d, why)
}

func tainted(d Decommission, why string) *job.Failure {
	return codeTainted.Failed("node %s is not as clean as it was: %s", d.Hostname, why).ForGood()
}
