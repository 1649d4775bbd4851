package bringup

import (
	"context"
	"fmt"
	"strings"
	"time"

	"gpuaas/controlplane/internal/adapter/firstboot"
	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/job"
)

// EnsureHardwareSyncConfigured names the stage "Set up hardware sync".
const EnsureHardwareSyncConfigured = "ensure_hardware_sync_configured"

var _ = catalog.Declare(job.Stage{
	Name: EnsureHardwareSyncConfigured, Title: "Set up hardware sync", Attempts: 1,
	Limit: job.Limit(site.StageHWSyncSeed), Resume: EnsureHardwareSyncConfigured,
	Usually: "under a minute once the machine answers over SSH",
	Looks:   "the machine's token in MAAS and its addresses",
	Does:    "brings the credentials to the machine over SSH, or by its agent, and starts the timer",
	Expects: "the machine reports with its own credentials",
	Again:   "bringing the credentials again changes nothing",
	Fails: []job.FailureMode{
		MAASAway, OutOfBand, noWayToReach, job.FailsWith(HardwareSyncFailure, "MAAS has no token for the machine"),
	},
}, (*Bringup).EnsureHardwareSyncConfigured)

// The code of failures that only this stage has.
var codeSyncSeedFailed = job.DeclareCode(job.Code{
	Name: "failed_hw_sync_seed", Class: HardwareSyncFailure,
	Cause:   "MAAS did not issue a token for the machine: hardware sync is off for this deployment.",
	Remedy:  "look at the machine's events in MAAS, then retry the stage; without a token it cannot report its hardware",
	Runbook: "onboarding-parked",
})

// EnsureHardwareSyncConfigured gives a deployed machine the token with which it
// reports its hardware to MAAS: over SSH, or by its agent if it has one. The
// machine may still be at its first boot, so that whatever is missing there is
// waited for.
func (b *Bringup) EnsureHardwareSyncConfigured(ctx context.Context, w *Work) (Result, error) {
	if !w.Profile.Policy.RequireHWSync {
		return syncNotWanted(), nil
	}
	for attempts := 1; ; attempts++ {
		err := b.seedFirst(ctx, w, attempts == 1)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return Result{}, ctx.Err()
		}
		wait := b.cfg.Retry(attempts)
		if f := Classify(err); f.Final {
			return Result{}, err
		} else if !b.now().Add(wait).Before(w.Deadline) {
			return Result{}, f.About(map[string]any{
				"attempts": attempts, "since": w.Since.UTC(), "address": w.Facts.SSHAddress,
				"host_key": w.Facts.SSHHostKey,
			})
		}
		w.Heartbeat()
		if err := leaveAlone(ctx, wait); err != nil {
			return Result{}, err
		}
	}
	return Result{
		Message: fmt.Sprintf("%s has the token of its machine and reports its hardware every %s", w.Hostname,
			w.Profile.Policy.HardwareSyncInterval),
		Details: map[string]any{"address": w.Facts.SSHAddress, "host_key": w.Facts.SSHHostKey},
	}, nil
}

// syncSource says where the machine gets the program that reports its hardware,
// and by what it knows it: root runs it.
func (b *Bringup) syncSource(ctx context.Context, r *region, w *Work) (firstboot.SyncSource, error) {
	s := w.Site.Settings
	source := firstboot.SyncSource{URL: s.APIBaseURL, Plain: s.PlainSync()}
	if !s.PlainSync() && !s.PinsSync() {
		source.CA = s.CACertificate
	}
	var err error
	source.Digest, err = b.syncPin(ctx, r, w)
	return source, err
}

// syncPin is the digest of the program as the control plane sees it; empty where
// the site does not pin it.
func (b *Bringup) syncPin(ctx context.Context, r *region, w *Work) (string, error) {
	if !w.Site.Settings.PinsSync() {
		return "", nil
	}
	pin, err := r.syncPin.since(ctx, b.now().Add(-pinFreshFor), b.now(), r.RunScriptsSHA256)
	if err == nil || ctx.Err() != nil {
		return pin, err
	}
	return "", noPin(w, err)
}

// noPin names all that can vouch for the program: nothing is rendered until one
// of it does.
func noPin(w *Work, err error) error {
	f := codeSyncProgramMissing.Failed("MAAS of site %s does not hand out the program that reports hardware, so that it cannot be pinned", w.Site.Name).
		With("let MAAS speak https; or let %s/maas-run-scripts answer and pin it: gpuaas site update %s --hw-sync-http pinned; "+
			"or accept that root runs whatever plain HTTP brings: gpuaas site update %s --hw-sync-http accepted",
			strings.TrimRight(w.Site.Settings.APIBaseURL, "/"), w.Site.Name, w.Site.Name).Because(err)
	if Classify(err).Final {
		f.Class, f.Final = SiteCapabilityMissing, true
	}
	return f
}

// renewedPin returns the digest that the agent of a node uses from now on.
// Older agents do not know about it and refuse tasks that name it.
func (b *Bringup) renewedPin(ctx context.Context, w *Work) (string, error) {
	n, err := b.cfg.Nodes.Node(ctx, w.Node)
	if err != nil || !n.RenewsPins() {
		return "", err
	}
	r, err := b.region(ctx, w)
	if err != nil {
		return "", err
	}
	return b.syncPin(ctx, r, w)
}

// pinFreshFor is how long machines of a batch share one look at the program.
const pinFreshFor = time.Minute

func syncNotWanted() Result {
	return Result{Skipped: true, Message: "the profile does not ask for hardware sync"}
}

// seedFirst is one attempt. What MAAS heard before it does not prove that it
// worked.
func (b *Bringup) seedFirst(ctx context.Context, w *Work, first bool) error {
	r, err := b.region(ctx, w)
	if err != nil {
		return err
	}
	m, err := b.deployed(ctx, r, w)
	if err != nil {
		return err
	}
	if !m.EnableHWSync {
		return syncDisabled(w)
	}
	if first {
		w.Facts.SyncBefore = m.LastSync
	}
	if w.Facts.Adopted || w.Facts.LoginLocked != nil { // only its agent can be told anything
		return b.reseedByTask(ctx, w)
	}
	return b.seed(ctx, r, w, m)
}

// seed hands the machine its token over SSH and makes it report at once.
func (b *Bringup) seed(ctx context.Context, r *region, w *Work, m maas.Machine) error {
	token, err := r.MachineToken(ctx, w.SystemID)
	if fault.CodeOf(err) == maas.CodeNoMachineToken {
		return codeSyncSeedFailed.Failed("MAAS has no token for %s, although it is deployed", w.Hostname).Because(err)
	}
	if err != nil {
		return err
	}
	credentials, err := firstboot.SyncCredentials(w.Site.Settings.APIBaseURL, w.SystemID,
		firstboot.MachineToken{ConsumerKey: token.Consumer, TokenKey: token.Key, TokenSecret: token.Secret})
	if err != nil {
		return err
	}
	c, err := b.reach(ctx, w, m)
	if err != nil {
		return err
	}
	defer b.hangUp(ctx, w, c)
	if err := w.Fence(ctx); err != nil {
		return err
	}
	if err := tell(ctx, w, c, credentials, pushSyncCredentials, enableSyncTimer, restartSyncTimer, startSync); err != nil {
		return err
	}
	b.seeded(w)
	return w.Save(ctx)
}

func (b *Bringup) seeded(w *Work) {
	at := b.now().UTC()
	w.Facts.SyncSeeds++
	w.Facts.SyncSeededAt = &at
}

func syncDisabled(w *Work) error {
	return codeSyncDisabled.Failed("%s was deployed without hardware sync, which MAAS enables only when it deploys",
		w.Hostname).ForGood().About(map[string]any{"enable_hw_sync": false})
}
