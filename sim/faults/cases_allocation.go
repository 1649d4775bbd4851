package faults

import (
	"context"

	"gpuaas/contract/agentwire"
)

// rentalCases are the special cases of the stages of allocations. Whatever is missing
// here goes wrong as passing says.
var rentalCases = map[string]map[Kind]Case{
	takeUp: {
		ErrorKind: {NotApplicable: onlyWritten}, Lies: {NotApplicable: onlyWritten},
		OutOfBand: gone("the tenant gives the allocation back before a worker has taken it up"),
	},
	probeNode: {
		Ambiguous: {
			What: "the machine loses its power, and its agent does not fetch the task", slow: true, ends: failed,
			set: func(r *run) { r.first(func(context.Context) error { return r.happen("power_off") }) },
		},
		ErrorKind: {
			What: "the agent finds a broken GPU; there is another node", left: quarantined,
			wish: func(w *wish) { w.spare = true },
			set:  says(agentwire.TypeHealthProbe, broken),
		},
		Lies: {
			What: "the agent says that the node is healthy, and a GPU is missing; there is no other node", ends: failed,
			left: quarantined, set: says(agentwire.TypeHealthProbe, missing),
		},
		OutOfBand: {
			What: "an operator quarantines the node in the moment before; there is another one", left: quarantined,
			wish: func(w *wish) { w.spare = true },
			set:  func(r *run) { r.first(r.quarantine) },
		},
	},
	makeAccount: {
		Ambiguous: {
			What: "the machine loses its power, and its agent does not fetch the task", Mend: "switch the machine on",
			slow: true, ends: failed,
			set: func(r *run) {
				r.first(func(context.Context) error { return r.happen("power_off") })
				r.mend = func(context.Context) error { return r.happen("power_on") }
			},
		},
		ErrorKind: {
			What: "the agent tries, and says that it failed", ends: failed,
			set: func(r *run) {
				r.first(func(context.Context) error {
					r.world.boots.answer(r.hostname, agentwire.TypeProvisionUser,
						func(agentwire.Verified) (any, *agentwire.TaskError) {
							return nil, &agentwire.TaskError{Code: "step_failed", Message: "a simulated failure of the machine"}
						})
					return nil
				})
			},
		},
		Lies: {
			What: "the agent says that it has made the account, and nobody can log in", ends: failed,
			set: says(agentwire.TypeProvisionUser, func(truth any) any {
				out, _ := truth.(agentwire.ProvisionUserOutput)
				out.LoginChecked = false
				return out
			}),
		},
		OutOfBand: gone("the tenant gives the allocation back before it has an account"),
	},
	settle: {
		ErrorKind: {NotApplicable: onlyWritten}, Lies: {NotApplicable: onlyWritten},
		OutOfBand: {
			What: "an operator has the node cleaned, and is told that this ends the allocation", ends: failed,
			set: func(r *run) { r.first(func(ctx context.Context) error { return r.seize(ctx, softReset) }) },
		},
	},
	askCleanup: {
		ErrorKind: {NotApplicable: onlyAsked}, Lies: {NotApplicable: onlyAsked},
		OutOfBand: {
			What: "an operator has the node cleaned in the same moment",
			set:  func(r *run) { r.first(func(ctx context.Context) error { return r.seize(ctx, softReset) }) },
		},
		Takeover: {
			What: "an operator has the node retired while the stage is about to act; the stage goes on", left: "retired",
			set: func(r *run) { r.takeOver() },
		},
	},
}

const (
	onlyWritten = "the stage asks nobody but the database, which either records it or is away"
	onlyAsked   = "the stage only records a request; what the operation meets that was asked for is tried stage by stage"
	quarantined = "quarantined"
)

// gone is a tenant who leaves before the node was handed over.
func gone(what string) Case {
	return Case{What: what, ends: failed, set: func(r *run) { r.first(r.leave) }}
}

func broken(truth any) any {
	out, _ := truth.(agentwire.HealthProbeOutput)
	yes := true
	out.GPUs[0].RowsFailed = &yes
	return out
}

func missing(truth any) any {
	out, _ := truth.(agentwire.HealthProbeOutput)
	out.GPUs = out.GPUs[1:]
	return out
}

// rentalCase returns a case of an allocation: of a stage of its own, or of the
// operation that cleans up after it.
func rentalCase(stage string, kind Kind) Case {
	if own, ok := rentalCases[stage]; ok {
		if c := own[kind]; c.set != nil || c.NotApplicable != "" {
			return c
		}
		return passing(kind)
	}
	c := (Section{Decommission, softReset, stage}).own(kind)
	switch {
	case kind != OutOfBand:
	case c.What == visited.What:
		c = Case{What: "somebody else asks for the node, and is refused", set: func(r *run) { r.first(r.refused) }}
	case stage == disable:
		c.left = quarantined // whoever did that decides when it ends
	}
	return c
}

// passing returns what goes wrong with every stage of an allocation in the same way.
// None of it needs anybody: what is away comes back.
func passing(kind Kind) Case {
	c := usual(kind)
	switch kind {
	case Before:
		c.What, c.Mend = "what the stage needs is away for a while; it has done nothing", ""
		c.set = func(r *run) {
			r.before = func(_ context.Context, n int) string {
				if n <= attemptsAway {
					return mishapUnavailable
				}
				return mishapNone
			}
		}
	case Takeover:
		c.What = "an administrator gives the allocation up while the stage is about to act; the stage goes on"
		c.ends = failed
	case After, Ambiguous, ErrorKind, Lies, Killed, Twice, OutOfBand:
	}
	return c
}

// attemptsAway is how often a stage is tried in vain.
const attemptsAway = 3
