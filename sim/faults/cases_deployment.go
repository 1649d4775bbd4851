package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"gpuaas/sim/maas/fault"
)

const deployOp = "machine.deploy"

var deployCases = map[Kind]Case{
	Before:    {What: "MAAS refuses to deploy: it is being restarted", Mend: itsMAAS, set: away(deployOp)},
	After:     {What: "MAAS begins to deploy, and its answer is lost", set: lost(deployOp)},
	Ambiguous: {What: "a proxy gives up waiting for MAAS to deploy", set: doubtful(deployOp)},
	ErrorKind: {
		What: "the image is gone from MAAS", Mend: "upload the image again",
		wish: func(w *wish) { w.image = vanishingImage },
		set: func(r *run) {
			r.world.Lab.AddImage(vanishingImage)
			r.first(func(context.Context) error { return r.removeImage(vanishingImage) })
			r.mend = func(context.Context) error { r.world.Lab.AddImage(vanishingImage); return nil }
		},
	},
	Lies: {
		What: "MAAS says that it deploys, and does not",
		set: claims(deployOp, map[string]any{
			"status": 9, "status_name": "Deploying", "osystem": "ubuntu",
			"distro_series": "noble", "enable_hw_sync": true,
		}),
	},
	OutOfBand: {
		What: "somebody else deploys the machine", Mend: hisRelease,
		set: func(r *run) { befalls("redeploy")(r); r.mend = r.free },
	},
}

func (r *run) removeImage(name string) error {
	list, err := r.world.Lab.Images("")
	if err != nil {
		return err
	}
	text, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("read images: %w", err)
	}
	var images []struct {
		ID   int    `json:"id"`
		Name string `json:"name"`
	}
	if err := json.Unmarshal(text, &images); err != nil {
		return fmt.Errorf("read images: %w", err)
	}
	for _, i := range images {
		if i.Name == name {
			return r.world.Lab.DeleteImage(admin, i.ID)
		}
	}
	return fmt.Errorf("MAAS has no image %s", name)
}

const listOp = "machines.get"

var (
	failInstall = fault.Rule{Fault: fault.FailDeploy}
	hangInstall = fault.Rule{Fault: fault.PhaseHangs, Phase: "install"}
	dragInstall = fault.Rule{Fault: fault.PhaseDrags, Phase: "install", Delay: fault.Duration(3 * time.Second)}
	// noDatasource is an installed system that cannot reach MAAS.
	noDatasource = fault.Rule{Fault: fault.Datasource}
)

var deployedCases = map[Kind]Case{
	Ambiguous: {
		What: "the machine falls silent while it is installed, until MAAS gives up",
		set:  phase(deploy, hangInstall),
	},
	ErrorKind: {What: "the installation fails", Mend: "remove the cause", set: phase(deploy, failInstall)},
	Lies: {
		What: "MAAS shows the machine as Deployed, and still installs it", Mend: "wait until it is Deployed",
		set: func(r *run) {
			phase(deploy, dragInstall)(r)
			r.first(func(context.Context) error {
				return r.rule(fault.Rule{
					Operation: listOp, Fault: fault.Lie,
					Set: map[string]any{"status": 6, "status_name": "Deployed"}, Count: 1,
				})
			})
			r.mend = func(ctx context.Context) error { return r.becomes(ctx, "Deployed") }
		},
	},
	OutOfBand: {
		What: "somebody releases the machine while it is installed",
		set:  both(phase(deploy, hangInstall), befalls("release")),
	},
}

var classifyCases = afterwards(phase(deploy, noDatasource), map[Kind]Case{
	Before: {What: "MAAS cannot be asked for the machine: it is being restarted", Mend: itsMAAS, set: away(readOp)},
	Ambiguous: {
		What: "MAAS does not answer in time what happened to the machine", Mend: "remove the cause of the failed deployment",
		set: func(r *run) {
			r.first(func(context.Context) error {
				return r.rule(fault.Rule{
					Operation: "events.query", Fault: fault.ErrorBefore, Status: gatewayTimeout,
					Text: "Gateway Time-out",
				})
			})
		},
	},
	ErrorKind: {
		What: "MAAS says that the disks could not be partitioned", Mend: "remove the cause",
		// Instead of the failure that is tried again.
		set: func(r *run) { phase(deploy, fault.Rule{Fault: fault.PhaseFails, Phase: "storage"})(r) },
	},
	Lies: {
		What: "MAAS shows the machine as Deployed after all, and it is not",
		set: func(r *run) {
			r.first(func(context.Context) error {
				return r.rule(fault.Rule{
					Operation: readOp, Fault: fault.Lie,
					Set: map[string]any{"status": 6, "status_name": "Deployed"}, Count: 1,
				})
			})
		},
	},
	OutOfBand: {What: "somebody releases the machine", set: befalls("release")},
})

const releaseOp = "machine.release"

var recoverCases = afterwards(phase(deploy, noDatasource), map[Kind]Case{
	Before:    {What: "MAAS refuses to release the machine: it is being restarted", Mend: itsMAAS, set: away(releaseOp)},
	After:     {What: "MAAS releases the machine, and its answer is lost", set: lost(releaseOp)},
	Ambiguous: {What: "a proxy gives up waiting for MAAS to release the machine", set: doubtful(releaseOp)},
	ErrorKind: {
		What: "the BMC does not switch the machine off", Mend: "mend the BMC",
		set: func(r *run) {
			r.first(func(context.Context) error { return r.rule(fault.Rule{Fault: fault.BMCFailure, Power: "off"}) })
		},
	},
	Lies: {
		What: "MAAS says that the machine is released, and has done nothing", slow: true,
		set: claims(releaseOp, map[string]any{"status": 4, "status_name": "Ready"}),
	},
	OutOfBand: {What: "somebody else releases the machine", set: befalls("release")},
})
