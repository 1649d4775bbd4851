package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"gpuaas/agent/internal/atomicfile"
	"gpuaas/agent/internal/task"
	"gpuaas/contract/agentwire"
)

var _ = handles(func(h host) task.Handler { return drain{h} }, agentwire.TypeDrain)

// drain empties the node, or lets it take users again.
type drain struct{ host }

// drainMark exists while the node is drained.
type drainMark struct {
	Reason string    `json:"reason"`
	TaskID string    `json:"task_id"`
	Since  time.Time `json:"since"`
}

func (h host) draining() bool {
	_, err := os.Lstat(h.Host.Path(drainFile))
	return !errors.Is(err, fs.ErrNotExist) // a mark that cannot be read counts
}

// Check implements task.Handler.
func (h drain) Check(_ context.Context, t *task.Task) (any, bool, error) {
	p, err := params[agentwire.DrainParams](t)
	if err != nil {
		return nil, false, err
	}
	left, err := h.tenants()
	if err != nil {
		return nil, false, err
	}
	if p.Resume == h.draining() || !p.Resume && h.Terminals.Count() > 0 || p.RevokeUsers && len(left) > 0 {
		return nil, false, nil
	}
	return agentwire.DrainOutput{Draining: !p.Resume, UsersRevoked: []string{}, UsersLeft: names(left)}, true, nil
}

// Apply implements task.Handler.
func (h drain) Apply(ctx context.Context, t *task.Task) (any, error) {
	p, err := params[agentwire.DrainParams](t)
	if err != nil {
		return nil, err
	}
	if p.Resume {
		return h.resume()
	}
	raw, err := json.Marshal(drainMark{Reason: p.Reason, TaskID: t.TaskID, Since: h.Clock()})
	if err != nil {
		return nil, fmt.Errorf("encode drain mark: %w", err)
	}
	if err := atomicfile.Write(h.Host.Path(drainFile), raw, 0o600); err != nil {
		return nil, fmt.Errorf("mark node as draining: %w", err)
	}
	out := agentwire.DrainOutput{Draining: true, SessionsClosed: h.Terminals.CloseAll(), UsersRevoked: []string{}}
	t.Reporter.Step("sessions", "succeeded", fmt.Sprintf("%d closed", out.SessionsClosed))
	if p.RevokeUsers {
		if out.UsersRevoked, err = h.revokeAll(ctx, t); err != nil {
			return nil, err
		}
	}
	left, err := h.tenants()
	if err != nil {
		return nil, err
	}
	out.UsersLeft = names(left)
	return out, nil
}

func (h drain) resume() (any, error) {
	if err := os.Remove(h.Host.Path(drainFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("lift drain: %w", err)
	}
	left, err := h.tenants()
	if err != nil {
		return nil, err
	}
	return agentwire.DrainOutput{UsersRevoked: []string{}, UsersLeft: names(left)}, nil
}

// revokeAll goes on after a failure and removes every account that it can. It
// reports the failures together.
func (h drain) revokeAll(ctx context.Context, t *task.Task) ([]string, error) {
	all, err := h.tenants()
	if err != nil {
		return nil, err
	}
	revoked := []string{}
	var failures []error
	for _, a := range all {
		if ctx.Err() != nil {
			return revoked, fmt.Errorf("revoke users: %w", ctx.Err())
		}
		s, err := h.ours(a.AllocationID, a.Username)
		if err == nil {
			_, err = h.removeAccount(ctx, t, s, false)
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", a.Username, err))
			continue
		}
		revoked = append(revoked, a.Username)
	}
	if len(failures) > 0 {
		return revoked, task.Fail("users_remain", fmt.Sprintf("%d of %d users could not be revoked", len(failures), len(all)),
			"the node is draining; solve what is named and drain again", errors.Join(failures...))
	}
	return revoked, nil
}

func names(all []account) []string {
	out := []string{}
	for _, a := range all {
		out = append(out, a.Username)
	}
	return out
}
