package steps

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"gpuaas/agent/internal/hostexec"
	"gpuaas/agent/internal/task"
	"gpuaas/contract/agentwire"
)

var _ = handles(func(h host) task.Handler { return uninstall{h} }, agentwire.TypeUninstall)

// uninstall removes the agent. Finish removes what is needed to send the
// result, after it was sent.
type uninstall struct{ host }

var _ task.Finisher = uninstall{}

// afterwards is what Finish removes, in this order. The unit goes first: once
// systemd has forgotten it, an agent that is killed in the middle is not
// started again without the files it needs. Keys go before programs.
var afterwards = []string{unitFile, stateFolder, etcFolder, optFolder}

// Check implements task.Handler. An agent that can ask is still installed.
func (h uninstall) Check(context.Context, *task.Task) (any, bool, error) { return nil, false, nil }

// Apply implements task.Handler.
func (h uninstall) Apply(ctx context.Context, t *task.Task) (any, error) {
	p, err := params[agentwire.UninstallParams](t)
	if err != nil {
		return nil, err
	}
	out := agentwire.UninstallOutput{Removed: []string{}, Residue: []string{}}
	left, err := h.tenants()
	if err != nil {
		return nil, err
	}
	if len(left) > 0 {
		return nil, task.Fail("users_remain", fmt.Sprintf("%d allocation users are still on this machine: %v", len(left),
			names(left)),
			"drain the node with revoke_users first", nil)
	}
	t.Reporter.Step("sessions", "succeeded", fmt.Sprintf("%d closed", h.Terminals.CloseAll()))
	h.disable(ctx, &out)
	if !p.KeepLogs {
		h.remove(&out, logFolder)
	}
	h.remove(&out, filepath.Dir(timerSettings))
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("remove agent: %w", err)
	}
	for _, path := range afterwards {
		out.Removed = append(out.Removed, path+" (once this result was received)")
	}
	return out, task.ErrStop
}

// disable keeps the agent from being started at the next boot. It goes on
// running until the result was sent.
func (h uninstall) disable(ctx context.Context, out *agentwire.UninstallOutput) {
	_, err := h.Host.Do(ctx, hostexec.Command{Program: "systemctl", Args: []string{"disable", unitName}})
	switch {
	case err == nil:
		out.Removed = append(out.Removed, unitName+" (disabled)")
	case !errors.Is(err, hostexec.ErrNoProgram):
		out.Residue = append(out.Residue, fmt.Sprintf("%s: %v", unitName, err))
	}
}

func (h uninstall) remove(out *agentwire.UninstallOutput, path string) {
	if _, err := os.Lstat(h.Host.Path(path)); errors.Is(err, fs.ErrNotExist) {
		return
	}
	residue, err := removeTree(h.Host, path, func() error { return nil })
	switch {
	case err != nil:
		out.Residue = append(out.Residue, fmt.Sprintf("%s: %v", path, err))
	case len(residue) > 0:
		out.Residue = append(out.Residue, residue...)
	default:
		out.Removed = append(out.Removed, path)
	}
}

// Finish implements task.Finisher. It stops the unit last and does not wait,
// because the stop ends this process.
func (h uninstall) Finish(ctx context.Context, _ *task.Task) error {
	var out agentwire.UninstallOutput
	systemctl := func(args ...string) {
		_, err := h.Host.Do(ctx, hostexec.Command{Program: "systemctl", Args: args})
		if err != nil && !errors.Is(err, hostexec.ErrNoProgram) {
			out.Residue = append(out.Residue, err.Error())
		}
	}
	for _, path := range afterwards {
		h.remove(&out, path)
		if path == unitFile {
			systemctl("daemon-reload")
		}
	}
	systemctl("stop", "--no-block", unitName)
	if len(out.Residue) > 0 {
		return fmt.Errorf("remove agent: not everything is gone: %v", out.Residue)
	}
	return nil
}
