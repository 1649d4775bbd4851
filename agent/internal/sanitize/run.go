package sanitize

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"gpuaas/contract/agentwire"
)

// Stage says how far the work on a device has come.
type Stage string

// The stages. Each is stored when it is reached.
const (
	StageNew     Stage = ""
	StagePlanted Stage = "planted" // canaries are on the device; they are never written again
	StageErased  Stage = "erased"  // a method has succeeded
	StageJudged  Stage = "judged"  // the evidence is complete, except for the file system
)

// Record is what must survive a crash.
type Record struct {
	Stage    Stage    `json:"stage"`
	Plan     Plan     `json:"plan"`
	Attempt  int      `json:"attempt"` // index of the method that is tried
	Seed     []byte   `json:"seed,omitempty"`
	Canaries []canary `json:"canaries,omitempty"`
	Before   []byte   `json:"before,omitempty"` // marks of samples
	Notes    []string `json:"notes,omitempty"`
	// Evidence is what is known so far.
	Evidence agentwire.DeviceSanitized `json:"evidence"`
}

// Options say how to work.
type Options struct {
	// Save stores the record before the work goes on.
	Save func(Record) error
	// Progress is told every few percent of a phase: plant, erase, verify.
	Progress func(phase string, percent int)
	Clock    func() time.Time
	// Poll is how often a device that erases itself is asked. Zero means a
	// second.
	Poll time.Duration
	// FullRead is the size up to which a device is read whole. Zero means 16
	// GiB.
	FullRead int64
}

func (o Options) poll() time.Duration {
	if o.Poll > 0 {
		return o.Poll
	}
	return time.Second
}

func (o Options) fullRead() int64 {
	if o.FullRead > 0 {
		return o.FullRead
	}
	return fullRead
}

type run struct {
	dev  Device
	rec  *Record
	opts Options

	mu    sync.Mutex
	phase string
	told  int
}

// Run erases a device by the plan of its record and completes the evidence in
// it, from wherever an earlier attempt stopped. An error says that Run was
// stopped or could not store the record. A device that fails is no error but
// evidence.
func Run(ctx context.Context, d Device, rec *Record, opts Options) error {
	r := &run{dev: d, rec: rec, opts: opts}
	if rec.Stage == StageNew {
		if err := r.begin(); err != nil {
			return err
		}
	}
	if rec.Stage == StagePlanted {
		if err := r.erase(ctx); err != nil {
			return err
		}
	}
	if rec.Stage == StageErased {
		if err := r.verify(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) begin() error {
	e := &r.rec.Evidence
	e.StartedAt, e.SizeBytes, e.VerifiedBy = r.opts.Clock().UTC(), r.dev.Size(), agentwire.VerifiedByNothing
	r.rec.Notes = append([]string{}, r.rec.Plan.Without...)
	r.report("plant", 0)
	if err := r.plant(); err != nil {
		return r.fail("canaries could not be planted: %v", err)
	}
	e.CanariesPlanted = len(r.rec.Canaries)
	return r.reach(StagePlanted)
}

// erase tries the methods, best first. It stores which one comes next, so that
// a repetition continues with it.
func (r *run) erase(ctx context.Context) error {
	for ; r.rec.Attempt < len(r.rec.Plan.Methods); r.rec.Attempt++ {
		if err := r.save(); err != nil {
			return err
		}
		r.report("erase", 0)
		err := r.apply(ctx)
		if err == nil {
			err = r.dev.Settle()
		}
		if ctx.Err() != nil {
			return fmt.Errorf("erase: %w", ctx.Err())
		}
		if err == nil {
			e := &r.rec.Evidence
			e.Method, e.Level, e.BytesCovered = string(r.method()), r.method().Level(), r.dev.Size()
			return r.reach(StageErased)
		}
		r.note("%s: %v", r.method(), err)
	}
	return r.fail("no method was carried out")
}

func (r *run) method() Method { return r.rec.Plan.Methods[r.rec.Attempt] }

func (r *run) apply(ctx context.Context) error {
	switch m := r.method(); m {
	case NVMeSanitizeCrypto:
		return r.nvmeSanitize(ctx, actCryptoErase)
	case NVMeSanitizeBlock:
		return r.nvmeSanitize(ctx, actBlockErase)
	case NVMeFormatCrypto:
		return r.nvmeFormat(eraseCrypto)
	case NVMeFormatUserData:
		return r.nvmeFormat(eraseUserData)
	case SecureDiscard:
		return r.pieces(ctx, func(at, n int64) error { return r.dev.Discard(at, n, true) })
	case Discard:
		return r.pieces(ctx, func(at, n int64) error { return r.dev.Discard(at, n, false) })
	case ZeroOut:
		return r.pieces(ctx, r.dev.Zero)
	case Overwrite:
		return r.overwrite(ctx)
	default:
		return fmt.Errorf("no such method: %s", m)
	}
}

// stretch is how much the kernel is told to erase at a time: it cannot be
// stopped meanwhile.
const stretch = 256 * mebi

func (r *run) pieces(ctx context.Context, erase func(at, n int64) error) error {
	size := r.dev.Size()
	for at := int64(0); at < size; at += stretch {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := erase(at, min(stretch, size-at)); err != nil {
			return fmt.Errorf("at %d: %w", at, err)
		}
		r.report("erase", int(at*100/size))
	}
	return nil
}

func (r *run) overwrite(ctx context.Context) error {
	const piece = 4 * mebi
	zeroes, free, err := buffer(piece)
	if err != nil {
		return err
	}
	defer free()
	size := r.dev.Size()
	for at := int64(0); at < size; at += piece {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := r.dev.WriteAt(zeroes[:min(piece, size-at)], at); err != nil {
			return fmt.Errorf("write at %d: %w", at, err)
		}
		r.report("erase", int(at*100/size))
	}
	return nil
}

func (r *run) verify(ctx context.Context) error {
	r.report("verify", 0)
	f, err := r.look(ctx)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("verify: %w", ctx.Err())
	case err != nil:
		return r.fail("what is on the device could not be looked at: %v", err)
	}
	r.judge(f)
	return r.reach(StageJudged)
}

// fail ends the work with evidence that the device is not known to be erased.
func (r *run) fail(format string, args ...any) error {
	r.note(format, args...)
	r.rec.Evidence.Outcome, r.rec.Evidence.Verified = agentwire.OutcomeFailed, false
	return r.reach(StageJudged)
}

func (r *run) note(format string, args ...any) {
	r.rec.Notes = append(r.rec.Notes, fmt.Sprintf(format, args...))
}

func (r *run) reach(s Stage) error {
	r.rec.Stage = s
	if s == StageJudged {
		r.rec.Evidence.Reason = strings.Join(r.rec.Notes, "; ")
		r.rec.Evidence.EndedAt = r.opts.Clock().UTC()
	}
	return r.save()
}

func (r *run) save() error {
	if err := r.opts.Save(*r.rec); err != nil {
		return fmt.Errorf("write down what was done to the device: %w", err)
	}
	return nil
}

// few is after how many percent progress is told again.
const few = 10

func (r *run) report(phase string, percent int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.opts.Progress == nil || phase == r.phase && percent < r.told+few {
		return
	}
	r.phase, r.told = phase, percent
	r.opts.Progress(phase, percent)
}

// Refuse completes the evidence of a device that is not touched.
func Refuse(e *agentwire.DeviceSanitized, now time.Time, why error) {
	e.Outcome, e.Reason, e.VerifiedBy = agentwire.OutcomeRefused, why.Error(), agentwire.VerifiedByNothing
	e.StartedAt, e.EndedAt = now.UTC(), now.UTC()
}
