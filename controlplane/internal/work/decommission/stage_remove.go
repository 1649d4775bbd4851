package decommission

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/fleet/binding"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// remove takes the node out of the inventory. An agent whose installation is
// gone with a release needs no uninstalling, and one that never enrolled is not
// there; any other is uninstalled first.
func (s *Service) remove(ctx context.Context, d Decommission, w *bringup.Work) (job.Result, error) {
	n, err := s.nodes.Node(ctx, d.Node)
	if err != nil {
		return job.Result{}, err
	}
	switch {
	case n.Status == node.Deleted:
		return job.Result{Message: d.Hostname + " is out of the inventory"}, nil
	case n.Status == node.BootstrapIssued || n.Status == node.Enrolling:
		return gone(d, "it never got into service", nil), nil
	case released(w):
		why := "the installation is gone with the release of the machine: there is no agent to uninstall"
		return gone(d, why, []job.Evidence{{Kind: EvidenceNotApplicable, Value: map[string]any{"why": why}}}), nil
	}
	t, await, err := s.ask(ctx, d, w, StageRemove, errand{
		kind: agentwire.TypeUninstall, params: agentwire.UninstallParams{},
		before: func(ctx context.Context, tx pgx.Tx) error { return s.removing(ctx, tx, d) },
	})
	switch {
	case err != nil:
		return job.Result{}, s.notUninstalled(ctx, d, w, err)
	case await != nil:
		return job.Result{Await: await}, nil
	}
	out, err := output[agentwire.UninstallOutput](t)
	if err != nil {
		return job.Result{}, err
	}
	evidence := witnessed(EvidenceUninstall, t)
	for _, left := range out.Residue {
		evidence = append(evidence, followUp("remove from the machine: "+left, "the agent could not", ""))
	}
	return gone(d, fmt.Sprintf("the agent removed %d of its parts from the machine", len(out.Removed)), evidence), nil
}

func followUp(what, why, command string) job.Evidence {
	return job.Evidence{Kind: EvidenceFollowUp, Value: bringup.FollowUp{What: what, Why: why, Command: command}}
}

// removing moves a retired node on, on behalf of the operation.
func (s *Service) removing(ctx context.Context, tx pgx.Tx, d Decommission) error {
	n, err := node.Lock(ctx, tx, d.Node)
	if err != nil || n.Status == node.Removing {
		return err
	}
	if _, err := s.hold(ctx, tx, d, n); err != nil {
		return err
	}
	_, err = node.Move(ctx, tx, d.Node, node.Remove, d.cause())
	return err
}

// notUninstalled returns a node whose agent could not be removed to retired, so
// that its identity is kept.
func (s *Service) notUninstalled(ctx context.Context, d Decommission, w *bringup.Work, cause error) error {
	var f *job.Failure
	if !errors.As(cause, &f) {
		return disagreeing(cause)
	}
	err := s.inNode(ctx, d, w, func(ctx context.Context, tx pgx.Tx, n node.Node) error {
		if n.Status != node.Removing {
			return nil
		}
		_, err := node.Move(ctx, tx, d.Node, node.UninstallFailed, f.Message)
		return err
	})
	if err != nil {
		return err
	}
	if f.Class == bringup.SanitizationFailure {
		f.Class, f.Code = bringup.StateAmbiguity, "uninstall_failed"
	}
	return f
}

// gone is the end of the stage: the node is deleted in the transaction that
// keeps the evidence, so that neither is ever there without the other.
func gone(d Decommission, why string, evidence []job.Evidence) job.Result {
	return job.Result{Message: fmt.Sprintf("%s is out of the inventory: %s", d.Hostname, why), Evidence: evidence}
}

// deleted ends the life of the node. Its id is never used again.
func (s *Service) deleted(ctx context.Context, tx pgx.Tx, d Decommission) error {
	n, err := node.Lock(ctx, tx, d.Node)
	if err != nil {
		return err
	}
	switch n.Status {
	case node.Deleted:
		return nil
	case node.BootstrapIssued, node.Enrolling:
		_, err = node.Abandon(ctx, tx, d.Node, d.cause())
	case node.Active, node.Offline, node.Quarantined, node.Draining, node.Retired, node.Removing:
		if err = s.removing(ctx, tx, d); err == nil {
			_, err = node.Removed(ctx, tx, d.Node, d.cause())
		}
	}
	if err != nil {
		return err
	}
	return binding.Unbind(ctx, tx, d.Node)
}

// firstBoots are where the secrets engine keeps what machines were deployed
// with, and the keys to them, by the kind of the job and its id.
func firstBoots(prior []priorJob) []string {
	paths := make([]string, 0, 2*len(prior))
	for _, p := range prior {
		paths = append(paths, bringup.FirstBootPath(p.kind, p.id), bringup.LoginPath(p.kind, p.id))
	}
	return paths
}

// cleanSecrets removes what the secrets engine keeps of the node. What cannot be
// removed is left to somebody, and never stops the job.
func (s *Service) cleanSecrets(ctx context.Context, d Decommission, w *bringup.Work) (job.Result, error) {
	prior, err := s.prior(ctx, d.Node)
	if err != nil {
		return job.Result{}, err
	}
	if err := w.Fence(ctx); err != nil {
		return job.Result{}, err
	}
	removed, evidence := []string{}, []job.Evidence{}
	for _, path := range firstBoots(prior) {
		err := s.secrets.Delete(ctx, path)
		if err == nil {
			removed = append(removed, path)
			continue
		}
		if ctx.Err() != nil {
			return job.Result{}, ctx.Err()
		}
		f := bringup.Classify(err)
		switch {
		case fault.KindOf(err) == fault.NotFound:
		case !f.Final && w.Attempt < databaseRetryCount:
			return job.Result{}, err
		default:
			evidence = append(evidence, followUp("delete "+path+" in the secrets engine", f.Message, ""))
		}
	}
	if left := len(evidence); left > 0 {
		return job.Result{Message: fmt.Sprintf("%d secrets of the node could not be removed; that is left to be done", left), Evidence: evidence}, nil
	}
	return job.Result{
		Message:  fmt.Sprintf("%d secrets of the node were removed; its tokens are void and its certificates revoked", len(removed)),
		Evidence: []job.Evidence{{Kind: EvidenceSecrets, Value: map[string]any{"removed": removed, "looked_for": len(prior)}}},
	}, nil
}
