package decommission

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/fleet/binding"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// StageRemove names the stage "Remove from the inventory".
const StageRemove = "remove_gpuaas_node_record"

var _ = catalog.Declare(job.Stage{
	Name: StageRemove, Title: "Remove from the inventory", Attempts: 2, Awaits: true, Resume: StageRemove,
	Overridable: true,
	Usually:     "seconds",
	Looks:       "whether an installation is left",
	Does:        "uninstalls the agent unless the installation is gone, then deletes the node",
	Expects:     "the node is deleted; its id is never used again",
	Again:       sameTask,
	OnCancel:    "a node that was not deleted is retired",
	Fails: []job.FailureMode{agentSilent, {
		Class: bringup.StateAmbiguity,
		When:  "the agent could not be uninstalled",
	}},
}, hooks.removeOrOverride)

// The failure code that only this stage has.
var codeUninstallFailed = job.DeclareCode(job.Code{
	Name: "uninstall_failed", Class: bringup.StateAmbiguity,
	Cause: "Files of the agent are held or protected on the machine.",
	Remedy: "fix on the machine what the agent reports, then retry; or go on without it and remove " +
		"the agent by hand",
	Runbook: "decommission-parked",
})

// remove takes the node out of the inventory. It uninstalls the agent first,
// unless the agent never enrolled or its installation went with a release.
func (s *Service) remove(ctx context.Context, d Decommission, w *bringup.Work) (job.Result, error) {
	n, err := s.nodes.Node(ctx, d.Node)
	if err != nil {
		return job.Result{}, err
	}
	switch {
	case n.Status == node.Deleted:
		return job.Result{Message: d.Hostname + " is out of the inventory"}, nil
	case n.Status.Is(node.Joining):
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

// removing moves a retired node to removing, on behalf of the operation.
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

// notUninstalled moves a node whose agent could not be uninstalled back to
// retired, so that it keeps its identity.
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
		return f.Called(codeUninstallFailed)
	}
	return f
}

// gone ends the stage. The transaction that keeps the evidence also deletes the node,
// so that neither ever exists without the other.
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
	if err := s.departed(ctx, tx, d); err != nil {
		return err
	}
	return binding.Unbind(ctx, tx, d.Node)
}

// removeOrOverride removes a node whose agent an operator has given up.
func (s *Service) removeOrOverride(ctx context.Context, d Decommission, w *bringup.Work) (job.Result, error) {
	o := d.overridden(StageRemove)
	if o == nil {
		return s.remove(ctx, d, w)
	}
	if err := w.Fence(ctx); err != nil {
		return job.Result{}, err
	}
	if err := s.tasks.CancelOf(ctx, d.Node, d.WorkflowID, "an operator decided to go on without it"); err != nil {
		return job.Result{}, err
	}
	return gone(d, "the agent was not uninstalled, by decision of "+o.Actor, []job.Evidence{
		{
			Kind:  EvidenceOverride,
			Value: o,
		}, followUp("stop the agent on "+d.Hostname+" and remove it, if the machine ever runs again", o.Reason,
			"systemctl disable --now gpuaas-node-agent"),
	}), nil
}
