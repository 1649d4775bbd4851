package bringup

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	"gpuaas/controlplane/internal/adapter/firstboot"
	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/job"
)

// WaitForAgentEnrollment names the stage "Wait for the agent".
const WaitForAgentEnrollment = "wait_for_agent_enrollment"

var _ = catalog.Declare(job.Stage{
	Name: WaitForAgentEnrollment, Title: "Wait for the agent", Attempts: 1,
	Limit: job.Limit(site.StageEnrollment), Awaits: true, Nudge: node.EnrolledSignal,
	Resume:  WaitForAgentEnrollment,
	Usually: "1 to 5 min",
	Looks:   "whether the agent has polled",
	Does: "extends the token and repeats the first boot, twice at most; then has the agent lock the deploy login, " +
		"and looks at hardware and data disks where request and profile ask for that",
	Expects: "the agent has polled with its certificate, and nobody can log in as the deploy user",
	Again: "an agent that has polled, however late, is accepted; a job that is parked because it did not come goes on when it " +
		"does",
	Fails: []job.FailureMode{
		MAASAway, OutOfBand,
		job.FailsWith(AgentEnrollmentFailure, "the agent does not enrol in time, or somebody else came with its token"),
		job.FailsWith(HardwareMismatch, "data disks are not clean, or the hardware is not that of the SKU"),
	},
}, (*Bringup).WaitForAgentEnrollment)

// The codes of failures that only this stage has.
var (
	codeNotEnrolled = job.DeclareCode(job.Code{
		Name: "failed_enrollment", Class: AgentEnrollmentFailure,
		Cause: "The agent cannot reach the control plane from the machine: DNS, routing, a firewall or a proxy.",
		Remedy: "on the machine, look at: journalctl -u gpuaas-node-agent, and whether it reaches the " +
			"control plane; then resume",
		Runbook: "onboarding-parked", WakesOn: node.EnrolledSignal,
	})
	codeBootstrapFailed = job.DeclareCode(job.Code{
		Name: "gpuaas_bootstrap_failed", Class: AgentEnrollmentFailure,
		Cause: "A layer of the gpuaas first boot failed; the details name it.",
		Remedy: "read the log of the layer on the machine, fix what it reports, then resume: layers that " +
			"succeeded are not repeated",
		Runbook: "onboarding-parked", WakesOn: node.EnrolledSignal,
	})
	codeSiteBootstrapFailed = job.DeclareCode(job.Code{
		Name: "site_bootstrap_failed", Class: AgentEnrollmentFailure,
		Cause: "The site's bootstrap bundle failed at the first boot, so the gpuaas layers did not run.",
		Remedy: "read the log of the layer on the machine, fix what it reports, then resume: layers that " +
			"succeeded are not repeated",
		Runbook: "onboarding-parked", WakesOn: node.EnrolledSignal,
	})
	codeLoginNotLocked = job.DeclareCode(job.Code{
		Name: "login_not_locked", Class: AgentEnrollmentFailure,
		Cause:   "The agent could not lock the account that was used to set up the machine.",
		Remedy:  "fix on the machine what it reports, then resume",
		Runbook: "onboarding-parked",
	})
)

// mostRefreshes is how often in one wait the token of a machine is made to live
// longer and its first boot is repeated.
const mostRefreshes = 2

// WaitForAgentEnrollment ends when the agent has polled with its certificate, however
// late, and has locked the account by which the machine was set up. It looks and
// returns; the first poll of the agent signals the workflow of the job. The refreshes
// divide the time limit into equal parts.
func (b *Bringup) WaitForAgentEnrollment(ctx context.Context, w *Work) (Result, error) {
	n, err := b.awaited(ctx, w)
	if err != nil {
		return Result{}, err
	}
	r, err := b.region(ctx, w)
	if err != nil {
		return Result{}, err
	}
	m, err := b.deployed(ctx, r, w)
	if err != nil {
		return Result{}, err
	}
	if f := IdentityVoid(n); f != nil {
		return Result{}, f
	}
	if n.FirstPollAt != nil {
		note, await, err := b.closeLogin(ctx, w)
		if err != nil || await != nil {
			return Result{Await: await}, err
		}
		accepted, await, err := b.accept(ctx, w)
		if err != nil || await != nil {
			return Result{Await: await}, err
		}
		note += accepted
		return Result{
			Message: fmt.Sprintf("the agent of %s, version %s, polls for tasks%s", w.Hostname, n.ReportedAgentVersion, note),
			Details: map[string]any{
				"agent_version": n.ReportedAgentVersion, "first_poll_at": n.FirstPollAt.UTC(),
				"token_refreshes": w.Facts.TokenRefreshes,
			},
		}, nil
	}
	again := w.Facts.EnrollEpoch != 0 && w.Facts.EnrollEpoch != w.Epoch
	if w.Facts.EnrollEpoch != w.Epoch {
		w.Facts.EnrollEpoch, w.Facts.TokenRefreshes, w.Facts.TokenRefreshed = w.Epoch, 0, nil
	}
	switch due := w.refreshDue(); {
	case again: // an operator asked for it: the machine has to try again, now
		return b.refresh(ctx, w, m)
	case b.now().Before(due):
		return b.untilPoll(due), nil
	case w.Facts.TokenRefreshes < mostRefreshes:
		return b.refresh(ctx, w, m)
	case b.now().Sub(due) > unattended:
		return b.attended(ctx, w)
	}
	return Result{}, b.notEnrolled(ctx, w, m, n)
}

// awaited reads the node of the job, which must be one that can enrol.
func (b *Bringup) awaited(ctx context.Context, w *Work) (node.Node, error) {
	n, err := b.cfg.Nodes.Node(ctx, w.Node)
	if fault.KindOf(err) == fault.NotFound {
		return n, b.requireNode(ctx, w)
	}
	if err == nil && n.Status != node.Active {
		err = usable(n, w)
	}
	return n, err
}

// refreshDue is when the agent should have polled, as far as the present part
// of the wait goes. A part begins with its refresh, however late that was.
func (w *Work) refreshDue() time.Time {
	whole := time.Duration(w.Profile.Policy.EnrollmentTimeoutSeconds) * time.Second
	if !w.Deadline.IsZero() {
		whole = w.Deadline.Sub(w.Since)
	}
	part := whole / (mostRefreshes + 1)
	due := w.Since.Add(part * time.Duration(w.Facts.TokenRefreshes+1))
	if at := w.Facts.TokenRefreshed; at != nil && at.Add(part).After(due) {
		due = at.Add(part)
	}
	return due
}

// unattended is how late a look may be while the control plane runs. If the look is
// later, the control plane was down, and the agent could not enrol either.
const unattended = 2 * time.Minute

// attended repeats the last part of the wait, because the control plane was down when
// it ended.
func (b *Bringup) attended(ctx context.Context, w *Work) (Result, error) {
	at := b.now().UTC()
	w.Facts.TokenRefreshed = &at
	if err := w.Save(ctx); err != nil {
		return Result{}, err
	}
	out := b.untilPoll(w.refreshDue())
	out.Message = "the control plane was down when the agent's time ran out; the agent gets more time"
	return out, nil
}

// untilPoll lets the stage wait for the first poll, or until a time.
func (b *Bringup) untilPoll(until time.Time) Result {
	return Result{Await: &Await{Signal: node.EnrolledSignal, Most: max(until.Sub(b.now()), time.Second)}}
}

// refresh makes the token that the machine has live longer and repeats what did
// not succeed of its first boot. A machine that cannot be reached may still
// come by itself.
func (b *Bringup) refresh(ctx context.Context, w *Work, m maas.Machine) (Result, error) {
	if err := w.Fence(ctx); err != nil {
		return Result{}, err
	}
	ttl := min(max(time.Duration(w.Profile.Policy.EnrollmentTokenTTLSeconds)*time.Second, node.MinTokenTTL),
		node.MaxTokenTTL)
	expires, extended, err := b.cfg.Nodes.ExtendToken(ctx, w.Node, ttl)
	if err != nil {
		return Result{}, err
	}
	at := b.now().UTC()
	w.Facts.TokenRefreshes++
	w.Facts.TokenRefreshed = &at
	details := map[string]any{"token_refreshes": w.Facts.TokenRefreshes, "token_extended": extended}
	message := "the agent has not polled yet; its token had been used"
	if extended {
		w.Facts.TokenExpiresAt = &expires
		details["token_expires_at"] = expires
		message = fmt.Sprintf("the agent has not polled yet; its token lives until %s", expires.UTC().Format(time.RFC3339))
	}
	if err := w.Save(ctx); err != nil {
		return Result{}, err
	}
	found, err := b.firstBootOf(ctx, w, m, true)
	switch {
	case ctx.Err() != nil:
		return Result{}, ctx.Err()
	case err != nil && Classify(err).Final:
		return Result{}, err
	case err != nil:
		details["ssh"] = Classify(err).Message
		message += "; the machine could not be asked to repeat its first boot"
	default:
		found.tell(details)
		message += "; what did not succeed of its first boot is repeated"
	}
	out := b.untilPoll(w.refreshDue())
	out.Message, out.Details = message, details
	return out, nil
}

// notEnrolled says why the agent has not come, as far as the machine tells.
func (b *Bringup) notEnrolled(ctx context.Context, w *Work, m maas.Machine, n node.Node) error {
	details := map[string]any{
		"token_refreshes": w.Facts.TokenRefreshes, "token_expires_at": w.Facts.TokenExpiresAt,
		"enrolled": n.AgentInstance != "",
		"expected": "a poll of the agent with its certificate",
	}
	f := codeNotEnrolled.Failed("the agent of %s has not polled in time", w.Hostname).ForGood()
	found, err := b.firstBootOf(ctx, w, m, false)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		details["ssh"] = Classify(err).Message
		return f.Because(err).About(details)
	}
	found.tell(details)
	if bad := found.failure(); bad != nil {
		whose := "gpuaas"
		f.Code = codeBootstrapFailed
		if bad.Layer == firstboot.SiteBundleLayer {
			whose, f.Code = "the site", codeSiteBootstrapFailed
		}
		f.Message = fmt.Sprintf("the first boot of %s failed in layer %s of %s, version %s, with status %d", w.Hostname,
			bad.Layer, whose, bad.Version, bad.ExitCode)
		f.Remedy = fmt.Sprintf("read the log of the layer in %s on the machine, fix what it reports, then resume: layers that succeeded are not repeated", firstboot.Folder)
	}
	return f.About(details)
}

// bootRecord is what a machine records about one layer of its first boot.
type bootRecord struct {
	Layer    string `json:"layer"`
	Version  string `json:"version"`
	State    string `json:"state"`
	ExitCode int    `json:"exit_code"`
	Step     string `json:"step"`
	Reason   string `json:"reason"`
}

type bootRecords []bootRecord

// failure returns the layer at which the first boot stopped, or nil.
func (r bootRecords) failure() *bootRecord {
	for i := range r {
		if r[i].State == "failed" {
			return &r[i]
		}
	}
	return nil
}

// tell adds what is worth knowing. What a program of the site printed is theirs
// and may be anything.
func (r bootRecords) tell(details map[string]any) {
	layers := map[string]string{}
	for _, l := range r {
		layers[l.Layer] = l.State
	}
	details["first_boot_layers"] = layers
	bad := r.failure()
	if bad == nil {
		return
	}
	details["first_boot_layer"], details["first_boot_version"], details["first_boot_status"] = bad.Layer, bad.Version,
		bad.ExitCode
	if bad.Layer != firstboot.SiteBundleLayer {
		details["first_boot_step"], details["first_boot_reason"] = bad.Step, bad.Reason
	}
}

// firstBootOf asks the machine how its first boot went, and makes it repeat
// what did not succeed.
func (b *Bringup) firstBootOf(ctx context.Context, w *Work, m maas.Machine, repeat bool) (bootRecords, error) {
	c, err := b.reach(ctx, w, m)
	if err != nil {
		return nil, err
	}
	defer b.hangUp(ctx, w, c)
	text, err := c.Run(ctx, readFirstBoot, redact.Secret{})
	if err != nil {
		return nil, unreached(w, err)
	}
	found := parseRecords(text)
	if repeat {
		if err := tell(ctx, w, c, redact.Secret{}, repeatFirstBoot); err != nil {
			return found, err
		}
	}
	return found, w.Save(ctx)
}

// enrolmentToken matches tokens that a bootstrap may print when it fails.
var enrolmentToken = regexp.MustCompile(`gpuaas_n[A-Za-z0-9_-]+`)

// parseRecords reads what a machine said, line by line. It is text from outside:
// what cannot be read is left out, and what is read is bounded.
func parseRecords(text []byte) bootRecords {
	var out bootRecords
	for line := range bytes.Lines(text) {
		var r bootRecord
		if json.Unmarshal(line, &r) != nil || len(out) == 99 {
			continue
		}
		for _, field := range []*string{&r.Layer, &r.Version, &r.State, &r.Step, &r.Reason} {
			*field = maas.Shown(enrolmentToken.ReplaceAllString(*field, "…"))
		}
		out = append(out, r)
	}
	return out
}
