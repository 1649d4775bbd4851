package agent

import (
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"gpuaas/agent/internal/baseline"
	"gpuaas/agent/internal/enroll"
	"gpuaas/agent/internal/hostexec"
	"gpuaas/agent/internal/steps"
	"gpuaas/agent/internal/task"
	"gpuaas/agent/internal/transport"
	"gpuaas/contract/agentwire"
)

// baselineTime bounds one look at the installation before tenants come.
const baselineTime = 10 * time.Minute

// handBaseline takes the baseline of the installation and hands it over, unless
// a tenant was on it. What the control plane has already is not sent again.
func handBaseline(ctx context.Context, host hostexec.Host, client *transport.Client, id *enroll.Identity) (
	baseline.State, error,
) {
	before, _, err := baseline.ReadState(host)
	if err != nil {
		return before, err
	}
	taker, untouched, err := steps.Baseline(steps.Deps{Host: host, GPU: gpuHelper(host), Clock: time.Now})
	if err != nil {
		return before, err
	}
	if !untouched {
		before.Final = true
		return before, nil
	}
	ctx, cancel := context.WithTimeout(ctx, baselineTime)
	defer cancel()
	taken, err := taker.Take(ctx)
	if err != nil {
		return before, err
	}
	return handInventory(ctx, host, client, id, taken.Inventory)
}

// handInventory hands over what the installation is like, if it is new.
func handInventory(ctx context.Context, host hostexec.Host, client *transport.Client, id *enroll.Identity,
	now agentwire.Inventory,
) (baseline.State, error) {
	before, _, err := baseline.ReadState(host)
	if err != nil {
		return before, err
	}
	digest, err := digestOf(now)
	if err != nil || before.Outcome == agentwire.BaselineKept && before.Digest == digest {
		return before, err
	}
	raw, err := json.Marshal(now)
	if err != nil {
		return before, fmt.Errorf("encode baseline: %w", err)
	}
	key, err := signingKey(id)
	if err != nil {
		return before, err
	}
	signature, err := agentwire.SignBaseline(key, id.Node, raw)
	if err != nil {
		return before, err
	}
	answer, err := client.Baseline(ctx, agentwire.BaselineRequest{Inventory: raw, Signature: signature})
	if err != nil {
		return before, err
	}
	after := before.Answered(answer, digest, time.Now())
	return after, baseline.WriteState(host, after)
}

// digestOf names an inventory apart from when it was taken.
func digestOf(i agentwire.Inventory) (string, error) {
	i.TakenAt = time.Time{}
	raw, err := json.Marshal(i)
	if err != nil {
		return "", fmt.Errorf("encode baseline: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

func signingKey(id *enroll.Identity) (*ecdsa.PrivateKey, error) {
	key, ok := id.Certificate.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("the key of the node is not an ECDSA key")
	}
	return key, nil
}

// keepBaseline hands over what the installation is like until a tenant comes:
// its first boot goes on after the agent was started.
func (a *Agent) keepBaseline(ctx context.Context) {
	host := hostexec.Host{Root: a.config.Root}
	pause := time.Minute
	if before, _, err := baseline.ReadState(host); err == nil && before.Final {
		return
	}
	for {
		state, err := handBaseline(ctx, host, a.client, a.identity.Load())
		switch {
		case ctx.Err() != nil:
			return
		case unknownCall(err): // a control plane from before there were baselines
		case err != nil:
			a.o.Log.Warn("baseline of the installation not handed over; it is tried again", "error", err)
		case state.Final:
			a.o.Log.Info("no baseline of this installation is taken any more", "kept", state.Outcome == agentwire.BaselineKept,
				"reason", state.Reason)
			return
		}
		timer := time.NewTimer(pause + rand.N(pause/10)) //nolint:gosec // spreads load
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		pause = min(2*pause, lookAgain) // much happens at first, and little later
	}
}

// unknownCall says whether the control plane has no such call.
func unknownCall(err error) bool {
	var e *transport.Error
	return errors.As(err, &e) && e.Status == http.StatusNotFound
}

// amendment is what a task changed of the installation, for a control plane that
// has its baseline; nil: nothing, or nobody wants to know.
func (a *Agent) amendment(ctx context.Context, handler task.Handler, t *task.Task) (*agentwire.Amendment, error) {
	changes, ok := handler.(task.Amender)
	state, _, err := baseline.ReadState(hostexec.Host{Root: a.config.Root})
	if !ok || err != nil || state.Outcome != agentwire.BaselineKept {
		return nil, err
	}
	entries, err := changes.Amends(ctx, t)
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	id := a.identity.Load()
	key, err := signingKey(id)
	if err != nil {
		return nil, err
	}
	signature, err := agentwire.SignAmendment(key, id.Node, t.TaskID, entries)
	return &agentwire.Amendment{Entries: entries, Signature: signature}, err
}
