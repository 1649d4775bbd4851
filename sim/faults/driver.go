package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gpuaas/contract/apiclient"
)

// Result says how a case ended.
type Result string

// The results.
const (
	HealedItself  Result = "healed by itself"
	Recovered     Result = "recovered"
	Unresolved    Result = "not resolved"
	NotApplicable Result = "not applicable"
)

// Stop is a place where a job was parked, and what was done about it.
type Stop struct{ Stage, Class, Code, Action string }

// Outcome is what became of a case.
type Outcome struct {
	Case
	Result Result
	Stops  []Stop
	Took   time.Duration
	Broken []string // rules that did not hold
	Warned bool     // the job reported a warning and went on
	End    string   // the state in which an allocation ended
	Why    string   // why a case was not resolved
}

// First says whether the case was resolved by itself or by the first
// recommended action.
func (o Outcome) First() bool {
	return o.Result == HealedItself || o.Result == Recovered && len(o.Stops) == 1
}

const (
	mostActions = 3
	// patience is the time limit from an action to the next stop.
	patience = 150 * time.Second
	// look is how long to wait for news before asking.
	look = 5 * time.Second
)

// try carries out a case from the request to its end.
func (w *World) try(ctx context.Context, seed uint64, number int, c Case) Outcome {
	out := Outcome{Case: c, Result: NotApplicable}
	if c.NotApplicable != "" {
		return out
	}
	began := time.Now()
	r := w.newRun(seed, number, c)
	err := r.begin(ctx)
	for err == nil {
		var v *standing
		if v, err = r.settled(ctx); err != nil {
			break
		}
		if ended(v.Status) {
			if out.End = r.ending(); r.path != nil && v.Outcome == withGaps {
				out.End = completed + ", " + withGaps
			}
			r.checkEnd(ctx, v)
			out.Warned = v.Facts["roce_problems"] != nil || len(v.FollowUps) > 0
			break
		}
		r.checkStop(ctx, v)
		goOn := r.recover
		if r.doing == Allocation {
			goOn = r.recoverRental
		}
		var stop Stop
		stop, err = goOn(ctx, v)
		out.Stops = append(out.Stops, stop)
	}
	r.end()
	r.checkPath(out.Stops)
	if err == nil && r.unstruck() > 0 {
		r.trouble(fmt.Errorf("%d faults were prepared and met nothing", r.unstruck()))
	}
	r.trouble(err)
	out.Took, out.Broken, out.Result = time.Since(began), r.broken, Recovered
	switch {
	case len(r.problems) > 0:
		out.Result, out.Why = Unresolved, fmt.Sprint(r.problems)
	case len(out.Stops) == 0:
		out.Result = HealedItself
	}
	return out
}

func ended(status string) bool {
	return slices.Contains([]string{completed, "reconciled", "cancelled"}, status)
}

func parked(status string) bool {
	return slices.Contains([]string{retryable, "failed_manual_intervention"}, status)
}

// begin asks for the job. A decommission first needs a node that a tenant has
// used.
func (r *run) begin(ctx context.Context) error {
	if err := r.world.furnish(ctx, r); err != nil {
		return err
	}
	var err error
	switch r.Family {
	case Decommission:
		err = r.prepare(ctx)
	case Allocation:
		err = r.furnishRental(ctx)
	case Onboarding, Paths:
	}
	if err != nil {
		return fmt.Errorf("prepare a node: %w", err)
	}
	r.set(r)
	if r.Family == Allocation {
		return r.beginRental(ctx)
	}
	ask := r.onboard
	if r.Family == Decommission {
		ask = r.decommission
	}
	if r.path != nil && r.path.ask != nil {
		ask = func(ctx context.Context) error { return r.path.ask(r, ctx) }
	}
	err = ask(ctx)
	if err != nil {
		return err
	}
	r.world.Trap.set(r.job.String(), r)
	if r.reached == nil {
		return nil
	}
	return r.interrupt(ctx)
}

func (r *run) beginRental(ctx context.Context) error {
	ask := r.rent
	if r.Mode == releaseMode {
		ask = r.leave
	}
	if err := ask(ctx); err != nil {
		return err
	}
	if r.reached == nil {
		return nil
	}
	return r.interruptRental(ctx)
}

func (r *run) onboard(ctx context.Context) error { return r.bring(ctx, r.label()) }

// bring asks for the onboarding of the machine, as a node with labels.
func (r *run) bring(ctx context.Context, labels map[string]string) error {
	made, err := r.world.api.CreateOnboardingWithResponse(ctx, &apiclient.CreateOnboardingParams{},
		apiclient.OnboardingNewBody{
			SiteId: r.site, ProfileId: &r.profile, SkuId: r.skuID, Hostname: r.hostname, IpmiIp: r.bmc, Labels: &labels,
			RequireHardwareMatch: &r.wish.match,
		})
	if _, err := apiclient.Read(made, err); err != nil {
		return fmt.Errorf("ask for the onboarding: %w", err)
	}
	r.job, r.node, r.doing = made.JSON.OnboardingId, made.JSON.NodeId, Onboarding
	return nil
}

// interrupt acts as the operator who takes the job away from a stage.
func (r *run) interrupt(ctx context.Context) error {
	defer close(r.letGo)
	select {
	case <-r.reached:
	case <-time.After(patience):
		return errors.New("the stage was not reached")
	case <-ctx.Done():
		return ctx.Err()
	}
	r.acted(ctx)
	return r.act(ctx, markManual, "somebody is working on the machine")
}

// settled waits until the job has ended or is parked.
func (r *run) settled(ctx context.Context) (*standing, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	news := r.world.newsOf(r.job.String())
	for {
		v, err := r.view(ctx)
		if err != nil {
			return nil, err
		}
		if ended(v.Status) || parked(v.Status) {
			r.mu.Lock()
			r.node = v.Node // a job that starts over has another node
			r.mu.Unlock()
			return v, nil
		}
		again := time.NewTimer(r.pause())
		select {
		case <-news:
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return nil, fmt.Errorf("it neither ended nor stopped in %s: %s", patience, v.Explanation.Summary)
		}
		again.Stop()
	}
}

// view reads the job.
func (r *run) view(ctx context.Context) (*standing, error) {
	if r.doing == Allocation {
		return r.lookAtRental(ctx)
	}
	return r.world.view(ctx, r.doing, r.job)
}

// pause is how long to wait for news of the job before asking.
func (r *run) pause() time.Duration {
	if r.doing == Allocation { // nobody tells of those
		return rentalLook
	}
	return look
}

// recover fixes what went wrong and takes the recommended action.
func (r *run) recover(ctx context.Context, v *standing) (Stop, error) {
	e := v.Explanation
	stop := Stop{Stage: v.Stage, Class: e.FailureClass, Code: e.ErrorCode}
	if len(e.Actions) == 0 {
		return stop, errors.New("nothing is recommended")
	}
	stop.Action = e.Actions[0].Action
	if r.actions >= mostActions {
		return stop, fmt.Errorf("%d actions did not resolve it: %s", mostActions, e.Summary)
	}
	if !r.isMended() {
		if err := r.repair(ctx); err != nil {
			return stop, err
		}
	}
	if r.path != nil && r.path.alone {
		stop.Action = nobody
		return stop, r.goesOn(ctx)
	}
	if stop.Action != "restart_clean" { // restart_clean undoes things before any stage begins
		r.acted(ctx)
	}
	if err := r.act(ctx, stop.Action, "a simulated fault was put right"); err != nil {
		return stop, err
	}
	return stop, nil
}

func (r *run) repair(ctx context.Context) error {
	r.lift()
	r.world.boots.answer(r.hostname, "", nil)
	if err := r.mend(ctx); err != nil {
		return fmt.Errorf("put right: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mended = true
	return nil
}

func (r *run) end() { r.lift() }

// act takes an action of operators.
func (r *run) act(ctx context.Context, action, reason string) error {
	r.mu.Lock()
	r.actions++
	r.mu.Unlock()
	do, known := verbs[r.doing][action]
	if !known {
		return fmt.Errorf("the action %s does not lead on", action)
	}
	if _, err := apiclient.Read(do(ctx, r.world.api, r.job, reason)); err != nil {
		return fmt.Errorf("%s: %w", action, err)
	}
	return nil
}
