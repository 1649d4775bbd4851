package bringup

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuaas/controlplane/internal/durable"
	"gpuaas/controlplane/internal/fault"
	"gpuaas/controlplane/internal/maas"
)

// comment is what MAAS keeps beside each request of a job. It is how a request
// whose answer was lost is recognised afterwards.
func comment(w *Work) string { return "gpuaas " + w.Kind + " " + w.Job }

// The requests that MAAS keeps with their comment.
const (
	acquiring = "User acquiring node"
	deploying = "User starting deployment"
)

// givenUp are what MAAS records when a machine is released, by whomever: what
// was asked for before says nothing about who holds it now.
var givenUp = []string{"User releasing node", "Releasing", "Released"}

// maxRequests is how many of the newest events are looked through for a request.
const maxRequests = 500

// latest is the newest event of some kinds about the machine that MAAS has on
// record, if it has one.
func latest(ctx context.Context, r *region, w *Work, kinds ...string) (e maas.Event, known bool, err error) {
	events, err := r.Events(ctx, maas.EventQuery{IDs: []string{w.SystemID}, Level: maas.LevelDebug, Limit: maxRequests})
	if err != nil {
		return e, false, err
	}
	for _, e := range slices.Backward(events) {
		if slices.Contains(kinds, e.Type) {
			return e, true, nil
		}
	}
	return e, false, nil
}

// asked says whether the newest request of a kind came from this job, and the
// machine was not released since; known is false when there is none.
func asked(ctx context.Context, r *region, w *Work, kind string) (by, known bool, err error) {
	e, known, err := latest(ctx, r, w, slices.Concat(givenUp, []string{kind})...)
	return known && e.Type == kind && strings.Contains(e.Description, w.Job), known, err
}

// holds says whether this job holds the machine in MAAS: by its annotation, or
// because it asked for the machine and was stopped before it could write one.
func holds(ctx context.Context, r *region, w *Work, m maas.Machine) (bool, error) {
	if ours(m, w) {
		return true, nil
	}
	kind := deploying
	switch m.Status {
	case maas.StatusAllocated:
		kind = acquiring
	case maas.StatusDeploying, maas.StatusDeployed, maas.StatusFailedDeployment:
	default:
		return false, nil
	}
	if m.Annotations[annotation] != "" {
		return false, nil
	}
	by, _, err := asked(ctx, r, w, kind)
	return by, err
}

// foreign is the failure of a job that finds its machine in other hands.
func foreign(m maas.Machine, w *Work) *Failure {
	f := failed(durable.StateAmbiguity, "machine_in_use", "%s is %s in MAAS, and this job does not hold it", w.Hostname, m.Status.Label()).
		with("find out who holds it, there or by its annotations; once it is free, rerun").final()
	return f.about(map[string]any{"maas_status": m.Status.Label(), "owner": maas.Shown(m.Owner), "held_by_job": maas.Shown(m.Annotations[annotation])})
}

// mark writes the name of the job on a machine that it holds.
func (b *Bringup) mark(ctx context.Context, r *region, w *Work) error {
	if err := w.Fence(ctx); err != nil {
		return err
	}
	_, err := r.Annotate(ctx, w.SystemID, map[string]string{annotation: w.Job, epochAnnotation: strconv.FormatInt(w.Epoch, 10)})
	if err == nil || ctx.Err() != nil {
		return err
	}
	m, lookErr := b.machine(ctx, r, w)
	switch {
	case lookErr != nil:
		return lookErr
	case ours(m, w):
		return nil
	case !occupies(m.Status):
		return failed(durable.StateAmbiguity, "machine_released", "%s is %s in MAAS: somebody released it while this job took it", w.Hostname, m.Status.Label()).
			with("find out who released it; rerun begins where it is now").final().because(err)
	}
	return refused(err, "annotate_failed", "%s is %s in MAAS, but could not be marked as held by this job", w.Hostname, m.Status.Label())
}

func machineGone(w *Work, cause error) *Failure {
	return failed(durable.StateAmbiguity, "machine_gone", "machine %s (%s) is no longer in MAAS", w.SystemID, w.Hostname).
		with("find out who removed it; rerun looks for it anew, cancel gives up").final().because(cause)
}

// awaitMachine waits until the machine is as wanted. A wait that ends because
// the credentials of the site were changed is taken up with the new ones, and
// before one ends for lack of time the machine is read once more.
func (b *Bringup) awaitMachine(ctx context.Context, w *Work, until time.Time, want func(maas.Machine) maas.Verdict) (maas.Machine, error) {
	limited, cancel := ctx, func() {}
	if !until.IsZero() {
		limited, cancel = context.WithDeadline(ctx, until)
	}
	defer cancel()
	for {
		r, err := b.region(ctx, w)
		if err != nil {
			return maas.Machine{}, err
		}
		m, err := r.watcher.Wait(limited, w.SystemID, want, w.Heartbeat)
		if m.SystemID != "" {
			b.see(w, m)
		}
		switch code := fault.CodeOf(err); {
		case err == nil:
			return m, nil
		case code == maas.CodeMachineGone:
			w.Observed = Observed{Status: Absent, At: b.now()}
			return m, machineGone(w, err)
		case code != maas.CodeWaitEnded || ctx.Err() != nil:
			return m, err
		case limited.Err() != nil:
			return b.lastLook(ctx, r, w, want, err)
		}
	}
}

func (b *Bringup) lastLook(ctx context.Context, r *region, w *Work, want func(maas.Machine) maas.Verdict, ended error) (maas.Machine, error) {
	m, err := b.machine(ctx, r, w)
	if err != nil {
		return m, err
	}
	if v := want(m); v.Done() && !v.Failed() {
		return m, nil
	}
	return m, ended
}

// mostForRelease is for a release that erases nothing: MAAS itself gives up
// after five minutes.
const mostForRelease = 10 * time.Minute

// releaseLimit counts from the moment in which the release was asked for, not by
// the time of the stage: a job that is taken up late must not take a release
// that has just begun for one that is stuck.
func releaseLimit(w *Work, erase maas.Erase) time.Time {
	limit := time.Duration(w.Profile.Policy.ReleaseTimeoutSeconds) * time.Second
	if erase == maas.EraseNone {
		limit = min(limit, mostForRelease)
	}
	return time.Now().Add(limit)
}

// release gives the machine back to MAAS and waits until nobody holds it. It
// does so only if this job holds it, and nothing if it is free already. A
// machine that became Deployed while it was to be stopped is left so.
//
// That MAAS ended a release with erasing is what MAAS says, not a proof.
//
//nolint:unparam // what was in service is erased, what never was is not
func (b *Bringup) release(ctx context.Context, r *region, w *Work, erase maas.Erase) (maas.Machine, error) {
	m, err := b.machine(ctx, r, w)
	if err != nil || m.Status.Free() {
		return m, err
	}
	held, err := holds(ctx, r, w, m)
	if err != nil {
		return m, err
	}
	if !held {
		return m, foreign(m, w)
	}
	if m.Status == maas.StatusDeploying {
		if m, err = b.abort(ctx, r, w); err != nil {
			return m, err
		}
	}
	if m.Status != maas.StatusReleasing && m.Status != maas.StatusDiskErasing {
		if err := b.askRelease(ctx, r, w, erase); err != nil {
			return m, err
		}
	}
	m, err = b.awaitMachine(ctx, w, releaseLimit(w, erase), maas.UntilReleased)
	if err == nil || ctx.Err() != nil {
		return m, err
	}
	return b.stuck(ctx, r, w, m, err)
}

// askRelease sends the release. An answer that was lost is made up for by a look.
func (b *Bringup) askRelease(ctx context.Context, r *region, w *Work, erase maas.Erase) error {
	if err := w.Fence(ctx); err != nil {
		return err
	}
	_, err := r.Release(ctx, w.SystemID, maas.ReleaseOptions{Erase: erase, Comment: comment(w)})
	if err == nil || ctx.Err() != nil {
		return err
	}
	m, lookErr := b.machine(ctx, r, w)
	if lookErr != nil {
		return lookErr
	}
	if m.Status.Free() || m.Status == maas.StatusReleasing || m.Status == maas.StatusDiskErasing {
		return nil
	}
	return refused(err, "release_failed", "%s is still %s: MAAS did not begin to release it", w.Hostname, m.Status.Label())
}

// refused is the failure of a request to MAAS after a look has shown that it had
// no effect: repeating it is safe, unless MAAS said that it never will work.
func refused(err error, code, format string, args ...any) *Failure {
	f := Classify(err)
	out := failed(f.Class, code, "%s: %s", fmt.Sprintf(format, args...), f.Message).with("%s", f.Remedy).because(err)
	out.Final = f.Final
	if k := fault.KindOf(err); k == fault.Ambiguous || k == fault.Unavailable {
		out.Final = false
		if f.Class == durable.StateAmbiguity {
			out.Class = durable.UpstreamTransient
		}
	}
	if out.Remedy == "" {
		out.Remedy = "look at the machine and its events in MAAS, then resume"
	}
	return out
}

// abort stops a deployment of this job.
func (b *Bringup) abort(ctx context.Context, r *region, w *Work) (maas.Machine, error) {
	if err := w.Fence(ctx); err != nil {
		return maas.Machine{}, err
	}
	_, err := r.Abort(ctx, w.SystemID, comment(w))
	if err != nil && ctx.Err() != nil {
		return maas.Machine{}, err
	}
	m, lookErr := b.machine(ctx, r, w)
	switch {
	case lookErr != nil:
		return m, lookErr
	case m.Status == maas.StatusDeployed && !w.Reset:
		f := failed(durable.StateAmbiguity, "deployed_meanwhile", "%s became Deployed while its deployment was to be stopped", w.Hostname).
			with("nothing: the machine is used as it is")
		f.Next = WaitForDeployed
		return m, f
	case m.Status != maas.StatusDeploying:
		return m, nil
	case err == nil:
		return m, failed(durable.UpstreamTransient, "abort_failed", "%s is still Deploying, although MAAS accepted to stop it", w.Hostname).
			with("look at the machine in MAAS, then resume")
	}
	return m, refused(err, "abort_failed", "%s is still Deploying", w.Hostname)
}

// stuck deals with a release that MAAS cannot end: mark broken, mark fixed,
// power off, and then an operator.
func (b *Bringup) stuck(ctx context.Context, r *region, w *Work, m maas.Machine, why error) (maas.Machine, error) {
	switch {
	case m.Status == maas.StatusFailedDiskErasing:
		return m, failed(durable.StateAmbiguity, "release_erase_failed", "MAAS could not erase the disks of %s", w.Hostname).
			with("look at the machine in MAAS; its disks still hold data").final().because(why)
	case m.Status != maas.StatusReleasing && m.Status != maas.StatusFailedReleasing:
		return m, why
	}
	b.cfg.Logger.WarnContext(ctx, "a release is stuck", "machine", w.SystemID, "job", w.Job, "status", m.Status.Label())
	rung := func(name string, err error) *Failure {
		return failed(durable.StateAmbiguity, "release_stuck", "%s is stuck in %s, and to %s did not help", w.Hostname, m.Status.Label(), name).
			with("switch the machine off by hand and set it right in MAAS, then resume").final().because(err).
			about(map[string]any{"maas_status": m.Status.Label(), "tried": name})
	}
	if err := w.Fence(ctx); err != nil {
		return m, err
	}
	if _, err := r.MarkBroken(ctx, w.SystemID, comment(w)); err != nil && !b.became(ctx, r, w, maas.StatusBroken) {
		return m, rung("mark it broken", err)
	}
	fixed, err := r.MarkFixed(ctx, w.SystemID, comment(w))
	if fault.CodeOf(err) == maas.CodeResurrected {
		var released maas.Released
		released, err = r.Release(ctx, w.SystemID, maas.ReleaseOptions{Erase: maas.EraseNone, Comment: comment(w)})
		fixed = released.Machine
	}
	if err != nil && !b.became(ctx, r, w, maas.StatusReady, maas.StatusNew) {
		return m, rung("mark it fixed", err)
	}
	if fixed.PowerState == maas.PowerOff {
		return b.machine(ctx, r, w)
	}
	if _, err := r.PowerOff(ctx, w.SystemID, false, comment(w)); err != nil {
		return m, failed(durable.BMCPowerFailure, "release_power_on", "%s is released in MAAS, but it could not be switched off", w.Hostname).
			with("check the BMC, switch the machine off, then resume").final().because(err)
	}
	return b.machine(ctx, r, w)
}

// became looks whether a request whose answer was an error had its effect.
func (b *Bringup) became(ctx context.Context, r *region, w *Work, wanted ...maas.Status) bool {
	m, err := b.machine(ctx, r, w)
	return err == nil && slices.Contains(wanted, m.Status)
}
