package operation

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/operate/definition"
	"gpuaas/controlplane/internal/operate/operation/internal/operationdb"
	"gpuaas/controlplane/internal/operate/policy"
)

// codePaused is why a target is given nothing more for now.
const codePaused = "operation_paused"

// answersFor is who a run is done for: whoever resumed it last, or else whoever asked.
func (o Operation) answersFor() string {
	if n := len(o.ResumedBy); n > 0 {
		return o.ResumedBy[n-1]
	}
	return o.By
}

// mayGoOn refuses to let a run go on for somebody who could not ask for it: policies are
// asked about them, and all nodes that wait must be theirs, unless they may use those of
// others.
func (s *Service) mayGoOn(ctx context.Context, tx pgx.Tx, o Operation, d definition.Definition) error {
	who := auth.From(ctx)
	e, err := policy.Get(ctx, tx, policy.Owner(o.Owner), o.Ref.Type)
	if err != nil {
		return err
	}
	if _, err := s.decided(ctx, tx, o, d, e, who.ID); err != nil {
		return err
	}
	if o.Owner.platform() || who.Decide(auth.AllocationManage, o.on()) == auth.Allowed {
		return nil
	}
	others, err := operationdb.New(tx).OfOthers(ctx, operationdb.OfOthersParams{OperationID: o.ID, Who: who.ID})
	if err != nil {
		return fmt.Errorf("look whose nodes operation %s is about: %w", o.ID, err)
	}
	if len(others) > 0 {
		return fault.New(fault.Forbidden, "ownership_required", "the node %s belongs to somebody else of the project",
			others[0]).WithRemedy("ask whoever rented it, or an administrator of the project")
	}
	return nil
}

// stillUsable asks again whether whoever a run is done for may use a node of a project:
// their own, or any with the permission for those of others.
func (s *Service) stillUsable(ctx context.Context, tx pgx.Tx, o Operation, at place) (Trouble, error) {
	if s.members == nil || o.Owner.platform() || at.TenantBy == o.answersFor() {
		return Trouble{}, nil
	}
	may, err := s.members.StillMay(ctx, tx, o.answersFor(), auth.AllocationManage, o.on())
	if err != nil || may {
		return Trouble{}, err
	}
	return Trouble{
		Code: "ownership_required", Class: agentwire.FailurePolicy,
		Message: "the node belongs to somebody else of the project, and whoever asked may not use those of others any more",
		Remedy:  "ask whoever rented it, or an administrator of the project",
	}, nil
}

// follow gives a target the task that follows, unless policy, rights or a pause are
// against it by now. A node may look while the run is paused.
func (s *Service) follow(ctx context.Context, tx pgx.Tx, o Operation, d definition.Definition, a *settlement) (
	Trouble, error,
) {
	if o.Pause.At != nil && a.next != probe {
		return Trouble{Code: codePaused, Message: "the run is paused"}, nil
	}
	all, err := counted(ctx, tx, []Operation{o}) // policies are asked about as many targets as ever
	if err != nil {
		return Trouble{}, err
	}
	o = all[0]
	e, err := policy.Get(ctx, tx, policy.Owner(o.Owner), o.Ref.Type)
	if err != nil {
		return Trouble{}, err
	}
	if refused, err := s.stillAllowed(ctx, tx, o, d, e); err != nil || refused.Code != "" {
		return refused, err
	}
	return s.handOut(ctx, tx, o, d, a.target, a.next == probe)
}

// fleets reads a run that an operator steers: any to hold it up, and only those of the
// platform to have something done. What happens on a tenant's node is the tenant's.
func (s *Service) fleets(ctx context.Context, which id.Operation, stops bool) (Operation, error) {
	o, err := s.of(ctx, which, id.Project{})
	if err == nil && !stops && !o.Owner.platform() {
		err = fault.New(fault.Forbidden, "operation_of_a_project",
			"operation %s is a project's: operators may cancel and pause it, and nothing else", o.ID).
			WithRemedy("ask whoever ran it, or an administrator of the project")
	}
	return o, err
}
