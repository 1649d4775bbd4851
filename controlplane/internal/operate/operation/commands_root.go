package operation

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/operate/definition"
	"gpuaas/controlplane/internal/rent/rentalsettings"
)

// codeRootless is the code for runs that would be root where nobody may be.
const codeRootless = "root_not_allowed"

// asRoot reports whether a run changes nodes of a tenant as root, with values that the
// tenant chose: a file, a package or a service is as good as a shell. The task then
// taints the node as an account with sudo does, so that its release is a reimage.
func asRoot(owner Owner, d definition.Definition, onlyPlan bool) bool {
	return !owner.platform() && !onlyPlan && impact(d).Changes()
}

// rootRules are what tenant and project have settled, if it matters.
func rootRules(ctx context.Context, tx pgx.Tx, owner Owner, matters bool) (rentalsettings.Rules, error) {
	if !matters {
		return rentalsettings.Rules{}, nil
	}
	return rentalsettings.InForce(ctx, tx, owner.Org, owner.Project)
}

// rootless says why a project may not be root on a node. Who rented it with root access
// has that already.
func (p place) rootless(r rentalsettings.Rules) Trouble {
	const without = "run what only looks, see what it would do with --only-plan, or have %s"
	switch {
	case p.TenantRoot:
		return Trouble{}
	case p.UserAccessOnly:
		return Trouble{
			Code: codeRootless, Class: agentwire.FailurePolicy,
			Message: "the run changes the node as root, and machines of this kind are rented without root access",
			Remedy:  fmt.Sprintf(without, "an operator of the platform run it"),
		}
	case !r.RootAccess:
		return Trouble{
			Code: codeRootless, Class: agentwire.FailurePolicy,
			Message: fmt.Sprintf("the run changes the node as root, and the %s does not allow root access", r.RootAccessFrom),
			Remedy:  fmt.Sprintf(without, "an administrator of the "+string(r.RootAccessFrom)+" allow it"),
		}
	}
	return Trouble{}
}
