package decommission

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// StageDrain names the stage "Drain".
const StageDrain = "drain_node"

var _ = catalog.Declare(job.Stage{
	Name: StageDrain, Title: "Drain", Attempts: 2, Awaits: true, Resume: StageDisable, Overridable: true,
	Usually:  "seconds to 2 min",
	Looks:    "the task that drains the node",
	Does:     "ends terminal sessions, removes the accounts of tenants, refuses new ones",
	Expects:  "no account of a tenant is left",
	Again:    sameTask,
	OnCancel: letGo,
	Fails: []job.FailureMode{
		agentSilent, {Class: bringup.SanitizationFailure, When: "the drain failed, or accounts are left"},
	},
}, hooks.drain)

// The failure code that only this stage has.
var codeDrainIncomplete = job.DeclareCode(job.Code{
	Name: "drain_incomplete", Class: bringup.SanitizationFailure,
	Cause:   "Processes of the accounts cannot be ended, or their homes cannot be removed.",
	Remedy:  "find out on the machine why they cannot be removed, then retry",
	Runbook: "decommission-parked",
})

// drain ends sessions and removes the accounts of tenants.
func (s *Service) drain(ctx context.Context, d Decommission, w *bringup.Work) (job.Result, error) {
	n, err := s.nodes.Node(ctx, d.Node)
	if err != nil {
		return job.Result{}, err
	}
	if n.Status == node.Retired {
		return skipped("the node is retired: it was drained before, and its agent is kept out"), nil
	}
	t, await, err := s.ask(ctx, d, w, StageDrain, errand{
		kind: agentwire.TypeDrain, params: agentwire.DrainParams{Reason: d.cause(), RevokeUsers: true},
		before: func(ctx context.Context, tx pgx.Tx) error { return s.terminals.EndAll(ctx, tx, d.Node) },
	})
	if err != nil || await != nil {
		return job.Result{Await: await}, err
	}
	out, err := output[agentwire.DrainOutput](t)
	if err != nil {
		return job.Result{}, err
	}
	result := job.Result{
		Message: fmt.Sprintf("%s is drained: %d sessions ended, %d accounts removed", d.Hostname, out.SessionsClosed,
			len(out.UsersRevoked)),
		Evidence: witnessed(EvidenceDrain, t),
	}
	if len(out.UsersLeft) > 0 {
		return result, codeDrainIncomplete.Failed("%s still has accounts of tenants: %s", d.Hostname,
			strings.Join(out.UsersLeft, ", ")).About(map[string]any{"users_left": out.UsersLeft, "task_id": t.ID})
	}
	return result, nil
}
