package steps

import (
	"context"
	"errors"
	"fmt"

	"gpuaas/agent/internal/task"
	"gpuaas/agent/internal/update"
	"gpuaas/contract/agentwire"
)

var _ = handles(func(h host) task.Handler { return selfUpdate{h} }, agentwire.TypeSelfUpdate)

// selfUpdate replaces the agent, or returns to the previous version.
type selfUpdate struct{ host }

const (
	actionUpdate   = "update"
	actionRollback = "rollback"
)

// Check implements task.Handler. In the first process of the new version it
// waits until the loop knows whether that version is good.
func (h selfUpdate) Check(ctx context.Context, t *task.Task) (any, bool, error) {
	p, err := params[agentwire.SelfUpdateParams](t)
	if err != nil {
		return nil, false, err
	}
	last, ok, err := h.Updates.Last()
	if err != nil {
		return nil, false, err
	}
	if ok && last.TaskID == t.TaskID {
		return h.outcome(ctx)
	}
	if _, digest := h.Updates.Current(); p.Action == actionUpdate && digest == p.Digest &&
		h.Updates.Running() == p.Version {
		return agentwire.SelfUpdateOutput{From: p.Version, To: p.Version}, true, nil
	}
	return nil, false, nil
}

// outcome says how the change of this task went.
func (h selfUpdate) outcome(ctx context.Context) (any, bool, error) {
	if _, pending, err := h.Updates.Pending(); err != nil {
		return nil, false, err
	} else if pending {
		select {
		case <-h.Updates.Settled():
		case <-ctx.Done():
			return nil, false, fmt.Errorf("wait for the trial of version %s: %w", h.Updates.Running(), ctx.Err())
		}
	}
	c, _, err := h.Updates.Last()
	if err != nil {
		return nil, false, err
	}
	out := agentwire.SelfUpdateOutput{From: c.From, To: c.To, RolledBack: c.Back, Reason: c.Reason}
	switch c.State {
	case update.Confirmed:
		return out, true, nil
	case update.RolledBack:
		out.To, out.RolledBack = c.From, true
		return out, true, task.Fail("update_rolled_back",
			fmt.Sprintf("version %s was taken back, version %s runs again: %s", c.To, c.From, c.Reason),
			"look at the log of the agent on the node", nil)
	case update.OnTrial:
		return nil, false, nil // a crash prevented its start; it is activated again
	default:
		return nil, false, fmt.Errorf("the record of the update has state %q", c.State)
	}
}

// Apply implements task.Handler. It ends with task.ErrRestart: only the new
// version can tell that it works.
func (h selfUpdate) Apply(ctx context.Context, t *task.Task) (any, error) {
	p, err := params[agentwire.SelfUpdateParams](t)
	if err != nil {
		return nil, err
	}
	if p.Action == actionRollback {
		err = step(t, "activate", func() (string, error) { return "", h.Updates.Return(ctx, t.TaskID) })
		if errors.Is(err, update.ErrNoPrevious) {
			return nil, task.Fail("no_previous_version", "there is no earlier version of the agent on this machine",
				"update to the version that you want", nil)
		}
	} else {
		err = h.install(ctx, t, p)
	}
	if err != nil {
		return nil, refused(err)
	}
	return nil, task.ErrRestart
}

func (h selfUpdate) install(ctx context.Context, t *task.Task, p *agentwire.SelfUpdateParams) error {
	// The signature covers version and digest, so it is checked before a byte
	// is fetched.
	if err := h.Verifiers().VerifyPackage(p.Version, p.Digest, p.SignerVersion, p.Signature); err != nil {
		return task.Fail("package_signature", "the package of version "+p.Version+
			" is not signed by a signer that this node accepts",
			"sign it anew with the active signer", err)
	}
	want := update.Package{Version: p.Version, Digest: p.Digest, SizeBytes: p.SizeBytes}
	var folder string
	err := step(t, "stage", func() (message string, err error) {
		folder, err = h.stage(ctx, want)
		return folder, err
	})
	if err != nil {
		return err
	}
	return step(t, "activate", func() (string, error) { return "", h.Updates.Activate(t.TaskID, want, folder) })
}

func (h selfUpdate) stage(ctx context.Context, want update.Package) (string, error) {
	if folder, ok := h.Updates.Staged(want); ok {
		return folder, nil
	}
	body, err := h.Packages.Package(ctx, want.Version)
	if err != nil {
		return "", task.Fail("package_unavailable", "the package of version "+want.Version+" could not be fetched",
			"look at the package store of the control plane", err)
	}
	defer body.Close()
	return h.Updates.Stage(ctx, want, body)
}

// refused returns the error for a package that must not be used.
func refused(err error) error {
	var r *update.PackageError
	if errors.As(err, &r) {
		return task.Fail(r.Code, r.Detail, "the running version goes on; build and publish the package anew", nil)
	}
	return err
}
