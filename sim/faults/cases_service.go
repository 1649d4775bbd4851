package faults

import (
	"context"

	"gpuaas/sim/maas/fault"
)

const tokenOp = "machine.get_token"

var seedCases = map[Kind]Case{
	Before: {
		What: "the machine does not let the deploy user in", Mend: "let it in", slow: true,
		set: func(r *run) {
			r.first(func(context.Context) error { r.world.Lab.ShutOut(r.hostname); return nil })
			r.mend = func(context.Context) error { r.world.Lab.LetIn(r.hostname); return nil }
		},
	},
	Ambiguous: {
		What: "MAAS does not answer in time which token the machine has",
		set: func(r *run) {
			r.first(func(context.Context) error {
				return r.rule(fault.Rule{
					Operation: tokenOp, Fault: fault.ErrorBefore, Status: gatewayTimeout,
					Text: "Gateway Time-out", Count: 4,
				})
			})
		},
	},
	ErrorKind: {
		What: "MAAS has no token for the machine", Mend: "make MAAS give the machine a token", slow: true,
		set: func(r *run) { r.first(func(context.Context) error { return r.answers(tokenOp, "null", 0) }) },
	},
	Lies: {
		What: "MAAS hands out a token that it does not accept", slow: true,
		set: func(r *run) {
			// An agent that polls would fetch the token itself.
			letPoll := r.world.boots.hold(r.hostname, r.world.boots.mute)
			r.at(waitAgent, func(context.Context) error { letPoll(); return nil })
			r.first(func(context.Context) error {
				return r.rule(fault.Rule{
					Operation: tokenOp, Fault: fault.Lie,
					Set: map[string]any{"token_secret": "AnotherSecretThanTheOneOfMAAS000"}, Count: 1,
				})
			})
		},
	},
	OutOfBand: {What: "somebody releases the machine", set: befalls("release")},
}

var syncCases = map[Kind]Case{
	Ambiguous: {
		What: "MAAS hears nothing of the machine's hardware until the time is up", Mend: "let the machine's reports through",
		slow: true,
		set: func(r *run) {
			r.at(seedSync, func(context.Context) error { return r.rule(fault.Rule{Fault: fault.NoSync}) })
		},
	},
	ErrorKind: {
		What: "MAAS shows hardware sync as switched off", Mend: "switch it on",
		set: func(r *run) {
			r.first(func(context.Context) error {
				return r.rule(fault.Rule{Operation: listOp, Fault: fault.Lie, Set: map[string]any{"enable_hw_sync": false}})
			})
		},
	},
	Lies: {
		What: "MAAS shows no sync for a while, although the machine reports",
		set: func(r *run) {
			r.first(func(context.Context) error {
				return r.rule(fault.Rule{Operation: listOp, Fault: fault.Lie, Set: map[string]any{"last_sync": nil}, Count: 5})
			})
		},
	},
	OutOfBand: {
		What: "somebody else deploys the machine anew", Mend: hisRelease,
		set: func(r *run) { befalls("redeploy")(r); r.mend = r.free },
	},
}

var agentCases = map[Kind]Case{
	Ambiguous: {
		What: "the agent does not come until the time is up", Mend: "let the agent reach the control plane", slow: true,
		set: func(r *run) {
			letCome := r.world.boots.hold(r.hostname, r.world.boots.held)
			r.mend = func(context.Context) error { letCome(); return nil }
		},
	},
	ErrorKind: {
		What: "the first boot of the machine fails", Mend: "mend what its log says", slow: true,
		set: func(r *run) {
			r.world.boots.fail(r.hostname, true)
			r.mend = func(context.Context) error { r.world.boots.fail(r.hostname, false); return nil }
		},
	},
	Lies: {
		What: "the agent enrols and then does not poll", Mend: "let the agent work", slow: true,
		set: func(r *run) {
			letPoll := r.world.boots.hold(r.hostname, r.world.boots.mute)
			r.mend = func(context.Context) error { letPoll(); return nil }
		},
	},
	OutOfBand: {
		What: "somebody releases the machine before its agent has come", Mend: "nothing",
		set: func(r *run) {
			letCome := r.world.boots.hold(r.hostname, r.world.boots.held)
			befalls("release")(r)
			r.mend = func(context.Context) error { letCome(); return nil }
		},
	},
}
