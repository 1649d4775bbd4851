package agent

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"gpuaas/agent/internal/transport"
	"gpuaas/contract/agentwire"
)

const (
	// maxRunning limits how many tasks an agent accepts.
	maxRunning = 64
	// firstPoll is short: until it has ended, nobody knows whether the agent is
	// connected, and a version on trial has little time.
	firstPoll = agentwire.MinWaitSeconds * time.Second
	// hasty is the longest pause after a poll that ended sooner than requested.
	hasty = 2 * time.Second
)

// poll asks for tasks, one call at a time, until the context ends.
func (a *Agent) poll(ctx context.Context, trial func()) {
	soon := transport.Backoff{First: time.Second, Most: time.Minute}
	slow := transport.Backoff{First: time.Minute, Most: 10 * time.Minute}
	wait := firstPoll
	for ctx.Err() == nil {
		a.health.expect(wait + time.Minute)
		began := time.Now()
		e, err := a.client.Wait(ctx, wait)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			wait = firstPoll
			pause := a.pauseAfter(err, &soon, &slow)
			a.health.failed(err, pause)
			a.pause(ctx, pause)
			continue
		}
		soon.Reset()
		slow.Reset()
		a.contacted(trial)
		if e != nil {
			a.executor.Take(ctx, *e)
		}
		a.results.Kick() // after Take: accepting a task voids an older refusal of it
		if e != nil {
			a.holdBack(ctx)
		} else if time.Since(began) < wait/2 {
			a.pause(ctx, rand.N(hasty)) //nolint:gosec // spreads a fleet whose control plane ends its polls early
		}
		wait = a.o.pollWait
	}
}

// contacted runs after every successful poll.
func (a *Agent) contacted(trial func()) {
	trial()
	skew, _ := a.client.Skew()
	a.health.connected(skew)
	if err := a.journal.Flush(); err != nil {
		a.o.Log.Warn("journal still not written", "error", err)
	}
}

// pauseAfter distinguishes failures that pass from those that a person must
// fix.
func (a *Agent) pauseAfter(err error, soon, slow *transport.Backoff) time.Duration {
	var e *transport.Error
	if !errors.As(err, &e) {
		return soon.Next(0)
	}
	if e.Kind == transport.Refused {
		return time.Second + slow.Next(e.RetryAfter)
	}
	return soon.Next(e.RetryAfter)
}

func (a *Agent) pause(ctx context.Context, d time.Duration) {
	a.health.expect(d + time.Minute)
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// holdBack stops polling while there is too much to do already.
func (a *Agent) holdBack(ctx context.Context) {
	for a.executor.Running() >= maxRunning && ctx.Err() == nil {
		a.pause(ctx, time.Second)
	}
}

// keepReported tells the control plane what this agent and its machine are, at
// the start and at every change. A machine that suddenly has another address
// may be another machine, so that does not wait for the next inspection.
func (a *Agent) keepReported(ctx context.Context) {
	look := time.NewTicker(lookAgain + rand.N(lookAgain/10)) //nolint:gosec // spreads load
	defer look.Stop()
	roam := time.NewTicker(lookAtAddresses)
	defer roam.Stop()
	capabilities := a.machine.Capabilities(ctx)
	told, refused := "", ""
	wait := transport.Backoff{First: 2 * time.Second, Most: 5 * time.Minute}
	for {
		hardware := a.machine.Hardware()
		report := agentwire.Report{
			Build: a.o.Build, VerifierVersion: a.trust.Verifiers().Version(),
			Capabilities: a.able(capabilities), Hardware: &hardware,
		}
		retry := (<-chan time.Time)(nil)
		if now := fingerprint(report); now != told {
			if err := a.client.Report(ctx, report); err == nil {
				told, refused = now, ""
				wait.Reset()
			} else if ctx.Err() == nil {
				level := slog.LevelDebug
				if code := transport.CodeOf(err); transport.KindOf(err) == transport.Refused && code != refused {
					level, refused = slog.LevelWarn, code // logged once: the agent tries again for as long as it takes
				}
				a.o.Log.Log(ctx, level, "report not sent", "error", err)
				retry = time.After(wait.Next(0))
			}
		}
		if !a.awaitNews(ctx, retry, look.C, roam.C, &capabilities) {
			return
		}
	}
}

// awaitNews waits until there is something to report, or to report again, and
// keeps the facts about the machine fresh. It returns false if the context
// ends.
func (a *Agent) awaitNews(ctx context.Context, retry, look, roam <-chan time.Time, known *agentwire.Capabilities) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-retry:
			return true
		case <-a.news:
			return true
		case <-look:
			*known = a.machine.Capabilities(ctx)
			return true
		case <-roam:
			if now := a.machine.Addresses(); !slices.Equal(now, known.Addresses) {
				known.Addresses = now
				return true
			}
		}
	}
}
