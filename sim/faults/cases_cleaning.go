package faults

import (
	"context"

	"gpuaas/contract/agentwire"
	agents "gpuaas/sim/fleet"
)

// decommissionCases are the special cases of stages of decommissions, by stage,
// or by mode and stage. Whatever is missing here goes wrong as in an
// onboarding, or as usual.
var decommissionCases = map[string]map[Kind]Case{
	disable: disableCases, forceRelease: allocationCases, certify: certifyCases, powerOff: powerOffCases,
	release: releaseCases,
	retire:  retireCases, remove: removedCases, secrets: secretCases, removeRecord: recordCases,
	reactivate:                  reactivateCases,
	drain:                       agentTask(agentwire.TypeDrain, drainLies, nil),
	softReset + "/" + drain:     agentTask(agentwire.TypeDrain, drainLies, &visited),
	cleanup:                     agentTask(agentwire.TypeStorageCleanup, cleanupLies, nil),
	softReset + "/" + cleanup:   agentTask(agentwire.TypeStorageCleanup, cleanupLies, &visited),
	scrub:                       agentTask(agentwire.TypeGPUScrub, scrubLies, nil),
	softReset + "/" + scrub:     agentTask(agentwire.TypeGPUScrub, scrubLies, &visited),
	validate:                    finding(agentTask(agentwire.TypeValidateClean, validateLies, &visited)),
	retireMode + "/" + validate: finding(agentTask(agentwire.TypeValidateClean, validateLies, nil)),
	enable:                      agentTask(agentwire.TypeDrain, enableLies, &visited),
	removeMode + "/" + remove:   agentTask(agentwire.TypeUninstall, uninstallLies, nil),
	roce:                        addressed(prepared((*run).unlinkRoCE, onExisting(roceCases))),
	render:                      onExisting(renderCases),
}

// visited and rebooted are what others do to a node meanwhile.
var (
	visited = Case{
		What: "somebody tries to let a tenant in once more, and is refused",
		set:  func(r *run) { r.first(r.lockedOut) },
	}
	rebooted = Case{
		What: "the machine is switched off and on",
		set: func(r *run) {
			r.first(func(context.Context) error {
				if err := r.happen("power_off"); err != nil {
					return err
				}
				return r.happen("power_on")
			})
		},
	}
)

// agentTask returns the cases of a stage that gives the agent a task. lie is
// what the agent says instead of the truth; meanwhile is what others do at the
// same time. If it is nil, the machine reboots.
func agentTask(task string, lie Case, meanwhile *Case) map[Kind]Case {
	if meanwhile == nil {
		meanwhile = &rebooted
	}
	return map[Kind]Case{
		Ambiguous: {
			What: "the machine loses its power, and its agent does not fetch the task", Mend: "switch the machine on",
			slow: true,
			set: func(r *run) {
				r.first(func(context.Context) error { return r.happen("power_off") })
				r.mend = func(context.Context) error { return r.happen("power_on") }
			},
		},
		ErrorKind: {
			What: "the agent tries, and says that it failed", Mend: "mend what it says",
			set: func(r *run) {
				r.first(func(context.Context) error {
					r.world.boots.answer(r.hostname, task, func(agentwire.Verified) (any, *agentwire.TaskError) {
						return nil, &agentwire.TaskError{Code: "step_failed", Message: "a simulated failure of the machine"}
					})
					return nil
				})
			},
		},
		Lies:      lie,
		OutOfBand: *meanwhile,
	}
}

// finding returns the cases of a validation in which one finds something of a
// tenant.
func finding(own map[Kind]Case) map[Kind]Case {
	own[ErrorKind] = Case{
		What: "a process of the tenant is found", Mend: "end the process",
		set: says(agentwire.TypeValidateClean, func(truth any) any {
			out, _ := truth.(agentwire.ValidateCleanOutput)
			out.Clean, out.Findings = false, []agentwire.CleanFinding{{
				Kind: "processes", Subject: "pid 4711",
				Detail: "runs as tenant",
			}}
			return out
		}),
	}
	return own
}

// says makes the agent say something about tasks of a type, from the stage on,
// until somebody has fixed it.
func says(task string, change func(truth any) any) func(*run) {
	return func(r *run) {
		r.first(func(context.Context) error {
			r.world.boots.answer(r.hostname, task, func(v agentwire.Verified) (
				any, *agentwire.TaskError,
			) {
				return change(agents.Answer(v)), nil
			})
			return nil
		})
	}
}

var drainLies = Case{
	What: "the agent says that the node is drained, and an account is left", Mend: "remove the account",
	set: says(agentwire.TypeDrain, func(truth any) any {
		out, _ := truth.(agentwire.DrainOutput)
		out.UsersLeft = []string{"tenant"}
		return out
	}),
}

var cleanupLies = Case{
	What: "a disk says that it is sanitized, and gives back what was on it", Mend: "replace the disk",
	set: says(agentwire.TypeStorageCleanup, func(truth any) any {
		out, _ := truth.(agentwire.StorageCleanupOutput)
		for i := range out.Devices {
			out.Devices[i].Verified, out.Devices[i].CanariesFound = false, 2
		}
		return out
	}),
}

var scrubLies = Case{
	What: "the memory of a GPU is said to be scrubbed, and words of it are left", Mend: "reset the GPU",
	set: says(agentwire.TypeGPUScrub, func(any) any {
		return agentwire.GPUScrubOutput{Outcome: "scrubbed", Vendor: "nvidia", GPUs: []agentwire.GPUScrubbed{
			{UUID: "GPU-simulated", Method: "fill", BytesTotal: 1 << 30, BytesCovered: 1 << 30, WordsNonzero: 7, Reset: "done"},
		}}
	}),
}

var validateLies = Case{
	What: "the agent says that the node is clean, and has looked at nothing", Mend: "let it look",
	set: says(agentwire.TypeValidateClean, func(any) any {
		return agentwire.ValidateCleanOutput{
			Clean: true, Findings: []agentwire.CleanFinding{},
			Checked: []agentwire.CheckedKind{},
		}
	}),
}

var enableLies = Case{
	What: "the agent says that it has done it, and still refuses users", Mend: "start the agent anew",
	set: says(agentwire.TypeDrain, func(truth any) any {
		out, _ := truth.(agentwire.DrainOutput)
		out.Draining = true
		return out
	}),
}

var uninstallLies = Case{
	What: "the agent says that it is uninstalled, and has left a part of it",
	set: says(agentwire.TypeUninstall, func(any) any {
		return agentwire.UninstallOutput{Removed: []string{"simulated"}, Residue: []string{"/var/lib/gpuaas"}}
	}),
}
