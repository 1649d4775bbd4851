package bringup

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/adapter/firstboot"
	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/binding"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/job"
)

// WaitForHardwareSyncHealthy names the stage "Wait for hardware sync".
const WaitForHardwareSyncHealthy = "wait_for_hardware_sync_healthy"

var _ = catalog.Declare(job.Stage{
	Name: WaitForHardwareSyncHealthy, Title: "Wait for hardware sync", Attempts: 1,
	Limit: job.Limit(site.StageHWSyncHealth), Resume: EnsureHardwareSyncConfigured,
	Usually: "a minute or two",
	Looks:   "the last sync that MAAS saw, over and over",
	Does:    "brings the credentials again now and then",
	Expects: "MAAS has received a hardware sync since then, and the sync is recent enough",
	Again:   "it looks first",
	Fails: []job.FailureMode{
		MAASAway, OutOfBand, noWayToReach, job.FailsWith(HardwareSyncFailure, "no healthy sync in time"),
	},
}, (*Bringup).WaitForHardwareSyncHealthy)

// The code of failures that only this stage has.
var codeSyncUnhealthy = job.DeclareCode(job.Code{
	Name: "failed_hw_sync_health", Class: HardwareSyncFailure,
	Cause: "The timer of hardware sync does not run on the machine, or the machine cannot reach MAAS.",
	Remedy: "on the machine, look at the hardware sync of MAAS and whether it reaches MAAS; then " +
		"retry the stage",
	Runbook: "onboarding-parked",
})

// WaitForHardwareSyncHealthy waits until the machine has reported its hardware to
// MAAS since it was given its token. Now and then the stage brings the token again.
func (b *Bringup) WaitForHardwareSyncHealthy(ctx context.Context, w *Work) (Result, error) {
	if !w.Profile.Policy.RequireHWSync {
		return syncNotWanted(), nil
	}
	period, seeded, problem := reseedEvery(w), b.now(), error(nil)
	if at := w.Facts.SyncSeededAt; at != nil {
		seeded = *at
	}
	for {
		until := seeded.Add(period)
		if !w.Deadline.IsZero() && w.Deadline.Before(until) {
			until = w.Deadline
		}
		m, err := b.awaitMachine(ctx, w, until, b.syncing(w))
		switch {
		case err == nil:
			return b.healthy(ctx, w, m)
		case ctx.Err() != nil:
			return Result{}, ctx.Err()
		case fault.CodeOf(err) == maas.CodeMachineFailed:
			if err := stillOurs(m, w); err != nil {
				return Result{}, err
			}
			return Result{}, syncDisabled(w)
		case fault.CodeOf(err) != maas.CodeWaitEnded:
			return Result{}, err
		case !w.Deadline.IsZero() && !b.now().Before(w.Deadline):
			return Result{}, b.unhealthy(w, m, problem)
		}
		w.Heartbeat()
		if problem = b.reseed(ctx, w); problem != nil && Classify(problem).Final {
			return Result{}, problem
		}
		seeded = b.now()
	}
}

// leastReseed keeps short intervals from making a machine busy with seeds.
const leastReseed = 5 * time.Minute

// reseedEvery is how long the stage waits for a report before it brings the token
// again: one interval of reports, but at most a third of the time limit.
func reseedEvery(w *Work) time.Duration {
	interval, err := time.ParseDuration(w.Profile.Policy.HardwareSyncInterval)
	if err != nil {
		interval = leastReseed
	}
	interval = max(interval, leastReseed)
	if !w.Deadline.IsZero() {
		interval = min(interval, w.Deadline.Sub(w.Since)/3)
	}
	return interval
}

// syncing is how the machine must be. Times of MAAS are compared with times of
// MAAS, because clocks differ.
func (b *Bringup) syncing(w *Work) func(maas.Machine) maas.Verdict {
	return func(m maas.Machine) maas.Verdict {
		before := w.Facts.SyncBefore
		switch {
		case stillOurs(m, w) != nil:
			return maas.Failing("it is not as this job deployed it")
		case !m.EnableHWSync:
			return maas.Failing("its hardware sync is not enabled")
		case m.LastSync == nil, before != nil && !m.LastSync.After(*before), !m.SyncHealthy(b.now()):
			return maas.Waiting()
		}
		return maas.Reached()
	}
}

func (b *Bringup) healthy(ctx context.Context, w *Work, m maas.Machine) (Result, error) {
	at := b.now().UTC()
	w.Facts.SyncHealthy = &at
	if err := w.Save(ctx); err != nil {
		return Result{}, err
	}
	return Result{
		Message: fmt.Sprintf("MAAS heard of the hardware of %s at %s", w.Hostname, m.LastSync.UTC().Format(time.RFC3339)),
		Details: map[string]any{
			"last_sync": m.LastSync.UTC(), "next_sync": m.NextSync, "interval_seconds": m.SyncInterval,
			"seeds": w.Facts.SyncSeeds,
		},
	}, nil
}

// reseed gives the machine its token again: over SSH, or by a task if it has an
// agent already.
func (b *Bringup) reseed(ctx context.Context, w *Work) error {
	n, err := b.cfg.Nodes.Node(ctx, w.Node)
	if err != nil {
		return err
	}
	if b.cfg.Tasks != nil && (n.FirstPollAt != nil || w.Facts.Adopted || w.Facts.LoginLocked != nil) {
		return b.reseedByTask(ctx, w)
	}
	r, err := b.region(ctx, w)
	if err != nil {
		return err
	}
	m, err := b.deployed(ctx, r, w)
	if err != nil {
		return err
	}
	return b.seed(ctx, r, w, m)
}

// reseedByTask also says which machine the node is: its agent gets the token of
// that one and of no other.
func (b *Bringup) reseedByTask(ctx context.Context, w *Work) error {
	pin, err := b.renewedPin(ctx, w)
	if err != nil {
		return err
	}
	if err := w.Fence(ctx); err != nil {
		return err
	}
	key := fmt.Sprintf("%s/%s/hw-sync/%d/%d", w.Kind, w.Job, w.Epoch, w.Facts.SyncSeeds)
	if pin != "" { // another program is another task
		key += "/" + pin
	}
	err = b.cfg.DB.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := bind(ctx, tx, w); err != nil {
			return err
		}
		_, err := b.cfg.Tasks.Enqueue(ctx, tx, agenttask.Request{
			Node: w.Node, Type: agentwire.TypeHWSyncReseed,
			Params: agentwire.HWSyncParams{
				MAASURL: w.Site.Settings.APIBaseURL, SystemID: w.SystemID, Interval: w.Profile.Policy.HardwareSyncInterval,
				RunScripts: pin,
			},
			IdempotencyKey: key,
			Reason:         "MAAS has not heard of the hardware of the machine",
		})
		return err
	})
	if err != nil {
		return err
	}
	b.seeded(w)
	return w.Save(ctx)
}

// bind keeps which machine the node of a job is.
func bind(ctx context.Context, tx pgx.Tx, w *Work) error {
	return binding.Bind(ctx, tx, binding.Binding{
		Node: w.Node, Site: w.Site.ID, Profile: w.Profile.ID, SystemID: w.SystemID, IPMIIP: w.IPMIIP, PXEMAC: w.PXEMAC,
		Status: w.Observed.Status, Power: w.Observed.Power, IPs: w.Observed.IPs, SeenAt: &w.Observed.At,
		Installation: w.Facts.InstallationID(),
	})
}

func (b *Bringup) unhealthy(w *Work, m maas.Machine, problem error) error {
	details := map[string]any{
		"last_sync": m.LastSync, "sync_before_seed": w.Facts.SyncBefore, "seeds": w.Facts.SyncSeeds,
		"seeded_at": w.Facts.SyncSeededAt,
		"address":   w.Facts.SSHAddress, "expected": "a last_sync of MAAS that is newer than the seed",
	}
	if problem != nil {
		details["last_reseed"] = Classify(problem).Message
	}
	return codeSyncUnhealthy.Failed("MAAS has not heard of the hardware of %s since it was given its token", w.Hostname).
		With("on the machine, look at: systemctl status %s, and whether it reaches %s; then retry the stage",
			firstboot.SyncService, w.Site.Settings.APIBaseURL).
		ForGood().Because(problem).About(details)
}
