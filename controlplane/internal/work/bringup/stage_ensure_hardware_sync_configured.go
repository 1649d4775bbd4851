package bringup

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/adapter/firstboot"
	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/binding"
	"gpuaas/controlplane/internal/work/job"
)

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
			return Result{}, f.About(map[string]any{"attempts": attempts, "since": w.Since.UTC(), "address": w.Facts.SSHAddress, "host_key": w.Facts.SSHHostKey})
		}
		w.Heartbeat()
		if err := leaveAlone(ctx, wait); err != nil {
			return Result{}, err
		}
	}
	return Result{
		Message: fmt.Sprintf("%s has the token of its machine and reports its hardware every %s", w.Hostname, w.Profile.Policy.HardwareSyncInterval),
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
	f := job.Failed(UpstreamTransient, "hw_sync_program_missing",
		"MAAS of site %s does not hand out the program that reports hardware, so that it cannot be pinned", w.Site.Name).
		With("let MAAS speak https; or let %s/maas-run-scripts answer and pin it: gpuaas site update %s --hw-sync-http pinned; "+
			"or accept that root runs whatever plain HTTP brings: gpuaas site update %s --hw-sync-http accepted",
			strings.TrimRight(w.Site.Settings.APIBaseURL, "/"), w.Site.Name, w.Site.Name).Because(err)
	if Classify(err).Final {
		f.Class, f.Final = SiteCapabilityMissing, true
	}
	return f
}

// renewedPin is the digest that the agent of a node is to go by from now on. Agents
// of before do not know that there is one, and refuse tasks that name it.
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

// seedFirst is one attempt. What MAAS has heard of before it is no proof that it
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
		return job.Failed(HardwareSyncFailure, "failed_hw_sync_seed", "MAAS has no token for %s, although it is deployed", w.Hostname).
			With("look at the machine's events in MAAS; without a token it cannot report its hardware").Because(err)
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

// WaitForHardwareSyncHealthy waits until MAAS has heard of the machine's
// hardware since it was given its token. From time to time it is given it anew.
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

// reseedEvery is how long a seed gets to show: an interval of the machine's
// reports, but no more than a third of the time there is.
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
		Details: map[string]any{"last_sync": m.LastSync.UTC(), "next_sync": m.NextSync, "interval_seconds": m.SyncInterval, "seeds": w.Facts.SyncSeeds},
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
	})
}

func (b *Bringup) unhealthy(w *Work, m maas.Machine, problem error) error {
	details := map[string]any{
		"last_sync": m.LastSync, "sync_before_seed": w.Facts.SyncBefore, "seeds": w.Facts.SyncSeeds, "seeded_at": w.Facts.SyncSeededAt,
		"address": w.Facts.SSHAddress, "expected": "a last_sync of MAAS that is newer than the seed",
	}
	if problem != nil {
		details["last_reseed"] = Classify(problem).Message
	}
	return job.Failed(HardwareSyncFailure, "failed_hw_sync_health", "MAAS has not heard of the hardware of %s since it was given its token", w.Hostname).
		With("on the machine, look at: systemctl status %s, and whether it reaches %s; then retry the stage", firstboot.SyncService, w.Site.Settings.APIBaseURL).
		ForGood().Because(problem).About(details)
}

func syncDisabled(w *Work) error {
	return job.Failed(HardwareSyncFailure, "hw_sync_disabled", "%s was deployed without hardware sync, which MAAS enables only when it deploys", w.Hostname).
		With("restart clean deploys it anew with hardware sync").ForGood().About(map[string]any{"enable_hw_sync": false})
}
