package decommission

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// StageScrub names the stage "Scrub GPU memory".
const StageScrub = "scrub_gpu"

var _ = catalog.Declare(job.Stage{
	Name: StageScrub, Title: "Scrub GPU memory", Attempts: 2, Awaits: true, Resume: StageScrub, Overridable: true,
	Usually:  "under a minute",
	Looks:    "the task that scrubs",
	Does:     "overwrites and verifies the memory of all GPUs, resets them",
	Expects:  "no word of it is left",
	Again:    sameTask,
	OnCancel: letGo,
	Fails: []job.FailureMode{
		agentSilent, {
			Class: bringup.SanitizationFailure,
			When:  "the scrub is incomplete, found data after it, or saw no GPU where the SKU has some",
		},
	},
}, hooks.scrubGPU)

// The code of failures that only this stage has.
var codeGPU = job.DeclareCode(job.Code{
	Name: "gpu_scrub_incomplete", Class: bringup.SanitizationFailure,
	Cause:   "A process uses a GPU, or its driver does not answer.",
	Remedy:  "look at the GPUs and what uses them, then retry; a power cycle clears them, too",
	Runbook: "decommission-parked",
})

// What the agent says about a scrub.
const (
	outcomeScrubbed = "scrubbed"
	outcomeNoGPU    = "not_applicable"
)

// doubtOfGPU is why the memory of a GPU does not count as scrubbed; empty: it
// does.
func doubtOfGPU(g agentwire.GPUScrubbed) string {
	switch {
	case g.Error != "":
		return g.Error
	case g.WordsNonzero != 0:
		return fmt.Sprintf("%d words came back", g.WordsNonzero)
	case g.Method == agentwire.ScrubByReset && g.BytesCovered == 0:
		return "it was reset and not overwritten: nothing that was read proves that its memory is empty"
	case g.BytesCovered <= 0 || g.BytesCovered > g.BytesTotal:
		return fmt.Sprintf("%d of its %d bytes are said to be covered", g.BytesCovered, g.BytesTotal)
	}
	return ""
}

// scrubRemedy says what helps if memory is not proven clean. Trying again does not
// help for GPUs that can only be reset and not overwritten.
func scrubRemedy(out agentwire.GPUScrubOutput) (remedy string, final bool) {
	resets := func(g agentwire.GPUScrubbed) bool { return g.Method == agentwire.ScrubByReset }
	if out.Outcome == outcomeScrubbed && slices.ContainsFunc(out.GPUs, resets) {
		return "GPUs of AMD are only reset, which cannot be proven to empty their memory, and trying again does not change that: switch the machine off and on, " +
			"then override the stage, naming that as the residual risk", true
	}
	return "look at the GPUs and what uses them, then retry; a power cycle clears them, too", false
}

// doubtOfScrub is why a scrub does not count, whatever its agent says.
func doubtOfScrub(out agentwire.GPUScrubOutput) string {
	if out.Outcome != outcomeScrubbed {
		return or(out.Reason, out.Outcome)
	}
	if len(out.GPUs) == 0 {
		return "it names no GPU"
	}
	for _, g := range out.GPUs {
		if doubt := doubtOfGPU(g); doubt != "" {
			return g.UUID + ": " + doubt
		}
	}
	return ""
}

// scrubGPU scrubs through the installation that the node has when the operation
// begins.
func (s *Service) scrubGPU(ctx context.Context, d Decommission, w *bringup.Work) (job.Result, error) {
	return s.scrub(ctx, d, w, StageScrub)
}

// scrub overwrites the memory of GPUs.
func (s *Service) scrub(ctx context.Context, d Decommission, w *bringup.Work, stage string) (job.Result, error) {
	t, await, err := s.ask(ctx, d, w, stage, errand{
		kind:   agentwire.TypeGPUScrub,
		params: agentwire.GPUScrubParams{Reset: true},
	})
	if err != nil || await != nil {
		return job.Result{Await: await}, err
	}
	out, err := output[agentwire.GPUScrubOutput](t)
	if err != nil {
		return job.Result{}, err
	}
	known, err := s.gpusOf(ctx, d, w.Profile.Policy.GPUScrub)
	if err != nil {
		return job.Result{}, err
	}
	result := job.Result{Evidence: witnessed(EvidenceGPU, t)}
	doubt := doubtOfScrub(out)
	if missing := known - len(out.GPUs); missing > 0 && (doubt == "" || out.Outcome == outcomeNoGPU) {
		doubt = fmt.Sprintf("%d of its %d GPUs were not seen: %s", missing, known,
			or(out.Reason, "the agent does not name them"))
	}
	switch {
	case doubt == "":
		result.Message = fmt.Sprintf("the memory of %d GPUs was overwritten and read back", len(out.GPUs))
		return result, nil
	case out.Outcome == outcomeNoGPU && known == 0:
		result.Skipped, result.Message = true, "there is no GPU to scrub: "+or(out.Reason, "the agent found none")
		return result, nil
	}
	remedy, final := scrubRemedy(out)
	if out.Outcome == outcomeNoGPU {
		remedy = unseenRemedy
	}
	f := codeGPU.Failed("the memory of GPUs of %s is not proven clean: %s", d.Hostname, doubt).With("%s", remedy).
		About(map[string]any{"gpus": out.GPUs, "gpus_known": known, "task_id": t.ID})
	f.Final = final
	return result, f
}

// unseenRemedy says what helps if no GPU is seen on a node that should have some.
const unseenRemedy = "look at the driver and the GPUs of the machine, then retry; if it has none, give its node a SKU without GPUs, " +
	"override the stage, or let such nodes pass by the profile (gpu_scrub=if_present), which their outcome says"

// gpusOf is how many GPUs the node is known to have: one whose driver is gone, or
// that fell off the bus, still has its memory. A node has as many as its SKU says;
// where the policy allows it, one on which none was ever seen has none.
func (s *Service) gpusOf(ctx context.Context, d Decommission, policy site.Scrub) (int, error) {
	n, err := s.nodes.Detail(ctx, d.Node)
	if err != nil {
		return 0, err
	}
	var found agentwire.Capabilities
	if n.Inspection != nil {
		if err := json.Unmarshal(n.Inspection, &found); err != nil {
			return 0, fmt.Errorf("decode inspection of node: %w", err)
		}
	}
	if len(found.GPUs) == 0 && policy == site.ScrubIfPresent {
		return 0, nil
	}
	return max(len(found.GPUs), int(n.GPUsTotal)), nil
}
