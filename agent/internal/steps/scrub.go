package steps

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"gpuaas/agent/internal/gpu"
	"gpuaas/agent/internal/hostexec"
	"gpuaas/agent/internal/task"
	"gpuaas/contract/agentwire"
)

var _ = handles(func(h host) task.Handler { return gpuScrub{h} }, agentwire.TypeGPUScrub)

// gpuScrub overwrites and verifies the memory of GPUs, then resets them.
type gpuScrub struct{ host }

// minCoverage is the share of a GPU's memory that must be overwritten and
// verified. The driver keeps the rest for itself.
const minCoverage = 0.99

// Outcomes of a scrub.
const (
	scrubbed      = "scrubbed"
	incomplete    = "incomplete"
	notApplicable = "not_applicable"
)

// Check implements task.Handler.
func (h gpuScrub) Check(_ context.Context, t *task.Task) (any, bool, error) {
	return recall[agentwire.GPUScrubOutput](t)
}

// Apply implements task.Handler. A GPU that could not be scrubbed is evidence
// in the output; only a broken helper fails the task.
func (h gpuScrub) Apply(ctx context.Context, t *task.Task) (any, error) {
	p, err := params[agentwire.GPUScrubParams](t)
	if err != nil {
		return nil, err
	}
	found, err := h.GPU.Inspect(ctx)
	if err != nil {
		return nil, helperFailed(err)
	}
	report, err := h.GPU.Scrub(ctx, p.GPUs, func(phase gpu.Phase) {
		t.Reporter.Step("scrub "+phase.UUID, "started",
			fmt.Sprintf("%s: %d bytes in %.1f ms", phase.Phase, phase.Bytes, phase.DeviceMS))
	})
	if err != nil {
		return nil, helperFailed(err)
	}
	out := agentwire.GPUScrubOutput{Vendor: string(report.Vendor), GPUs: []agentwire.GPUScrubbed{}}
	if report.Outcome == gpu.NotApplicable {
		out.Outcome, out.Reason = notApplicable,
			strings.Join(append([]string{"this machine has no GPU"}, report.Notes...), "; ")
		return out, remember(t, out)
	}
	var weaker []string
	for _, g := range report.GPUs {
		one := h.evidence(ctx, report.Vendor, g, found, p.Reset)
		t.Reporter.Step("scrub "+g.UUID, map[bool]string{true: "succeeded", false: "failed"}[one.Error == ""], one.Error)
		out.GPUs = append(out.GPUs, one)
		if one.Method == agentwire.ScrubByReset {
			weaker = append(weaker, fmt.Sprintf("%s was not overwritten: %s: %s", g.UUID, g.Error.Code, g.Error.Message))
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("scrub GPUs: %w", err)
	}
	out.Outcome, out.Reason = verdict(out.GPUs, weaker)
	return out, remember(t, out)
}

func helperFailed(err error) error {
	var broken *gpu.HelperError
	code := "gpu_helper_failed"
	if errors.As(err, &broken) {
		code = string(broken.Kind)
	}
	return task.Fail(code, "the GPU helper did not do its work, so that nothing is known of the GPUs",
		"look at the driver: nvidia-smi or amd-smi, dmesg; then try again", err)
}

func (h gpuScrub) evidence(ctx context.Context, vendor gpu.Vendor, g gpu.ScrubbedGPU, found gpu.Report,
	reset bool,
) agentwire.GPUScrubbed {
	one := agentwire.GPUScrubbed{
		UUID: g.UUID, Method: g.Method, BytesTotal: signed(g.BytesTotal), BytesCovered: signed(g.BytesCovered),
		WordsNonzero: signed(g.WordsNonzero), DurationMs: int64(math.Round(g.DurationMS)), Reset: "skipped: not asked for",
	}
	for _, pass := range g.Passes {
		one.DeviceMicros += int64(math.Round(pass.DeviceMS * 1000))
	}
	switch {
	case cannotBeOverwritten(g.Error): // the reset decides, and what was overwritten before does not count
		one.Method, one.BytesCovered = agentwire.ScrubByReset, 0
	case g.Error != nil:
		one.Error = g.Error.Code + ": " + g.Error.Message
	case g.Coverage() < minCoverage:
		one.Error = fmt.Sprintf("%s: only %.2f %% of the memory was overwritten", gpu.CodeCoverage, 100*g.Coverage())
	case g.WordsNonzero > 0:
		one.Error = fmt.Sprintf("memory_not_zero: %d words were not zero in the end", g.WordsNonzero)
	}
	if reset {
		one.Reset = h.reset(ctx, vendor, g.UUID, found)
	}
	if one.Method == agentwire.ScrubByReset && one.Reset != string(gpu.ResetDone) {
		one.Error = "not_reset: " + one.Reset
	}
	return one
}

// cannotBeOverwritten says whether a GPU failed because there is no way to
// overwrite it: there is no library on this machine that does it. Then a reset is
// all that is left, which is the weaker method. An error of the driver may pass,
// and a GPU that is in use or whose memory is faulty is not mended by a reset.
func cannotBeOverwritten(f *gpu.Failure) bool {
	return f != nil && f.Code == gpu.CodeUnsupported
}

func signed(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

// reset runs the vendor's tool. If a reset is not allowed, as in a virtual
// machine, the scrub still counts.
func (h gpuScrub) reset(ctx context.Context, vendor gpu.Vendor, uuid string, found gpu.Report) string {
	i := slices.IndexFunc(found.GPUs, func(g gpu.GPU) bool { return g.UUID == uuid })
	if i < 0 {
		return "failed: the GPU is not among those that the driver shows"
	}
	commands, err := gpu.ResetCommands(vendor, found.GPUs[i])
	if err != nil {
		return "failed: " + err.Error()
	}
	var missing []string
	for _, argv := range commands {
		out, err := h.Host.Do(ctx, hostexec.Command{Program: argv[0], Args: argv[1:], Timeout: 5 * time.Minute})
		var exit *hostexec.ExitError
		switch {
		case errors.Is(err, hostexec.ErrNoProgram):
			missing = append(missing, argv[0])
			continue
		case err != nil && !errors.As(err, &exit):
			return "failed: " + err.Error()
		}
		outcome := gpu.ParseReset(vendor, out.Exit, string(out.Stdout)+string(out.Stderr))
		if outcome == gpu.ResetDone {
			return string(gpu.ResetDone)
		}
		return "failed: " + string(outcome)
	}
	return "skipped: " + strings.Join(missing, " and ") + map[bool]string{true: " is", false: " are"}[len(missing) == 1] +
		" not installed"
}

// verdict says whether the scrub is complete. weaker says which GPUs were reset
// instead of overwritten, and why.
func verdict(gpus []agentwire.GPUScrubbed, weaker []string) (outcome, reason string) {
	var against []string
	for _, g := range gpus {
		if g.Error != "" {
			against = append(against, g.UUID+": "+g.Error)
		}
	}
	if len(gpus) == 0 {
		against = append(against, "the helper named no GPU")
	}
	if len(against) > 0 {
		return incomplete, strings.Join(append(against, weaker...), "; ")
	}
	return scrubbed, strings.Join(weaker, "; ")
}
