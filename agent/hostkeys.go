package agent

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"gpuaas/agent/internal/transport"
	"gpuaas/contract/agentwire"
)

// keepHostKeys tells the control plane by which keys people recognise this
// machine over SSH, at the start and at every change. A machine that shows other
// keys may be another one, so a change does not wait for the next inspection.
func (a *Agent) keepHostKeys(ctx context.Context) {
	var told []string
	wait := transport.Backoff{First: 2 * time.Second, Most: 5 * time.Minute}
	for {
		pause := a.o.hostKeys + rand.N(a.o.hostKeys/10) //nolint:gosec // spreads load
		if now := a.machine.HostKeys(); len(now) > 0 && !slices.Equal(now, told) {
			err := a.client.HostKeys(ctx, agentwire.HostKeysRequest{Keys: now})
			switch {
			case ctx.Err() != nil:
				return
			case err == nil:
				told = now
				wait.Reset()
			case unknownCall(err): // a control plane from before it asked for them
				pause = lookAgain
			default:
				a.o.Log.Debug("host keys not reported; it is tried again", "error", err)
				pause = wait.Next(0)
			}
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}
