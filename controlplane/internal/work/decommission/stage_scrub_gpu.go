package decommission

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// StageScrub names the stage "Scrub GPU memory".
const StageScrub = "scrub_gpu"

var _ = catalog.Declare(job.Stage{
	Name: StageScrub, Title: "Scrub GPU memory", Attempts: 2, Awaits: true, Resume: StageScrub, Overridable: true,
	Usually: "under a minute",
	Looks:   "the task that scrubs",
	Does: "overwrites and verifies the memory of all GPUs, resets them; where that is not possible, and as far as the " +
		"profile allows, it only resets them, or switches the machine off and on",
	Expects:  "no word of it is left, or the certificate names the weaker method",
	Again:    sameTask,
	OnCancel: letGo,
	Fails: []job.FailureMode{
		agentSilent, {
			Class: bringup.SanitizationFailure,
			When:  "the scrub is incomplete, found data after it, or saw no GPU where the SKU has some",
		}, {Class: bringup.BMCPowerFailure, When: "the machine is to be switched off and on, and its BMC does not do it"},
	},
}, hooks.scrubGPU)

// The failure code that only this stage has.
var codeGPU = job.DeclareCode(job.Code{
	Name: "gpu_scrub_incomplete", Class: bringup.SanitizationFailure,
	Cause:   "A process uses a GPU, or its driver does not answer.",
	Remedy:  "look at the GPUs and what uses them, then retry; a power cycle clears them, too",
	Runbook: "decommission-parked",
})

// The results that an agent reports for a scrub.
const (
	outcomeScrubbed = "scrubbed"
	outcomeNoGPU    = "not_applicable"
)

// doubtOfGPU returns why the memory of a GPU does not count as scrubbed, or ""
// if it does.
func doubtOfGPU(g agentwire.GPUScrubbed) string {
	switch {
	case g.Error != "":
		return g.Error
	case g.WordsNonzero != 0:
		return fmt.Sprintf("%d words came back", g.WordsNonzero)
	case g.Method == agentwire.ScrubByReset:
		return "it was reset and not overwritten: nothing that was read proves that its memory is empty"
	case g.BytesCovered <= 0 || g.BytesCovered > g.BytesTotal:
		return fmt.Sprintf("%d of its %d bytes are said to be covered", g.BytesCovered, g.BytesTotal)
	}
	return ""
}

// scrubRemedy suggests what to do if memory is not proven clean. Trying again
// does not help for GPUs that can only be reset and not overwritten.
func scrubRemedy(out agentwire.GPUScrubOutput, setting string) (remedy string, final bool) {
	resets := func(g agentwire.GPUScrubbed) bool { return g.Method == agentwire.ScrubByReset }
	if out.Outcome == outcomeScrubbed && slices.ContainsFunc(out.GPUs, resets) {
		return fmt.Sprintf("the GPUs were only reset, which does not prove their memory empty, and trying again does not change that: install the "+
			"library that overwrites them (HIP of ROCm, or CUDA), or accept a weaker method by the profile (%s=reset or power_cycle), "+
			"which the outcome says; or switch the machine off and on, then override the stage, naming that as the residual risk",
			setting), true
	}
	return "look at the GPUs and what uses them, then retry; a power cycle clears them, too", false
}

// doubtOfScrub returns why a scrub does not count whatever its agent says, or
// "" if it does.
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

// scrub cleans the memory of GPUs. The agent overwrites it; if that fails,
// scrub goes on to weaker methods as far as the profile allows.
func (s *Service) scrub(ctx context.Context, d Decommission, w *bringup.Work, stage string) (job.Result, error) {
	asks := errand{kind: agentwire.TypeGPUScrub, params: agentwire.GPUScrubParams{Reset: true}}
	cycled := w.Facts.PowerCycle.Of(stage, w.Epoch)
	if cycled { // otherwise the power cycle is not over, and the machine may be off
		if err := s.bringup.PowerCycle(ctx, w, stage); err != nil {
			return job.Result{}, err
		}
		asks.again = ".after_power_cycle" // a machine takes as long to start as after an installation
		asks.patience = time.Duration(w.Profile.Policy.EnrollmentTimeoutSeconds) * time.Second
	}
	t, await, err := s.ask(ctx, d, w, stage, asks)
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
	missing := known - len(out.GPUs)
	if missing > 0 && (doubt == "" || out.Outcome == outcomeNoGPU) {
		doubt = fmt.Sprintf("%d of its %d GPUs were not seen: %s", missing, known,
			or(out.Reason, "the agent does not name them"))
	}
	weakest, setting := w.Profile.Policy.ScrubMethod(out.Vendor)
	switch {
	case doubt == "":
		result.Message = fmt.Sprintf("the memory of %d GPUs was overwritten and read back", len(out.GPUs))
		return result, nil
	case out.Outcome == outcomeNoGPU && known == 0:
		result.Skipped, result.Message = true, "there is no GPU to scrub: "+or(out.Reason, "the agent found none")
		return result, nil
	case missing > 0 || defective(out) || occupied(out):
	case weakest.Allows(site.MethodReset) && wereReset(out):
		return s.settleFor(result, out, WeakerScrub{Method: site.MethodReset, Setting: setting}), nil
	case cycled && weakest.Allows(site.MethodPowerCycle):
		return s.settleFor(result, out, WeakerScrub{
			Method: site.MethodPowerCycle, Setting: setting,
			OffAt: w.Facts.PowerCycle.OffAt, OnAt: w.Facts.PowerCycle.OnAt,
		}), nil
	case weakest.Allows(site.MethodPowerCycle) && d.managed():
		if err := s.bringup.PowerCycle(ctx, w, stage); err != nil {
			return result, err
		}
		return s.scrub(ctx, d, w, stage)
	}
	remedy, final := scrubRemedy(out, setting)
	if out.Outcome == outcomeNoGPU {
		remedy = unseenRemedy
	}
	f := codeGPU.Failed("the memory of GPUs of %s is not proven clean: %s", d.Hostname, doubt).With("%s", remedy).
		About(map[string]any{"gpus": out.GPUs, "gpus_known": known, "task_id": t.ID})
	f.Final = final
	return result, f
}

// What the weaker methods do, and what they prove.
var (
	didByMethod = map[site.ScrubMethod]string{
		site.MethodReset:      "The tool of the vendor reset the GPU",
		site.MethodPowerCycle: "MAAS switched the machine off and on through its BMC",
	}
	provesByMethod = map[site.ScrubMethod]string{
		site.MethodReset:      "that the tool says so: no process is left on the GPU",
		site.MethodPowerCycle: "that the BMC said off, and later on: what has no power for a while keeps no memory",
	}
	provesNotByMethod = map[site.ScrubMethod]string{
		site.MethodReset:      "that the memory is empty: nothing was read back, and whether a reset clears it is the vendor's word",
		site.MethodPowerCycle: "that the memory is empty: nothing was read back, and that the GPUs had no power is the BMC's word",
	}
)

// settleFor goes on with a weaker method, and the evidence says so.
func (s *Service) settleFor(result job.Result, out agentwire.GPUScrubOutput, w WeakerScrub) job.Result {
	w.Vendor, w.Why, w.RecordedAt = out.Vendor, or(out.Reason, "the agent does not say why"), s.now().UTC()
	w.Did, w.Proves, w.ProvesNot = didByMethod[w.Method], provesByMethod[w.Method], provesNotByMethod[w.Method]
	if w.OffAt != nil && w.OnAt != nil {
		w.Did += fmt.Sprintf(", which said off at %s and on at %s", stamp(*w.OffAt), stamp(*w.OnAt))
	}
	for _, g := range out.GPUs {
		if doubtOfGPU(g) != "" {
			w.GPUs = append(w.GPUs, g.UUID)
		}
	}
	result.Evidence = append(result.Evidence, job.Evidence{Kind: EvidenceWeaker, Value: w})
	result.Message = fmt.Sprintf("%d of %d GPUs were not overwritten; the profile accepts a weaker method (%s: %s), which proves less: %s",
		len(w.GPUs), len(out.GPUs), w.Setting, w.Method, w.Why)
	return result
}

// wereReset says whether all GPUs that are not proven empty were reset.
func wereReset(out agentwire.GPUScrubOutput) bool {
	return len(out.GPUs) > 0 && !slices.ContainsFunc(out.GPUs, func(g agentwire.GPUScrubbed) bool {
		return doubtOfGPU(g) != "" && (g.Method != agentwire.ScrubByReset || g.Error != "")
	})
}

// defective says whether memory did not hold what was written to it, or its
// check cannot be believed. No weaker method repairs that.
func defective(out agentwire.GPUScrubOutput) bool {
	return slices.ContainsFunc(out.GPUs, func(g agentwire.GPUScrubbed) bool {
		return g.WordsNonzero != 0 || strings.HasPrefix(g.Error, "memory_") || strings.HasPrefix(g.Error, "check_")
	})
}

// occupied says whether something used a GPU or ended the scrub. A weaker
// method would prove even less, because the user of the GPU may write again.
func occupied(out agentwire.GPUScrubOutput) bool {
	return slices.ContainsFunc(out.GPUs, func(g agentwire.GPUScrubbed) bool {
		return strings.HasPrefix(g.Error, "gpu_in_use") || strings.HasPrefix(g.Error, "interrupted")
	})
}

// unseenRemedy suggests what to do if no GPU is seen on a node that should have
// some.
const unseenRemedy = "look at the driver and the GPUs of the machine, then retry; if it has none, give its node a SKU without GPUs, " +
	"override the stage, or let such nodes pass by the profile (gpu_scrub=if_present), which their outcome says"

// gpusOf returns how many GPUs the node is known to have. The SKU decides,
// because a GPU whose driver is gone or that fell off the bus still has its
// memory. If the policy allows it, a node on which no GPU was ever seen has
// none. A node that was added by hand has no profile to say so: for it, the setting
// for virtual machines does.
func (s *Service) gpusOf(ctx context.Context, d Decommission, policy site.Scrub) (int, error) {
	n, found, err := s.inspected(ctx, d.Node)
	if err != nil {
		return 0, err
	}
	if len(found.GPUs) == 0 && (policy == site.ScrubIfPresent || s.withoutGPUs && !d.managed()) {
		return 0, nil
	}
	return max(len(found.GPUs), int(n.GPUsTotal)), nil
}

// inspected reads a node with what its agent last found on the machine.
func (s *Service) inspected(ctx context.Context, of id.Node) (node.Node, agentwire.Capabilities, error) {
	var found agentwire.Capabilities
	n, err := s.nodes.Detail(ctx, of)
	if err != nil || n.Inspection == nil {
		return n, found, err
	}
	if err := json.Unmarshal(n.Inspection, &found); err != nil {
		return n, found, fmt.Errorf("decode inspection of node: %w", err)
	}
	return n, found, nil
}

// vendorOf returns the vendor of the node's GPUs as its agent names it, or ""
// if no agent has reported it yet.
func (s *Service) vendorOf(ctx context.Context, of id.Node) (string, error) {
	_, found, err := s.inspected(ctx, of)
	return found.Facts["gpu.vendor"], err
}
