package operation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gpuaas/agent/internal/hostexec"
	"gpuaas/contract/agentwire"
)

var _ = carries(agentwire.StepCommandExec, func(m machine) Kind { return commandExec{m} })

// commandExec runs the program of a command profile: by argument list, never
// through a shell, and confined.
type commandExec struct{ machine }

// Check implements Kind. What a program did leaves no trace that could be
// looked for, so a run that was interrupted is ambiguous unless the profile
// says that it may be repeated.
func (h commandExec) Check(_ context.Context, s *Step) (Look, error) {
	w, err := params[agentwire.CommandExecWith](s)
	if err != nil {
		return Look{}, err
	}
	line, err := w.Line()
	if err != nil {
		return Look{}, err
	}
	if s.Begun && !w.Profile.SafeToRepeat {
		return Look{}, fail(agentwire.FailureAmbiguous, "command_interrupted",
			"an earlier run of "+w.Profile.ID+" was interrupted, and nobody knows how far it came",
			"look at the node, then run the operation anew; say safe_to_repeat in the profile if it may be repeated", nil)
	}
	who := w.Profile.User
	if who == "" {
		who = "root"
	}
	return Look{Summary: fmt.Sprintf("runs %s as %s for at most %d s",
		strings.Join(append([]string{w.Profile.Command}, line...), " "), who, w.Profile.TimeoutSeconds)}, nil
}

// Apply implements Kind.
func (h commandExec) Apply(ctx context.Context, s *Step) (Result, error) {
	w, err := params[agentwire.CommandExecWith](s)
	if err != nil {
		return Result{}, err
	}
	out, err := h.execute(ctx, s, w)
	if err != nil {
		return Result{}, err
	}
	return Result{Output: out, Changed: true, Summary: fmt.Sprintf("%s ended with %d", w.Profile.ID, out.ExitCode)}, nil
}

// kept is how much of each stream is in the output of a step. The log has all.
const streamKept = 8 << 10

// execute runs a profile.
func (m machine) execute(ctx context.Context, s *Step, w *agentwire.CommandExecWith) (agentwire.CommandResult, error) {
	out := agentwire.CommandResult{Profile: w.Profile.ID}
	line, err := w.Line()
	if err != nil {
		return out, err
	}
	out.Argv = append([]string{w.Profile.Command}, line...)
	p, err := m.profile(s, w, line)
	if err != nil {
		return out, err
	}
	var stdout, stderr strings.Builder
	p.OnLine = func(isErr bool, text []byte) {
		stream, into, drop := agentwire.StreamStdout, &stdout, w.Profile.DropStdout
		if isErr {
			stream, into, drop = agentwire.StreamStderr, &stderr, w.Profile.DropStderr
		}
		if drop {
			return
		}
		clean := s.run.secrets.redact(strings.ToValidUTF8(string(text), "?"))
		s.Say(stream, clean)
		if into.Len() < streamKept {
			into.WriteString(clean + "\n")
		}
	}
	within, cancel := context.WithTimeoutCause(ctx, time.Duration(w.Profile.TimeoutSeconds)*time.Second, errTimeout)
	defer cancel()
	began := time.Now()
	out.ExitCode, err = m.Host.RunProfile(within, p)
	out.DurationMs = time.Since(began).Milliseconds()
	out.Stdout, out.Stderr = cut(stdout.String()), cut(stderr.String())
	return out, verdict(within, w.Profile, out, err)
}

func cut(s string) string {
	s = strings.ReplaceAll(s, "\x00", "")
	if len(s) > streamKept {
		return strings.ToValidUTF8(s[:streamKept], "")
	}
	return s
}

func verdict(ctx context.Context, p agentwire.CommandProfile, out agentwire.CommandResult, err error) error {
	class := agentwire.FailureAmbiguous
	if p.SafeToRepeat {
		class = agentwire.FailureTransient
	}
	expected := p.ExpectedExitCodes
	if len(expected) == 0 {
		expected = []int{0}
	}
	var f *Failure
	switch {
	case errors.Is(err, hostexec.ErrNoProgram):
		return fail(agentwire.FailureCapability, "program_missing", p.Command+" is not installed on this node",
			"install it in a step before", err)
	case errors.Is(err, hostexec.ErrOutput):
		f = fail(class, "output_limit", p.ID+" printed more than its profile allows",
			"raise output_bytes in its profile, or make it print less", err)
	case errors.Is(err, errTimeout):
		f = fail(class, "command_timeout", p.ID+" did not end in time, and its processes were killed",
			"look at its log for what took so long", err)
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil:
		f = fail(class, "command_failed", p.ID+" was not run", "look at the log of the agent", err)
	case !slices.Contains(expected, out.ExitCode):
		f = fail(agentwire.FailurePermanent, "bad_exit", fmt.Sprintf("%s ended with %d, not with %v: %s", p.ID, out.ExitCode,
			expected, lastOf(out.Stderr)), "look at its log", nil)
	default:
		return nil
	}
	f.Output = out
	return f
}

func lastOf(text string) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return all[len(all)-1]
}

// profile turns a command profile into what the machine runs.
func (m machine) profile(s *Step, w *agentwire.CommandExecWith, line []string) (hostexec.Profile, error) {
	l := w.Profile.Limits
	p := hostexec.Profile{Path: w.Profile.Command, Args: line, Output: orDefault(l.OutputBytes, 1<<20)}
	p.Limits = map[int]uint64{
		unix.RLIMIT_CORE:   0,
		unix.RLIMIT_FSIZE:  uint64(orDefault(l.FileMiB, 1024)) << 20, //nolint:gosec // not negative
		unix.RLIMIT_NOFILE: uint64(orDefault(l.OpenFiles, 1024)),     //nolint:gosec // not negative
	}
	for kind, value := range map[int]int64{
		unix.RLIMIT_AS: l.MemoryMiB << 20, unix.RLIMIT_NPROC: l.Processes, unix.RLIMIT_CPU: l.CPUSeconds,
	} {
		if value > 0 {
			p.Limits[kind] = uint64(value)
		}
	}
	for name, value := range w.Env {
		p.Env = append(p.Env, name+"="+value)
	}
	for name, handle := range w.Secrets {
		value, err := s.Secret(handle)
		if err != nil {
			return p, fail(agentwire.FailurePermanent, "secret_missing", "the secret "+name+" is not there",
				"mint it in a step before", err)
		}
		p.Env = append(p.Env, name+"="+value)
	}
	if w.Profile.User == "" || w.Profile.User == "root" {
		return p, nil
	}
	group := w.Profile.Group
	if group == "" {
		group = w.Profile.User
	}
	uid, err := m.userID(w.Profile.User)
	gid, second := m.groupID(group)
	if err := errors.Join(err, second); err != nil {
		return p, fail(agentwire.FailureCapability, "account_missing",
			"the account that runs "+w.Profile.ID+" does not exist",
			"make it in a step before, for example by its package", err)
	}
	p.UID, p.GID = uid, gid
	return p, nil
}

func orDefault(v, fallback int64) int64 {
	if v == 0 {
		return fallback
	}
	return v
}
