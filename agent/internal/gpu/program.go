package gpu

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

const (
	// inspectLimit is far above the milliseconds that a healthy driver takes.
	inspectLimit = 30 * time.Second

	// Large enough for an answer with hundreds of GPUs.
	maxLine  = 256 << 10
	maxTotal = 1 << 20

	exitDone   = 0
	exitUsage  = 2
	exitFailed = 3 // the result says what failed
)

// Runner starts programs. argv[0] is the path of the program. onLine gets each
// line of its standard output, one call at a time and none after Run returned;
// the slice is only valid during the call. exit is the exit status, or a number
// below zero or above 127 if a signal ended the program. err says that the
// program could not be started or watched, or that ctx ended it.
type Runner interface {
	Run(ctx context.Context, argv []string, onLine func(line []byte)) (exit int, err error)
}

// Helper runs the program gpuaas-gpu.
type Helper struct {
	Path   string
	Runner Runner
}

// Kind says what went wrong with the program.
type Kind string

// The kinds of errors.
const (
	NotStarted  Kind = "gpu_helper_not_started"
	Crashed     Kind = "gpu_helper_crashed"
	Hung        Kind = "gpu_helper_hung"
	Interrupted Kind = "gpu_helper_interrupted"
	Garbage     Kind = "gpu_helper_garbage"
	NoResult    Kind = "gpu_helper_no_result"
)

// HelperError says that the program did not do its work, so that nothing is
// known of the GPUs.
type HelperError struct {
	Kind   Kind
	Exit   int
	Detail string
	Err    error
}

func (e *HelperError) Error() string {
	text := fmt.Sprintf("%s: exit %d", e.Kind, e.Exit)
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *HelperError) Unwrap() error { return e.Err }

// Inspect returns what GPUs the host has. A host without GPUs is no error.
func (h Helper) Inspect(ctx context.Context) (Report, error) {
	ctx, cancel := context.WithTimeout(ctx, inspectLimit)
	defer cancel()
	var report Report
	answer := answer{onResult: func(line []byte) error {
		if err := decode(line, &report); err != nil {
			return err
		}
		return report.validate()
	}}
	if err := h.run(ctx, []string{"inspect"}, &answer); err != nil {
		return Report{}, err
	}
	if answer.exit != exitDone {
		return Report{}, answer.failure(Crashed, "a report with a bad exit status", nil)
	}
	return report, nil
}

// Scrub overwrites the memory of the GPUs with these UUIDs, or of all GPUs.
// progress may be nil. The error says that the program failed. The report says
// what became of each GPU; there may be one even if the program was
// interrupted.
func (h Helper) Scrub(ctx context.Context, uuids []string, progress func(Phase)) (ScrubReport, error) {
	args := []string{"scrub"}
	for _, uuid := range uuids {
		if !identifier.MatchString(uuid) {
			return ScrubReport{}, fmt.Errorf("scrub GPU %q: malformed UUID", uuid)
		}
		args = append(args, "--gpu", uuid)
	}
	var report ScrubReport
	answer := answer{
		onPhase: func(line []byte) error {
			var p Phase
			if err := decode(line, &p); err != nil {
				return err
			}
			if progress != nil {
				progress(p)
			}
			return nil
		},
		onResult: func(line []byte) error {
			var r ScrubReport
			if err := decode(line, &r); err != nil {
				return err
			}
			if err := r.validate(uuids); err != nil {
				return err
			}
			report = r
			return nil
		},
	}
	if err := h.run(ctx, args, &answer); err != nil {
		return report, err
	}
	if want := map[bool]int{true: exitFailed, false: exitDone}[report.Outcome == Failed]; answer.exit != want {
		return report, answer.failure(Crashed, "outcome "+string(report.Outcome)+" with a bad exit status", nil)
	}
	return report, nil
}

// run starts the program and reads its answer to the end.
func (h Helper) run(ctx context.Context, args []string, a *answer) error {
	inner, stop := context.WithCancel(ctx)
	defer stop()
	// Do not wait for a program that prints nonsense.
	a.stop = stop
	exit, err := h.Runner.Run(inner, append([]string{h.Path}, args...), a.line)
	a.exit = exit
	signalled := err == nil && (exit < 0 || exit > 127)
	switch {
	case signalled && ctx.Err() == nil:
		return a.failure(Crashed, "ended by a signal", a.bad) // the signal may have cut a line
	case a.bad != nil:
		return a.failure(Garbage, "", a.bad)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return a.failure(Hung, "no answer in time", ctx.Err())
	case ctx.Err() != nil:
		return a.failure(Interrupted, "", ctx.Err())
	case err != nil:
		return a.failure(NotStarted, "", err)
	case exit == exitUsage:
		return a.failure(NotStarted, "the program does not know its arguments: is it of another version?", nil)
	case !a.done:
		return a.failure(NoResult, "", nil)
	}
	return nil
}

// answer reads the lines of the program.
type answer struct {
	onPhase  func(line []byte) error // nil if there are none
	onResult func(line []byte) error
	stop     context.CancelFunc

	total int
	done  bool // the result has come
	bad   error
	exit  int
}

func (a *answer) failure(kind Kind, detail string, err error) error {
	return &HelperError{Kind: kind, Exit: a.exit, Detail: detail, Err: err}
}

func (a *answer) line(line []byte) {
	if a.bad != nil {
		return
	}
	if a.bad = a.read(line); a.bad != nil {
		a.stop()
	}
}

func (a *answer) read(line []byte) error {
	a.total += len(line) + 1
	if len(line) > maxLine || a.total > maxTotal {
		return fmt.Errorf("more than %d bytes of output", maxTotal)
	}
	var kind struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(line, &kind); err != nil {
		return fmt.Errorf("decode %.80q: %w", line, err)
	}
	switch {
	case a.done:
		return errors.New("output after the result")
	case kind.Type == "phase" && a.onPhase != nil:
		return a.onPhase(line)
	case kind.Type == "report" || kind.Type == "result":
		a.done = true
		return a.onResult(line)
	default:
		return fmt.Errorf("a line of type %.40q", kind.Type)
	}
}

// decode accepts what this version of the program prints and nothing else.
func decode(line []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("decode %.80q: %w", line, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one value on a line")
	}
	return nil
}
