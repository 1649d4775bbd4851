package agent

import (
	"context"
	"slices"
	"sync"
	"time"

	"gpuaas/agent/internal/transport"
	"gpuaas/contract/agentwire"
)

const (
	// stepDelay gathers steps before they are sent.
	stepDelay = time.Second
	maxStep   = 2000
)

// keepLease sends signs of life and the steps of the task until stop is called.
// If the control plane cannot be reached, the task goes on: the result waits in
// the journal. A cancelled task keeps its lease until its handler returns:
// otherwise the control plane would take it for dead in the middle of a step
// that must not be interrupted, and others would begin beside it.
func (r *execution) keepLease() (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.ctx))
	var done sync.WaitGroup
	done.Go(func() {
		renewal := time.NewTicker(r.x.renewal)
		defer renewal.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-renewal.C:
			case <-r.news:
				select {
				case <-ctx.Done():
					return
				case <-time.After(stepDelay):
				}
			}
			if !r.tell() {
				return
			}
		}
	})
	return sync.OnceFunc(func() {
		cancel()
		done.Wait()
	})
}

// tell sends the steps that were not sent yet, and renews the lease. It returns
// false if there is no lease to renew any more.
func (r *execution) tell() (held bool) {
	r.mu.Lock()
	e, steps := r.envelope, slices.Clone(r.steps) // a newer attempt numbers its own
	r.mu.Unlock()
	if len(steps) > 200 {
		steps = steps[:200]
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), r.x.renewal)
	defer cancel()
	answer, err := r.x.calls.Progress(ctx, e, agentwire.ProgressRequest{Attempt: e.Attempt, Steps: steps})
	switch code := transport.CodeOf(err); {
	case code == agentwire.CodeTaskFinal, code == agentwire.CodeTaskNotYours:
		r.log.Warn("the control plane says that the task has ended", "code", code)
		r.cancel(errEnded)
		return false
	case err != nil:
		r.log.Warn("lease not renewed", "error", err)
		return true
	case answer.Cancel:
		if r.ctx.Err() == nil {
			r.log.Info("the control plane asks for the task to be stopped")
		}
		r.cancel(errCancelled)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Attempt == r.envelope.Attempt {
		r.steps = r.steps[len(steps):]
	}
	return true
}

// Step implements task.Reporter.
func (r *execution) Step(name, status, message string) {
	r.mu.Lock()
	r.seq++
	s := agentwire.Step{Seq: r.seq, Name: name, Status: status, Message: bounded(message, maxStep), At: r.x.now().UTC()}
	r.steps = append(r.steps, s)
	id := r.envelope.TaskID
	r.mu.Unlock()
	r.x.journal.Step(id, s)
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// Checkpoint implements task.Reporter.
func (r *execution) Checkpoint(key, value string) error {
	return r.x.journal.Checkpoint(r.current().TaskID, key, value)
}

// Recall implements task.Reporter.
func (r *execution) Recall(key string) string {
	return r.x.journal.Recall(r.current().TaskID, key)
}

// Mint implements task.Credentials. The credential is erased when the task
// ends.
func (r *execution) Mint(ctx context.Context, credentialType string, intent map[string]string) (
	agentwire.Credential, error,
) {
	return r.MintForStep(ctx, "", r.current().Type, credentialType, intent)
}

// MintForStep implements task.StepCredentials.
func (r *execution) MintForStep(ctx context.Context, operation, step, credentialType string,
	intent map[string]string,
) (agentwire.Credential, error) {
	e := r.current()
	c, err := r.x.calls.Mint(ctx, e, agentwire.MintRequest{
		Attempt: e.Attempt, OperationID: operation, StepID: step,
		CredentialType: credentialType, Intent: intent,
	})
	if err != nil {
		return agentwire.Credential{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.minted = append(r.minted, c)
	return c, nil
}
