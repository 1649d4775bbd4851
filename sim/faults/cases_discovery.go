package faults

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"gpuaas/contract/apiclient"
	"gpuaas/sim/lab"
	"gpuaas/sim/maas/fault"
)

// Images that MAAS does not have, or loses.
const (
	absentImage    = "gpuaas-absent"
	vanishingImage = "gpuaas-vanishing"
)

var siteCases = map[Kind]Case{
	ErrorKind: {
		What: "MAAS does not have the image of the profile", Mend: "upload the image",
		wish: func(w *wish) { w.image = absentImage },
		set: func(r *run) {
			r.mend = func(context.Context) error { r.world.Lab.AddImage(absentImage); return nil }
		},
	},
	Lies: {NotApplicable: "the stage only reads what holds for the whole site, and a later stage looks again before it " +
		"acts: see deploy_via_maas"},
	OutOfBand: {
		What: "somebody revokes the site's key to MAAS", Mend: "write a new key",
		set: func(r *run) {
			r.first(func(context.Context) error { return r.world.Lab.DeleteToken(admin, r.tokenKey) })
			r.mend = func(ctx context.Context) error { return r.world.admit(ctx, r) }
		},
	},
}

var powerCases = map[Kind]Case{
	ErrorKind: {
		What: "the site has no BMC credentials", Mend: "write BMC credentials of the site",
		wish: func(w *wish) { w.noPower = true },
		set: func(r *run) {
			r.mend = func(ctx context.Context) error {
				return r.world.credentials(ctx, r, apiclient.SiteCredentialsBody{Power: &apiclient.SitePowerBody{
					User: lab.BMCUser,
					Pass: &r.world.BMCPassword,
				}})
			}
		},
	},
	Lies: {NotApplicable: "credentials are only chosen here; that they are wrong shows when the BMC is used: see " +
		"commission_node, provider_error_state"},
	OutOfBand: {
		What: "somebody gives the machine BMC credentials of its own",
		set: func(r *run) {
			r.first(func(ctx context.Context) error {
				body := apiclient.SiteNewPowerOverrideBody{
					SelectorType: apiclient.SiteNewPowerOverrideBodySelectorTypeHostname, SelectorValue: r.hostname, User: lab.BMCUser,
					Pass: &r.world.BMCPassword,
				}
				if _, err := apiclient.Read(r.world.api.CreatePowerOverrideWithResponse(ctx, r.site,
					&apiclient.CreatePowerOverrideParams{}, body)); err != nil {
					return fmt.Errorf("add power override: %w", err)
				}
				return nil
			})
		},
	},
}

const createOp = "machines.post"

func bare(w *wish) { w.unknown = true }

var findCases = map[Kind]Case{
	Before: {
		What: "MAAS refuses to add the machine: it is being restarted", Mend: itsMAAS, wish: bare,
		set: away(createOp),
	},
	After:     {What: "MAAS adds the machine, and its answer is lost", wish: bare, set: lost(createOp)},
	Ambiguous: {What: "a proxy gives up waiting for MAAS to add the machine", wish: bare, set: doubtful(createOp)},
	ErrorKind: {
		What: "two machines in MAAS have the address of the BMC", Mend: "remove the wrong one",
		set: func(r *run) {
			befalls("twin")(r)
			r.mend = func(context.Context) error { return r.removeTwin() }
		},
	},
	Lies: {
		What: "MAAS says that it has added the machine, and has not", wish: bare,
		set: func(r *run) {
			r.first(func(context.Context) error {
				text, err := changed(struct{}{}, map[string]any{
					"system_id": "zz9zz9", "hostname": r.hostname, "status_name": "New",
					"architecture": "amd64/generic", "power_type": "ipmi",
				})
				if err != nil {
					return err
				}
				return r.answers(createOp, text, 1)
			})
		},
	},
	Killed: {
		What: "the worker dies after MAAS has added the machine, before that is recorded", wish: bare,
		set: func(r *run) { r.after = once(mishapKilled) },
	},
	Twice: {
		What: "the stage is delivered twice; the second time does not know of the machine that the first has added",
		wish: bare, set: func(r *run) { r.before = once(mishapTwice) },
	},
	OutOfBand: {
		What: "the server boots and enlists itself, under another name, in the moment before it is added", wish: bare,
		set: func(r *run) { r.first(func(context.Context) error { return r.world.Lab.Happen(r.bmc, "enlist") }) },
	},
	Takeover: {
		What: "an operator stops the job while it is about to add the machine; the stage goes on", wish: bare,
		set: func(r *run) { r.takeOver() },
	},
}

func (r *run) removeTwin() error {
	for _, b := range r.world.Lab.Overview() {
		if b.BMC == r.bmc && b.Hostname != r.hostname {
			return r.world.Lab.Delete(admin, b.SystemID)
		}
	}
	return fmt.Errorf("remove the twin of %s: %w", r.hostname, errUnknown)
}

const commissionOp = "machine.commission"

var commissionCases = map[Kind]Case{
	Before:    {What: "MAAS refuses to begin: it is being restarted", Mend: itsMAAS, set: away(commissionOp)},
	After:     {What: "MAAS begins, and its answer is lost", set: lost(commissionOp)},
	Ambiguous: {What: "a proxy gives up waiting for MAAS to begin", set: doubtful(commissionOp)},
	ErrorKind: {
		What: "the BMC does not switch the machine on", Mend: "mend the BMC or its credentials",
		set: func(r *run) {
			r.first(func(context.Context) error { return r.rule(fault.Rule{Fault: fault.BMCFailure, Power: "on"}) })
		},
	},
	Lies: {
		What: "MAAS says that it inspects the machine, and does not",
		set:  claims(commissionOp, map[string]any{"status": 1, "status_name": "Commissioning"}),
	},
	OutOfBand: {What: "somebody removes the machine from MAAS", set: befalls("delete")},
}

const readOp = "machine.get"

var (
	hangScripts = fault.Rule{Fault: fault.PhaseHangs, Phase: "scripts"}
	dragScripts = fault.Rule{Fault: fault.PhaseDrags, Phase: "scripts", Delay: fault.Duration(2 * time.Second)}
)

var readyCases = map[Kind]Case{
	Before: {What: "MAAS cannot be asked for the machine: it is being restarted", Mend: itsMAAS, set: away(readOp)},
	Ambiguous: {
		What: "the machine falls silent while it is inspected, until MAAS gives up",
		set:  phase(commission, hangScripts),
	},
	ErrorKind: {
		What: "the machine does not pass the inspection", Mend: "mend the machine",
		set: phase(commission, fault.Rule{Fault: fault.FailCommissioning}),
	},
	Lies: {
		What: "MAAS shows the machine as Ready, and still inspects it", Mend: "wait until it is Ready",
		set: func(r *run) {
			phase(commission, dragScripts)(r)
			r.first(func(context.Context) error {
				return r.rule(fault.Rule{
					Operation: readOp, Fault: fault.Lie,
					Set: map[string]any{"status": 4, "status_name": "Ready"}, Count: 1,
				})
			})
			r.mend = func(ctx context.Context) error { return r.becomes(ctx, "Ready") }
		},
	},
	OutOfBand: {
		What: "somebody aborts the inspection",
		set: func(r *run) {
			phase(commission, hangScripts)(r)
			r.first(func(ctx context.Context) error {
				id, err := r.id()
				if err != nil {
					return err
				}
				_, err = r.world.Lab.Abort(ctx, admin, id, url.Values{})
				return err
			})
		},
	},
}
