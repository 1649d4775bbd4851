package decommission

import (
	"context"
	"fmt"

	"gpuaas/controlplane/internal/bringup"
	"gpuaas/controlplane/internal/certificate"
	"gpuaas/controlplane/internal/durable"
	"gpuaas/controlplane/internal/fault"
)

// mostActions bounds how much of a ledger is looked through for actions.
const mostActions = 5000

// issue signs the evidence. A claim that has none stops the job.
func (s *Service) issue(ctx context.Context, d Decommission) (bringup.Result, error) {
	n, err := s.nodes.Node(ctx, d.Node)
	if err != nil {
		return bringup.Result{}, err
	}
	evidence, err := s.EvidenceOf(ctx, d.ID)
	if err != nil {
		return bringup.Result{}, err
	}
	doc, err := document(d, n, evidence, s.now())
	if err != nil {
		return bringup.Result{}, err
	}
	ledger, err := s.Events(ctx, d.ID, 0, mostActions)
	if err != nil {
		return bringup.Result{}, err
	}
	acted(&doc, ledger)
	issued, err := s.certificates.Issue(ctx, certificate.Draft{Kind: doc.Kind, Decommission: d.ID, Node: d.Node, Body: doc})
	if f, _ := fault.As(err); fault.CodeOf(err) == certificate.CodeUnfounded {
		return bringup.Result{}, &bringup.Failure{
			Class: durable.StateAmbiguity, Code: "evidence_missing", Final: true, Cause: err, Message: "the evidence does not support a certificate: " + f.Message,
			Remedy: "look at the stages and their evidence; rerun goes through them once more",
		}
	}
	if err != nil {
		return bringup.Result{}, err
	}
	return bringup.Result{
		Message: fmt.Sprintf("%s %s was issued, number %d of the node", issued.Kind, issued.ID, issued.Seq),
		Details: map[string]any{"certificate_id": issued.ID, "digest": issued.Digest, "seq": issued.Seq},
	}, nil
}
