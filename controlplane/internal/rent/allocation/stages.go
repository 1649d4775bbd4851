package allocation

import (
	"context"
	"fmt"
	"strings"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
)

// Stage is a step of provisioning or release. Each may be run again from its
// beginning, whatever an earlier run did.
type Stage string

// The stages. The cleanup that the last one asks for has stages of its own: those of
// a decommission.
const (
	StageBegin   Stage = "begin_provisioning"
	StageProbe   Stage = "probe"
	StageAccount Stage = "account"
	StageSettle  Stage = "settle_provisioning"
	StageCleanup Stage = "request_cleanup"
)

// stages says for people what the stages do.
var stages = []struct {
	Name                       Stage
	Title, Does, Ends, Trouble string
}{
	{
		StageBegin, "Take it up", "a worker takes up an allocation that was placed", "it is `provisioning`",
		"nothing but the database can be away; then it is tried again until it is back",
	},
	{
		StageProbe, "Let the node show that it is ready", "asks the agent for a health probe", "the probe passes the gate: " +
			"every GPU, disk, interface and the memory of the SKU is there and well",
		"the node is quarantined with what was found, and the allocation is placed on another one, once; nobody was let in, " +
			"so that nothing is cleaned",
	},
	{
		StageAccount, "Make the account", "asks the agent for the account of the tenant", "the agent has made exactly the " +
			"account that was asked for, and says that one can log in",
		"it is `failed`; the claim stays until the node is proven clean",
	},
	{
		StageSettle, "Hand it over", "records how it went", "it is `active`, `failed`, or placed on another node",
		"a node that was taken out of service meanwhile is not handed over; one whose tenant has left meanwhile is cleaned",
	},
	{
		StageCleanup, "Have the node cleaned", "asks for a soft reset, or for a reimage where somebody had root, in the " +
			"transaction of the release itself where nothing is in the way; lets a cleanup that stopped go on",
		"an operation cleans the node: it ends the claim with its proof",
		"it is `release_failed`, and says why; the release can be asked for again",
	},
}

// StagesPage is the page of the documents about the stages.
func StagesPage() string {
	var b strings.Builder
	b.WriteString("# The stages of allocations\n\n" +
		"Made from the table in `controlplane/internal/rent/allocation/stages.go` by `make gen`; do not edit.\n\n" +
		"An allocation goes through the first four when it was placed, and through the last when it has ended. Each may be run\n" +
		"again from its beginning, whatever an earlier run did. The operation that cleans the node has the\n" +
		"[stages of a decommission](decommission-stages.md).\n")
	for _, s := range stages {
		fmt.Fprintf(&b, "\n## %s (`%s`)\n\n- Does: %s\n- Ends when: %s\n- Otherwise: %s\n", s.Title, s.Name, s.Does, s.Ends,
			s.Trouble)
	}
	return b.String()
}

// Mischief makes things go wrong around stages, to simulate faults.
type Mischief interface {
	// Around runs a stage, or does not, or does so twice; what it returns is the
	// outcome.
	Around(ctx context.Context, of id.Allocation, at Stage, stage func(context.Context) error) error
}

type peace struct{}

func (peace) Around(ctx context.Context, _ id.Allocation, _ Stage, stage func(context.Context) error) error {
	return stage(ctx)
}

// at runs a stage. Where nobody knows whether it had its effect, it is run again:
// that is harmless, and to give up would be wrong.
func (a *Activities) at(ctx context.Context, of id.Allocation, at Stage, stage func(context.Context) error) error {
	err := a.mischief.Around(ctx, of, at, stage)
	if fault.KindOf(err) != fault.Ambiguous {
		return err
	}
	return fault.Wrap(err, fault.Unavailable, fault.CodeOf(err), "nobody knows whether %s of allocation %s had its effect",
		at, of)
}
