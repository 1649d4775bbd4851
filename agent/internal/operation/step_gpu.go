package operation

import (
	"context"
	"fmt"
	"strings"

	"gpuaas/contract/agentwire"
)

var (
	_ = carries(agentwire.StepGPURuntimeCheck, func(m machine) Kind { return abstractCheck{m} })
	_ = carries(agentwire.StepGPUDriverValidate, func(m machine) Kind { return abstractCheck{m} })
	_ = carries(agentwire.StepGPUFabricVerify, func(m machine) Kind { return abstractCheck{m} })
	_ = carries(agentwire.StepGPUContainerRuntimeCheck, func(m machine) Kind { return abstractCheck{m} })
)

// abstractCheck runs the command profile that the resolver configuration of the
// node names for this hardware. It knows no vendor.
type abstractCheck struct{ machine }

// Check implements Kind. It only looks, so it does all the work.
func (h abstractCheck) Check(ctx context.Context, s *Step) (Look, error) {
	w, err := params[agentwire.GPUCheckWith](s)
	if err != nil {
		return Look{}, err
	}
	if h.Resolver == nil {
		return Look{}, noProfile(s, "this node has no resolver configuration")
	}
	config, version, err := h.Resolver.Current()
	if err != nil {
		return Look{}, err
	}
	if version == 0 {
		return Look{}, noProfile(s, "this node has no resolver configuration")
	}
	profile, rule := config.Choose(s.Kind.Kind, h.Facts(ctx))
	s.match = fmt.Sprintf("%s@%d", rule, version)
	if profile == nil {
		return Look{}, noProfile(s, "rule "+s.match+" names no profile for "+s.Kind.Kind)
	}
	s.profile = profile.ID
	if s.run.params.Plan {
		return Look{Done: true, Summary: "runs the profile " + profile.ID + " (" + profile.Command + ")"}, nil
	}
	result, err := h.execute(ctx, s, &agentwire.CommandExecWith{Profile: *profile})
	out := agentwire.GPUCheckResult{CommandResult: result}
	if err != nil {
		return Look{}, err
	}
	if count := len(lines(result.Stdout)); count < w.MinimumLines {
		return Look{}, below(out, fmt.Sprintf("%s shows %d lines, not %d", profile.ID, count, w.MinimumLines))
	}
	for _, e := range w.Expect {
		if !strings.Contains(result.Stdout, e) {
			out.Missing = append(out.Missing, e)
		}
	}
	if len(out.Missing) > 0 {
		return Look{}, below(out, profile.ID+" does not show "+strings.Join(out.Missing, ", "))
	}
	return Look{Done: true, Output: out, Summary: profile.ID + " is content"}, nil
}

// Apply implements Kind.
func (h abstractCheck) Apply(ctx context.Context, s *Step) (Result, error) {
	look, err := h.Check(ctx, s)
	return Result{Output: look.Output, Summary: look.Summary}, err
}

func noProfile(s *Step, message string) error {
	return fail(agentwire.FailureCapability, "no_profile", message,
		"add a profile for "+s.Kind.Kind+" on this hardware to the resolver configuration", nil)
}

func below(out agentwire.GPUCheckResult, message string) error {
	f := fail(agentwire.FailurePermanent, "below_threshold", message,
		"the output of the step has what the program printed", nil)
	f.Output = out
	return f
}
