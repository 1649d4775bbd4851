package agentgateway

import (
	"context"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
)

// recordMint audits that a task asked for a credential, and why it got none.
func (g *Gateway) recordMint(ctx context.Context, c caller, task id.NodeTask, in agentwire.MintRequest,
	refused error,
) error {
	entry := audit.Entry{
		Action: "node_credential.mint", TargetKind: "node_task", TargetID: task.String(), Result: audit.Success,
		Metadata: map[string]any{
			"node_id": c.Node.String(), "credential_type": in.CredentialType, "step_id": in.StepID,
			"operation_id": in.OperationID, "attempt": in.Attempt, "certificate_serial": c.presented.Serial,
		},
	}
	if refused != nil {
		entry.Result, entry.Reason = audit.Failure, fault.CodeOf(refused)
		switch fault.KindOf(refused) { //nolint:exhaustive // these are refusals, the others failures
		case fault.Forbidden, fault.NotFound, fault.Conflict, fault.Unauthenticated:
			entry.Result = audit.Denied
		}
	}
	return g.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error { return audit.Record(ctx, tx, entry) })
}
