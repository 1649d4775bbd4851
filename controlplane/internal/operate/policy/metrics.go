package policy

import (
	"context"

	"gpuaas/controlplane/internal/engine/telemetry"
)

var decisions = telemetry.NewCounter(telemetry.Metric{
	Name: "gpuaas.operation_policy.decisions", Labels: []string{"result"},
	Help: "Decisions of the policy document about runs of operations; result is allowed, denied or undecided.",
})

// count counts a decision.
func count(ctx context.Context, v Verdict, err error) {
	result := "allowed"
	switch {
	case err != nil || v.Undecided != "":
		result = "undecided"
	case len(v.Denied) > 0:
		result = "denied"
	}
	decisions.Add(ctx, 1, result)
}
