package operation

import (
	"context"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/operate/definition"
	"gpuaas/controlplane/internal/operate/policy"
)

// stillUsable asks again whether whoever asked may use a node of a project: their own, or
// any with the permission for those of others.
func (s *Service) stillUsable(ctx context.Context, tx pgx.Tx, o Operation, at place) (Trouble, error) {
	if s.members == nil || o.Owner.platform() || at.TenantBy == o.By {
		return Trouble{}, nil
	}
	may, err := s.members.StillMay(ctx, tx, o.By, auth.AllocationManage, o.on())
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
		return Trouble{Code: "operation_paused", Message: "the run is paused"}, nil
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
