package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gpuaas/agent/internal/task"
	"gpuaas/agent/internal/transport"
	"gpuaas/contract/agentwire"
)

// trustRest is the shortest pause between unprompted looks: forged tasks must
// not keep the agent busy.
const trustRest = 30 * time.Second

// keepTrust asks what to trust at the start, and again whenever a task is
// signed by a key that this node does not know. Renewals bring the same.
func (a *Agent) keepTrust(ctx context.Context) {
	wait := transport.Backoff{First: 5 * time.Second, Most: glance}
	for {
		looked := time.Now()
		err := a.fetchTrust(ctx)
		if ctx.Err() != nil {
			return
		}
		var again <-chan time.Time
		if kind := transport.KindOf(err); kind == transport.Unreachable || kind == transport.Unavailable {
			again = time.After(wait.Next(0))
		} else {
			wait.Reset()
		}
		select {
		case <-ctx.Done():
			return
		case <-again:
		case <-a.doubts:
			a.rest(ctx, a.o.trust-time.Since(looked))
		}
	}
}

// rest pauses without giving a sign of life.
func (a *Agent) rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// lookAtTrust makes keepTrust look.
func (a *Agent) lookAtTrust() {
	select {
	case a.doubts <- struct{}{}:
	default:
	}
}

// fetchTrust takes over what the control plane has signed. If the control plane
// does not know the call, it is older than this agent, and the present trust
// stays.
func (a *Agent) fetchTrust(ctx context.Context) error {
	statements, err := a.client.Trust(ctx)
	if err != nil {
		a.o.Log.Debug("no statements about what to trust", "error", err)
		return fmt.Errorf("ask what to trust: %w", err)
	}
	version := a.trust.Verifiers().Version()
	roots, err := a.trust.Take(statements, a.client.Peer(), time.Now())
	if roots != nil {
		a.client.Reload(roots)
		a.o.Log.Info("the control plane is verified with another bundle from now on", "bundle_version",
			a.trust.BundleVersion())
	}
	if now := a.trust.Verifiers().Version(); now != version {
		a.o.Log.Info("another set of task verifiers is in use", "verifier_version", now)
	}
	a.changed()
	if err != nil && !a.distrusted("what the control plane says to trust is not taken over", err) {
		a.o.Log.Error("what to trust not written down", "error", err)
	}
	return err
}

// distrusted logs an error if it is a refusal to trust, and says whether it
// was.
func (a *Agent) distrusted(what string, err error) bool {
	var refusal *agentwire.TrustRefusal
	if !errors.As(err, &refusal) {
		return false
	}
	a.o.Log.Error(what, "code", refusal.Code, "about", refusal.About, "error", err, "remedy", distrustRemedy)
	return true
}

// distrustRemedy says what to do about a refusal to trust.
const distrustRemedy = "find out who answers at the address of the control plane; if it is the control plane and " +
	"this node was away too long: " + transport.Recovery

// updateVerifiers handles the task that announces new trust. The set in the
// task is for older agents; this one fetches the signed statements.
type updateVerifiers struct{ a *Agent }

// Check implements task.Handler: only the control plane knows.
func (h updateVerifiers) Check(context.Context, *task.Task) (any, bool, error) {
	return nil, false, nil
}

// Apply implements task.Handler.
func (h updateVerifiers) Apply(ctx context.Context, t *task.Task) (any, error) {
	p, ok := t.Params.(*agentwire.UpdateVerifiersParams)
	if !ok {
		return nil, fmt.Errorf("parameters of type %T", t.Params)
	}
	err := h.a.fetchTrust(ctx)
	version := h.a.trust.Verifiers().Version()
	var refusal *agentwire.TrustRefusal
	switch {
	case version >= p.Set.Version: // what else was refused is in the log and in every poll
	case errors.As(err, &refusal):
		return nil, task.Fail(refusal.Code, refusal.Detail, distrustRemedy, err)
	case err != nil:
		return nil, task.Fail("trust_not_offered",
			fmt.Sprintf("the control plane gave no signed statement; verifier set %d stays in use", version),
			"use a control plane that is as new as this agent; it signs what nodes are to trust", err)
	default:
		return nil, task.Fail("trust_not_offered",
			fmt.Sprintf("the control plane asks for verifier set %d and has signed none that is newer than %d", p.Set.Version,
				version),
			"look at the log of the control plane: it signs what nodes are to trust", nil)
	}
	return agentwire.UpdateVerifiersOutput{Version: version}, nil
}
