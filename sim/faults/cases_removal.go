package faults

import (
	"context"
	"maps"

	"gpuaas/sim/maas/fault"
)

// Why some combinations cannot exist.
const (
	onlyInventory = "the stage changes the inventory alone, in one transaction: there is no provider that could"
	noAllocations = "no tenant has the node, so that the stage has nothing to end: it is passed over, with its reason"
	trustedSigner = "a signature is checked before it is kept, and by everybody who reads the certificate: a false one " +
		"is a failure, not a lie"
	noAgentLeft = "the installation is gone with the release, and no agent is asked: see " +
		"remove/remove_gpuaas_node_record"
)

var disableCases = map[Kind]Case{
	ErrorKind: {NotApplicable: onlyInventory}, Lies: {NotApplicable: onlyInventory},
	OutOfBand: {
		What: "an operator quarantines the node in the moment before",
		set:  func(r *run) { r.first(r.quarantine) },
	},
}

var allocationCases = map[Kind]Case{
	ErrorKind: {NotApplicable: noAllocations}, Lies: {NotApplicable: noAllocations},
	OutOfBand: {NotApplicable: noAllocations},
}

var certifyCases = map[Kind]Case{
	ErrorKind: {
		What: "the secrets engine refuses to sign", Mend: "let it sign",
		set: func(r *run) { r.until(mishapRefused) },
	},
	Lies:      {NotApplicable: trustedSigner},
	OutOfBand: {What: "somebody switches the machine on", set: befalls("power_on")},
}

var retireCases = map[Kind]Case{
	ErrorKind: {NotApplicable: onlyInventory}, Lies: {NotApplicable: onlyInventory},
	OutOfBand: {What: "somebody switches the machine on", set: befalls("power_on")},
}

var removedCases = map[Kind]Case{
	ErrorKind: {NotApplicable: noAgentLeft}, Lies: {NotApplicable: noAgentLeft},
	OutOfBand: {What: "somebody removes the machine from MAAS", set: befalls("delete")},
}

var reactivateCases = map[Kind]Case{
	ErrorKind: {NotApplicable: onlyInventory}, Lies: {NotApplicable: onlyInventory},
	OutOfBand: rebooted,
}

var secretCases = map[Kind]Case{
	ErrorKind: {
		What: "the secrets engine refuses to delete", Mend: "let it delete",
		set: func(r *run) { r.until(mishapRefused) },
	},
	Lies: {NotApplicable: "what the engine said to have deleted is looked for in all that it leaves behind, at the end " +
		"of every run of the catalogue"},
	OutOfBand: {
		What: "somebody else has deleted the secrets already",
		set: func(r *run) {
			r.first(func(ctx context.Context) error {
				return r.world.Forget(ctx, "first-boot/onboarding/"+r.brought.String())
			})
		},
	},
}

// taken: somebody else deploys the machine before the job acts.
var taken = Case{
	What: "somebody else deploys the machine", Mend: hisRelease,
	set: func(r *run) { befalls("redeploy")(r); r.mend = r.free },
}

// onExisting returns cases of an onboarding for a node that exists. In them
// somebody else takes the machine instead of removing it: after a removal, no
// job could be about it any more.
func onExisting(own map[Kind]Case) map[Kind]Case {
	out := maps.Clone(own)
	out[OutOfBand] = taken
	return out
}

var failErase = fault.Rule{Fault: fault.FailErase}

var releaseCases = map[Kind]Case{
	Before:    {What: "MAAS refuses to release the machine: it is being restarted", Mend: itsMAAS, set: away(releaseOp)},
	After:     {What: "MAAS releases the machine, and its answer is lost", set: lost(releaseOp)},
	Ambiguous: {What: "a proxy gives up waiting for MAAS to release the machine", set: doubtful(releaseOp)},
	ErrorKind: {
		What: "the disks cannot be erased, and the policy allows nothing less", Mend: "replace the disk",
		wish: func(w *wish) { w.erase, w.keepErase = "secure", true },
		set:  func(r *run) { r.first(func(context.Context) error { return r.rule(failErase) }) },
	},
	Lies: {
		What: "MAAS says that it releases the machine, and does nothing", Mend: itsMAAS, slow: true,
		set: func(r *run) {
			r.first(func(context.Context) error {
				return r.rule(fault.Rule{
					Operation: releaseOp, Fault: fault.Ignored,
					Set: map[string]any{"status_name": "Releasing"}, Count: 1,
				})
			})
		},
	},
	OutOfBand: {What: "somebody else releases the machine", set: befalls("release")},
}

const powerOffOp = "machine.power_off"

// A released machine is off already, so powerOffCases switch it on first.
var powerOffCases = prepared(func(r *run) error { return r.happen("power_on") }, map[Kind]Case{
	Before: {
		What: "MAAS refuses to switch the machine off: it is being restarted", Mend: itsMAAS,
		set: away(powerOffOp),
	},
	After:     {What: "MAAS switches the machine off, and its answer is lost", set: lost(powerOffOp)},
	Ambiguous: {What: "a proxy gives up waiting for MAAS to switch the machine off", set: doubtful(powerOffOp)},
	ErrorKind: {
		What: "the BMC does not switch the machine off", Mend: "mend the BMC",
		set: func(r *run) {
			r.first(func(context.Context) error { return r.rule(fault.Rule{Fault: fault.BMCFailure, Power: "off"}) })
		},
	},
	Lies: {
		What: "MAAS says that the machine is switched off, and has done nothing", Mend: itsMAAS,
		set: func(r *run) {
			r.first(func(context.Context) error {
				return r.rule(fault.Rule{Operation: powerOffOp, Fault: fault.Ignored, Count: 1})
			})
		},
	},
	OutOfBand: {
		What: "somebody removes the machine from MAAS", Mend: "nothing: it is not there any more",
		set: befalls("delete"),
	},
})

const deleteOp = "machine.delete"

var recordCases = removing(map[Kind]Case{
	Before:    {What: "MAAS refuses to remove the machine: it is being restarted", set: away(deleteOp)},
	After:     {What: "MAAS removes the machine, and its answer is lost", set: lost(deleteOp)},
	Ambiguous: {What: "a proxy gives up waiting for MAAS to remove the machine", set: doubtful(deleteOp)},
	ErrorKind: {
		What: "MAAS does not let the machine be removed",
		set: func(r *run) {
			r.first(func(context.Context) error {
				return r.rule(fault.Rule{
					Operation: deleteOp, Fault: fault.ErrorBefore, Status: 409,
					Text: "Machine is in a pool that it cannot leave.",
				})
			})
		},
	},
	Lies: {
		What: "MAAS says that the machine is removed, and it is not",
		set: func(r *run) {
			r.first(func(context.Context) error {
				return r.rule(fault.Rule{Operation: deleteOp, Fault: fault.Ignored, Count: 1})
			})
		},
	},
	OutOfBand: {What: "somebody has removed the machine from MAAS", set: befalls("delete")},
})

// removing returns cases at sites whose policy also removes the records of
// MAAS.
func removing(own map[Kind]Case) map[Kind]Case {
	for _, kind := range Kinds {
		c, described := own[kind]
		if !described {
			c = usual(kind)
		}
		c.wish = func(w *wish) { w.removeRecord = true }
		own[kind] = c
	}
	return own
}
