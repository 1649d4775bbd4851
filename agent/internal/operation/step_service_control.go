package operation

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"gpuaas/agent/internal/hostexec"
	"gpuaas/contract/agentwire"
)

var _ = carries(agentwire.StepServiceControl, func(m machine) Kind { return serviceControl{m} })

// serviceControl brings a unit of systemd into a state.
type serviceControl struct{ machine }

// unit is what systemd says about a unit.
type unit struct {
	agentwire.UnitState
	load       string
	invocation string // another one after each start
}

// words say how a unit is. One that systemd does not know yet is neither enabled nor
// disabled.
func (u unit) words() string {
	switch {
	case u.load == "not-found":
		return "not there yet"
	case u.Enabled == "":
		return u.Active
	default:
		return u.Active + " and " + u.Enabled
	}
}

// Check implements Kind.
func (h serviceControl) Check(ctx context.Context, s *Step) (Look, error) {
	w, err := params[agentwire.ServiceControlWith](s)
	if err != nil {
		return Look{}, err
	}
	now, err := h.look(ctx, w.Unit)
	if err != nil {
		return Look{}, err
	}
	missing := now.load == "not-found"
	if missing && w.Action != agentwire.ServiceStop && w.Action != agentwire.ServiceDisable && !s.run.params.Plan {
		return Look{}, fail(agentwire.FailurePermanent, "unit_missing", "there is no unit "+w.Unit+" on this node",
			"install it in a step before; set reload: true if its file was just written", nil)
	}
	if done(w, s, now) {
		out := agentwire.ServiceControlResult{Unit: w.Unit, Before: now.UnitState, After: now.UnitState}
		return Look{Done: true, Output: out, Summary: w.Unit + " is " + now.words()}, nil
	}
	return Look{Summary: fmt.Sprintf("%ss %s, which is %s", w.Action, w.Unit, now.words())}, nil
}

func done(w *agentwire.ServiceControlWith, s *Step, now unit) bool {
	switch w.Action {
	case agentwire.ServiceStart:
		return now.Active == "active" && (!w.Reload || s.Recall("reloaded") != "")
	case agentwire.ServiceStop:
		return now.Active == "inactive" || now.load == "not-found"
	case agentwire.ServiceEnable:
		return now.Enabled == "enabled" || now.Enabled == "static"
	case agentwire.ServiceDisable:
		return now.Enabled == "disabled" || now.load == "not-found"
	default: // a restart is done if the unit was started anew since this step began
		before := s.Recall("invocation")
		return before != "" && now.Active == "active" && now.invocation != "" && before != "was "+now.invocation
	}
}

// Apply implements Kind.
func (h serviceControl) Apply(ctx context.Context, s *Step) (Result, error) {
	w, err := params[agentwire.ServiceControlWith](s)
	if err != nil {
		return Result{}, err
	}
	before, err := h.look(ctx, w.Unit)
	if err != nil {
		return Result{}, err
	}
	if w.Action == agentwire.ServiceRestart && s.Recall("invocation") == "" {
		if err := s.Checkpoint("invocation", "was "+before.invocation); err != nil {
			return Result{}, fmt.Errorf("write down how the unit was: %w", err)
		}
	}
	if w.Reload {
		if err := h.systemctl(ctx, s, "daemon-reload"); err != nil {
			return Result{}, err
		}
		if err := s.Checkpoint("reloaded", "yes"); err != nil {
			return Result{}, fmt.Errorf("write down that the files were read again: %w", err)
		}
	}
	s.point("acting")
	err = h.systemctl(ctx, s, w.Action, "--", w.Unit)
	s.point("acted")
	after, second := h.settled(ctx, w, err == nil)
	out := agentwire.ServiceControlResult{Unit: w.Unit, Before: before.UnitState, After: after.UnitState}
	if err != nil || second != nil {
		return Result{}, h.notStarted(ctx, s, w, out, errors.Join(err, second))
	}
	return Result{
		Output: out, Changed: true,
		Summary: fmt.Sprintf("%s was %s and is %s", w.Unit, before.Active, after.Active),
	}, nil
}

func (h serviceControl) systemctl(ctx context.Context, s *Step, args ...string) error {
	out, err := h.Host.Do(ctx, hostexec.Command{Program: "systemctl", Args: args, Timeout: 12 * time.Hour, Held: true})
	for _, text := range []string{string(out.Stdout), string(out.Stderr)} {
		for _, l := range lines(text) {
			s.Say(agentwire.StreamStderr, l)
		}
	}
	if err != nil {
		return fmt.Errorf("systemctl %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// settled waits until a started unit stayed as it is for as long as it should.
func (h serviceControl) settled(ctx context.Context, w *agentwire.ServiceControlWith, ok bool) (unit, error) {
	if !ok || w.Action != agentwire.ServiceStart && w.Action != agentwire.ServiceRestart {
		return h.look(ctx, w.Unit)
	}
	stable := time.Duration(w.StableSeconds) * time.Second
	if w.StableSeconds == 0 {
		stable = 2 * time.Second
	}
	first, err := h.look(ctx, w.Unit)
	if err != nil {
		return first, err
	}
	for end := h.Clock().Add(stable); ; {
		now, err := h.look(ctx, w.Unit)
		switch {
		case err != nil:
			return now, err
		case now.Active != "active" && now.Active != "reloading":
			return now, fmt.Errorf("it did not stay active (%s)", now.Sub)
		case now.invocation != first.invocation:
			return now, errors.New("it is started again and again")
		case !h.Clock().Before(end):
			return now, nil
		}
		select {
		case <-ctx.Done():
			return now, context.Cause(ctx)
		case <-time.After(min(stable, 200*time.Millisecond)):
		}
	}
}

func (h serviceControl) notStarted(ctx context.Context, s *Step, w *agentwire.ServiceControlWith,
	out agentwire.ServiceControlResult, cause error,
) error {
	if errors.Is(cause, errTimeout) {
		return cause
	}
	text, err := h.Host.Do(ctx, hostexec.Command{
		Program: "journalctl", Args: []string{"--no-pager", "--lines=50", "--output=cat", "--unit=" + w.Unit},
	})
	if err != nil {
		s.Say(agentwire.StreamAgent, "the journal of the unit cannot be read: "+err.Error())
	}
	for _, l := range lines(string(text.Stdout)) {
		s.Say(agentwire.StreamStdout, l)
		if len(l) < 400 {
			out.Journal = append(out.Journal, s.run.secrets.redact(l))
		}
	}
	code := map[string]string{agentwire.ServiceStart: "start_failed", agentwire.ServiceRestart: "start_failed"}[w.Action]
	if code == "" {
		code = w.Action + "_failed"
	}
	f := fail(agentwire.FailurePermanent, code, w.Action+" of "+w.Unit+" failed, the unit is "+out.After.Active,
		"the log of this step has the last lines of the unit's journal; mend the cause and go on at this step", cause)
	f.Output = out
	return f
}

func (h serviceControl) look(ctx context.Context, name string) (unit, error) {
	out, err := h.Host.Do(ctx, hostexec.Command{Program: "systemctl", Args: []string{
		"show", "--property=LoadState,ActiveState,SubState,UnitFileState,MainPID,InvocationID", "--", name,
	}})
	if err != nil {
		if errors.Is(err, hostexec.ErrNoProgram) {
			return unit{}, fail(agentwire.FailureCapability, "no_systemd", "this node has no systemd",
				"use an image with systemd", err)
		}
		return unit{}, fmt.Errorf("ask systemd about %s: %w", name, err)
	}
	var u unit
	for _, l := range lines(string(out.Stdout)) {
		key, value, _ := strings.Cut(l, "=")
		switch key {
		case "LoadState":
			u.load = value
		case "ActiveState":
			u.Active = value
		case "SubState":
			u.Sub = value
		case "UnitFileState":
			u.Enabled = value
		case "InvocationID":
			u.invocation = value
		case "MainPID":
			if u.PID, err = strconv.ParseInt(value, 10, 64); err != nil {
				return u, fmt.Errorf("process of %s: %w", name, err)
			}
		}
	}
	return u, nil
}
