package agent

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"time"

	"gpuaas/agent/internal/transport"
	"gpuaas/contract/agentwire"
)

const (
	lookAgain       = time.Hour
	lookAtAddresses = time.Minute
	// glance is the longest sleep before the next look at a renewal.
	glance = 10 * time.Minute
	// firstGlance is used before the clock of the control plane is known.
	firstGlance = 2 * time.Second
)

func fingerprint(r agentwire.Report) string {
	raw, err := json.Marshal(r)
	if err != nil {
		return ""
	}
	return string(raw)
}

// keepIdentity renews the certificate in time. If it cannot, it goes on trying
// slowly and says how a person can help.
func (a *Agent) keepIdentity(ctx context.Context) {
	wait := transport.Backoff{First: 30 * time.Second, Most: glance}
	at, earliest := a.renewAt(), time.Time{}
	for a.sleepUntil(ctx, at, earliest) {
		if a.renew(ctx) == nil {
			wait.Reset()
			at = a.renewAt()
			earliest = time.Now().Add(renewalRest(a.certificateLeft()))
			continue
		}
		at, earliest = time.Time{}, time.Now().Add(5*time.Second+wait.Next(0)) // it is due, whatever it was due for
	}
}

// sleepUntil waits until a renewal is due. It returns false if the context ends
// first. It checks now and then, because clocks are set and machines sleep.
func (a *Agent) sleepUntil(ctx context.Context, at, earliest time.Time) bool {
	for ctx.Err() == nil {
		skew, known := a.client.Skew()
		until := time.Until(renewalDue(at, skew, earliest))
		if until <= 0 {
			return true
		}
		look := glance
		if !known {
			look = firstGlance
		}
		timer := time.NewTimer(min(until, look))
		select {
		case <-ctx.Done():
			timer.Stop()
		case <-a.owed:
			timer.Stop()
			return true
		case <-timer.C:
		}
	}
	return false
}

// renewalDue says when to renew by the node's clock. at is a time of the
// control plane, whose clock is ahead by skew.
func renewalDue(at time.Time, skew time.Duration, earliest time.Time) time.Time {
	if due := at.Add(-skew); due.After(earliest) {
		return due
	}
	return earliest
}

// renewalRest is how long no certificate is requested after a new one that is
// valid for left. Whatever the clocks say, renewals never follow each other at
// once.
func renewalRest(left time.Duration) time.Duration {
	if left <= 0 {
		return glance
	}
	return max(min(left/10, glance), 100*time.Millisecond)
}

// certificateLeft is the rest of the certificate's life, as the control plane
// counts it.
func (a *Agent) certificateLeft() time.Duration {
	skew, _ := a.client.Skew()
	return time.Until(a.identity.Load().NotAfter) - skew
}

// renewAt spreads the renewals of nodes that were enrolled together.
func (a *Agent) renewAt() time.Time {
	id := a.identity.Load()
	if room := id.NotAfter.Sub(id.RenewAfter) / 10; room > 0 {
		return id.RenewAfter.Add(rand.N(room)) //nolint:gosec // spreads load
	}
	return id.RenewAfter
}

// renew renews the certificate of the node. It logs what went wrong.
func (a *Agent) renew(ctx context.Context) error {
	a.renewing.Lock()
	defer a.renewing.Unlock()
	id, err := a.store.Renew(ctx, a.client, a.trust, time.Now)
	if id == nil {
		if ctx.Err() == nil {
			a.sayNotRenewed(err)
		}
		return err
	}
	a.identity.Store(id)
	a.client.Reload(nil)
	a.o.Log.Info("certificate renewed", "not_after", id.NotAfter.UTC().Format(time.RFC3339), "serial", id.Serial,
		"verifier_version", a.trust.Verifiers().Version())
	if err != nil && !a.distrusted("part of what came with the certificate was not taken over", err) {
		a.o.Log.Error("part of what came with the certificate was not taken over", "error", err)
	}
	a.changed()
	return nil
}

func (a *Agent) sayNotRenewed(err error) {
	left := a.certificateLeft()
	switch {
	case a.distrusted("certificate not renewed", err):
	case left <= 0 || transport.CodeOf(err) == agentwire.CodeCertificateExpired:
		a.o.Log.Error("the certificate of the node has expired", "error", err, "remedy", transport.Recovery)
	default:
		a.o.Log.Warn("certificate not renewed", "error", err, "expires_in", left.Round(time.Minute).String())
	}
}

// changed makes the agent report itself again.
func (a *Agent) changed() {
	select {
	case a.news <- struct{}{}:
	default:
	}
}

// keepWatchdog tells systemd that the loop is alive, and stops telling when the
// loop hangs.
func (a *Agent) keepWatchdog(ctx context.Context) {
	every := a.notify.watchdog()
	if every == 0 {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if a.health.alive() {
			a.notify.send("WATCHDOG=1")
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// refusedFor returns the transport error behind an error, if there is one.
func refusedFor(err error) *transport.Error {
	var e *transport.Error
	if errors.As(err, &e) {
		return e
	}
	return &transport.Error{Kind: transport.Unreachable, Code: "unknown", Message: err.Error()}
}
