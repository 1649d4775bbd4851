package bringup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/job"
)

// awaitMachine waits until the machine is as wanted, and records what it sees
// meanwhile. If the credentials of the site change, it goes on with the new
// ones. Before it gives up for lack of time, it reads the machine once more.
func (b *Bringup) awaitMachine(ctx context.Context, w *Work, until time.Time,
	want func(maas.Machine) maas.Verdict,
) (maas.Machine, error) {
	var refused error
	noting := b.noting(ctx, w, want, &refused)
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
		m, err := r.watcher.Wait(limited, w.SystemID, noting, w.Heartbeat)
		if refused != nil {
			return m, refused
		}
		if m.SystemID != "" {
			b.see(w, m)
		}
		switch code := fault.CodeOf(err); {
		case err == nil:
			return m, nil
		case code == maas.CodeMachineGone: // which the watcher has from whoever answered
			if m, err = b.machine(ctx, r, w); err != nil {
				return m, err
			}
		case code != maas.CodeWaitEnded || ctx.Err() != nil:
			return m, err
		case limited.Err() != nil:
			return b.lastLook(ctx, r, w, want, err)
		}
	}
}

// noting makes a wait record what it sees in the row of the job: at once if it
// changed, and otherwise every noteEvery, so that readers see the machine as it
// is now. The wait ends when the row refuses it.
func (b *Bringup) noting(ctx context.Context, w *Work, want func(maas.Machine) maas.Verdict,
	refused *error,
) func(maas.Machine) maas.Verdict {
	var noted Observed
	return func(m maas.Machine) maas.Verdict {
		b.see(w, m)
		if now := w.Observed; !now.like(noted) || now.At.Sub(noted.At) >= noteEvery {
			var f *Failure
			switch err := w.Save(ctx); {
			case err == nil:
				noted = now
			case fault.CodeOf(err) == durable.CodeSuperseded, errors.As(err, &f):
				*refused = err
				return maas.Reached()
			default: // the wait goes on: the next look is noted instead
				b.cfg.Logger.WarnContext(ctx, "what MAAS shows cannot be noted", "machine", w.SystemID, "error", err)
			}
		}
		return want(m)
	}
}

func (b *Bringup) lastLook(ctx context.Context, r *region, w *Work, want func(maas.Machine) maas.Verdict,
	ended error,
) (maas.Machine, error) {
	m, err := b.machine(ctx, r, w)
	if err != nil {
		return m, err
	}
	if v := want(m); v.Done() && !v.Failed() {
		return m, nil
	}
	return m, ended
}

// mostForRelease limits a release that erases nothing. MAAS itself gives up after
// five minutes.
const mostForRelease = 10 * time.Minute

// releaseLimit counts from the request for the release, not from the start of
// the stage: a job that resumes late must not mistake a release that has just
// begun for one that is stuck.
func releaseLimit(w *Work, erase maas.Erase, asked time.Time) time.Time {
	limit := time.Duration(w.Profile.Policy.ReleaseTimeoutSeconds) * time.Second
	if erase == maas.EraseNone {
		limit = min(limit, mostForRelease)
	}
	return asked.Add(limit)
}

// release returns a machine that nobody ever used to MAAS, and waits until
// nobody holds it. It acts only if this job holds the machine, and does nothing
// if the machine is free already. A machine that became Deployed before it
// could be stopped stays deployed.
func (b *Bringup) release(ctx context.Context, r *region, w *Work) (maas.Machine, error) {
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
		if m, err = b.abort(ctx, r, w, m.Status); err != nil {
			return m, err
		}
		if m.Status == maas.StatusDeployed && !w.Reset {
			return m, deployedMeanwhile(w)
		}
	}
	if !underWay(m.Status) {
		if err := b.askRelease(ctx, r, w, m.Status, maas.EraseNone); err != nil {
			return m, err
		}
	}
	m, err = b.awaitMachine(ctx, w, releaseLimit(w, maas.EraseNone, time.Now()), maas.UntilReleased)
	if err == nil || ctx.Err() != nil {
		return m, err
	}
	return b.stuck(ctx, r, w, m, err)
}

func deployedMeanwhile(w *Work) *Failure {
	f := codeDeployedMeanwhile.Failed("%s became Deployed while its deployment was to be stopped", w.Hostname)
	f.Next = WaitForDeployed
	return f
}

// underWay reports the statuses in which MAAS is releasing a machine.
func underWay(s maas.Status) bool { return s == maas.StatusReleasing || s == maas.StatusDiskErasing }

// endedBadly reports the statuses in which MAAS has given a release up.
func endedBadly(s maas.Status) bool {
	return s == maas.StatusFailedReleasing || s == maas.StatusFailedDiskErasing
}

// secureErasing is part of the comment of a release that erases securely, because
// MAAS does not record how it was asked to erase disks.
const secureErasing = "with secure erasing"

func releaseComment(w *Work, erase maas.Erase) string {
	if erase == maas.EraseSecure {
		return comment(w) + " " + secureErasing
	}
	return comment(w)
}

// eraseOf returns the least erasing that a job of ours has asked MAAS for with
// this comment.
func eraseOf(comment string) site.Erase {
	if strings.HasSuffix(comment, secureErasing) {
		return site.EraseSecure
	}
	return site.EraseQuick
}

// askRelease sends the release and makes sure that it began, whatever the
// answer was: an answer may be lost, or may promise what does not happen.
func (b *Bringup) askRelease(ctx context.Context, r *region, w *Work, was maas.Status, erase maas.Erase) error {
	if err := w.Fence(ctx); err != nil {
		return err
	}
	_, err := r.Release(ctx, w.SystemID, maas.ReleaseOptions{Erase: erase, Comment: releaseComment(w, erase)})
	if err != nil && ctx.Err() != nil {
		return err
	}
	m, lookErr := b.machine(ctx, r, w)
	switch {
	case lookErr != nil:
		return lookErr
	case m.Status.Free(), underWay(m.Status), endedBadly(m.Status) && (m.Status != was || err == nil):
		return nil
	case err != nil:
		return refused(err, codeReleaseFailed, "%s is still %s: MAAS did not begin to release it", w.Hostname,
			m.Status.Label())
	}
	return codeReleaseFailed.Failed("%s is still %s, although MAAS accepted to release it", w.Hostname, m.Status.Label())
}

// refused is the failure of a request to MAAS that had no effect, as a look has
// shown. Repeating it is safe, unless MAAS said that it will never work.
func refused(err error, code *job.Code, format string, args ...any) *Failure {
	f := Classify(err)
	out := code.FailedAs(f.Class, "%s: %s", fmt.Sprintf(format, args...), f.Message).Because(err)
	out.Final, out.Remedy = f.Final, cmp.Or(f.Remedy, out.Remedy)
	if k := fault.KindOf(err); k == fault.Ambiguous || k == fault.Unavailable {
		out.Final = false
		if f.Class == StateAmbiguity {
			out.Class = UpstreamTransient
		}
	}
	if out.Remedy == "" {
		out.Remedy = "look at the machine and its events in MAAS, then resume"
	}
	return out
}

// abort stops what a machine of this job is doing.
func (b *Bringup) abort(ctx context.Context, r *region, w *Work, was maas.Status) (maas.Machine, error) {
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
	case m.Status != was:
		return m, nil
	case err == nil:
		return m, codeAbortFailed.Failed("%s is still %s, although MAAS accepted to stop it", w.Hostname, was.Label())
	}
	return m, refused(err, codeAbortFailed, "%s is still %s", w.Hostname, was.Label())
}

// stuck deals with a release that MAAS did not end by itself.
func (b *Bringup) stuck(ctx context.Context, r *region, w *Work, m maas.Machine, why error) (maas.Machine, error) {
	switch m.Status {
	case maas.StatusFailedDiskErasing, maas.StatusDiskErasing:
		return m, eraseFailed(w, m, why)
	case maas.StatusReleasing, maas.StatusFailedReleasing:
		b.cfg.Logger.WarnContext(ctx, "a release is stuck", "machine", w.SystemID, "job", w.Job, "status", m.Status.Label())
		return b.climb(ctx, r, w, m)
	default:
		return m, why
	}
}

func eraseFailed(w *Work, m maas.Machine, why error) *Failure {
	what := "could not erase the disks of"
	if m.Status == maas.StatusDiskErasing {
		what = "has not ended in time to erase the disks of"
	}
	return codeEraseFailed.Failed("MAAS %s %s", what, w.Hostname).ForGood().Because(why).
		About(map[string]any{"maas_status": m.Status.Label(), "expected": maas.StatusReady.Label()})
}

// The rungs of the ladder, as the facts record them.
const (
	rungBroken = "mark_broken"
	rungFixed  = "mark_fixed"
	rungOff    = "power_off"
)

// climb tries to get a machine out of a release that hangs: mark broken, mark
// fixed, power off, and then an operator.
func (b *Bringup) climb(ctx context.Context, r *region, w *Work, m maas.Machine) (maas.Machine, error) {
	beyond := func(rung string, err error) *Failure {
		return codeReleaseStuck.Failed("%s is stuck in %s, and %s in MAAS did not help", w.Hostname, m.Status.Label(), rung).
			ForGood().Because(err).
			About(map[string]any{"maas_status": m.Status.Label(), "tried": rung})
	}
	if err := w.Fence(ctx); err != nil {
		return m, err
	}
	if m.Status != maas.StatusBroken { // an earlier run may have come so far
		w.tried(rungBroken)
		if _, err := r.MarkBroken(ctx, w.SystemID, comment(w)); err != nil && !b.became(ctx, r, w, maas.StatusBroken) {
			return m, beyond(rungBroken, err)
		}
	}
	w.tried(rungFixed)
	fixed, err := r.MarkFixed(ctx, w.SystemID, comment(w))
	if fault.CodeOf(err) == maas.CodeResurrected {
		var released maas.Released
		released, err = r.Release(ctx, w.SystemID, maas.ReleaseOptions{Erase: maas.EraseNone, Comment: comment(w)})
		fixed = released.Machine
	}
	if err != nil && !b.became(ctx, r, w, maas.StatusReady, maas.StatusNew) {
		return m, beyond(rungFixed, err)
	}
	if fixed.PowerState == maas.PowerOff {
		return b.machine(ctx, r, w)
	}
	w.tried(rungOff)
	if _, err := r.PowerOff(ctx, w.SystemID, false, comment(w)); err != nil {
		return m, codeReleasedButOn.Failed("%s is released in MAAS, but it could not be switched off", w.Hostname).ForGood().
			Because(err)
	}
	return b.machine(ctx, r, w)
}

// tried records a rung that was tried for the release of this job.
func (w *Work) tried(rung string) {
	if f := w.Facts.Release; f != nil && f.EndedAt == nil && !slices.Contains(f.Ladder, rung) {
		f.Ladder = append(f.Ladder, rung)
	}
}

// became checks whether a request that was answered with an error had its
// effect.
func (b *Bringup) became(ctx context.Context, r *region, w *Work, wanted ...maas.Status) bool {
	m, err := b.machine(ctx, r, w)
	return err == nil && slices.Contains(wanted, m.Status)
}
