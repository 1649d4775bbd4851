package onboarding

import (
	"context"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/binding"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// hooks implements job.Hooks.
type hooks struct{ *Service }

var _ job.Hooks[Onboarding, *bringup.Work] = hooks{}

// Limits implements job.Hooks. If the profile is gone, it uses the default
// limits; the stage that needs the profile will fail by itself.
func (h hooks) Limits(ctx context.Context, o Onboarding) (job.Limits, error) {
	p, err := h.sites.Profile(ctx, o.Site, o.Profile)
	if fault.KindOf(err) == fault.NotFound {
		return bringup.Limits(site.DefaultPolicy()), nil
	}
	return bringup.Limits(p.Policy), err
}

// Work implements job.Hooks.
func (hooks) Work(o Onboarding, w job.Work) *bringup.Work { return o.Work(o.Node, w) }

// Equip implements job.Hooks.
func (h hooks) Equip(ctx context.Context, o Onboarding, w *bringup.Work) (job.Limits, error) {
	w.SKU, w.InitializeDisks = o.SKU, o.InitializeDisks
	var err error
	if w.Site, err = h.sites.Site(ctx, o.Site); err != nil {
		return nil, err
	}
	w.Profile, err = h.sites.Profile(ctx, o.Site, o.Profile)
	w.InitializeDisks = w.InitializeDisks || w.Profile.Policy.DataDisks == site.DisksInitialize
	return bringup.Limits(w.Profile.Policy), err
}

// Learn implements job.Hooks.
func (hooks) Learn(o Onboarding, w *bringup.Work) Onboarding {
	o.Facts = w.Facts
	return o
}

// Perform implements job.Hooks.
func (h hooks) Perform(ctx context.Context, _ Onboarding, stage string, w *bringup.Work) (job.Result, error) {
	if perform, own := catalog.Performer(stage); own {
		return perform(h, ctx, w)
	}
	run, ok := h.bringup.Stages()[stage]
	if !ok {
		return job.Result{}, fault.New(fault.Internal, "stage_unknown", "there is no stage %s", stage)
	}
	return run(ctx, w)
}

// Anew implements job.Hooks.
func (hooks) Anew(ctx context.Context, tx pgx.Tx, before Onboarding, w *bringup.Work) (*bringup.Work, error) {
	fresh := *w
	fresh.SystemID, fresh.PXEMAC, fresh.Facts = "", "", bringup.Facts{Left: w.Facts.Left, Asked: before.Facts.Asked}
	var err error
	fresh.Node, err = freshNode(ctx, tx, before)
	return &fresh, err
}

// Acting implements job.Hooks.
func (hooks) Acting(ctx context.Context, tx pgx.Tx, before Onboarding, a *job.Acted[Onboarding]) error {
	if a.Status != job.Running {
		return nil
	}
	fresh, err := freshNode(ctx, tx, before)
	if err != nil {
		return err
	}
	if fresh != before.Node {
		a.Row.Node, a.Row.Facts.NodeCreated = fresh, false
	}
	return nil
}

// freshNode returns the id of the node for a job that goes on. If the earlier
// node was removed from the inventory it is a new id, because ids are never
// reused.
func freshNode(ctx context.Context, tx pgx.Tx, o Onboarding) (id.Node, error) {
	n, err := node.Get(ctx, tx, o.Node)
	switch {
	case fault.KindOf(err) == fault.NotFound:
		return o.Node, nil
	case err != nil:
		return o.Node, err
	case n.Status == node.Deleted:
		return id.New[id.Node](), nil
	}
	return o.Node, nil
}

// Settle implements job.Hooks.
func (hooks) Settle(ctx context.Context, tx pgx.Tx, s job.Settled[Onboarding, *bringup.Work]) error {
	if !s.Complete {
		return nil
	}
	return complete(ctx, tx, s.Work, s.After)
}

// kinds maps announcements to the events of onboardings.
var kinds = map[job.Announced]eventwire.Type{
	job.AnnounceStarted: eventwire.NodeOnboardingStarted, job.AnnounceStage: eventwire.NodeOnboardingStage,
	job.AnnounceCompleted: eventwire.NodeOnboardingCompleted, job.AnnounceFailed: eventwire.NodeOnboardingFailed,
	job.AnnounceManual: eventwire.NodeOnboardingManual, job.AnnounceCancelled: eventwire.NodeOnboardingCancelled,
}

// Announce implements job.Hooks.
func (hooks) Announce(ctx context.Context, tx pgx.Tx, o Onboarding, a job.Announcement) error {
	return outbox.Append(ctx, tx, happening(kinds[a.Kind], o, a.Event))
}

func happening(kind eventwire.Type, o Onboarding, e job.Event) outbox.Event {
	payload := eventwire.Onboarding{
		OnboardingID: o.ID.String(), SiteID: o.Site.String(), NodeID: o.Node.String(), Hostname: o.Hostname,
		Status: string(o.Status),
		Stage:  e.Stage, Attempt: e.Attempt, Epoch: o.Epoch, StageStatus: string(e.Status),
		FailureClass: string(o.FailureClass), ErrorCode: o.ErrorCode,
		Message: e.Message, RecommendedAction: string(family.Recommended(o)),
	}
	if !o.Batch.IsZero() {
		payload.BatchID = o.Batch.String()
	}
	return outbox.Event{Type: kind, AggregateKind: "onboarding", AggregateID: o.ID.String(), Payload: payload}
}

// Claimed implements job.Hooks: another onboarding has claimed the machine, so
// this one lets go of it.
func (hooks) Claimed(err error, before Onboarding, w *bringup.Work) *job.Failure {
	if !postgres.Violates(err, job.ClaimTaken) {
		return nil
	}
	claimed := w.SystemID
	w.SystemID = before.SystemID
	return bringup.CodeMachineClaimed.Failed("machine %s of MAAS is being onboarded under another name already", claimed).
		With("find out which of the two the machine is; cancel the other onboarding, then rerun").ForGood().
		About(map[string]any{"system_id": claimed})
}

// complete adds the node to the fleet. A node becomes active only with an agent
// that has polled and, if required, a healthy hardware sync.
func complete(ctx context.Context, tx pgx.Tx, w *bringup.Work, o Onboarding) error {
	n, err := node.Get(ctx, tx, o.Node)
	if err != nil {
		return disagreeing(err)
	}
	healthy := w.Facts.SyncHealthy != nil &&
		(w.Facts.DeployedAt == nil || !w.Facts.SyncHealthy.Before(*w.Facts.DeployedAt))
	if void := bringup.IdentityVoid(n); void != nil {
		return void
	}
	switch {
	case w.SystemID == "":
		return codeMachineUnknown.Failed("which machine of MAAS %s is, is not known", n.Hostname).ForGood()
	case n.FirstPollAt == nil:
		return codeAgentNotSeen.Failed("the agent of node %s has not polled", n.Hostname).ForGood()
	case w.Profile.Policy.RequireHWSync && !healthy:
		return codeSyncUnproven.Failed("no healthy hardware sync of %s was seen since it was deployed", n.Hostname).ForGood()
	}
	if host := w.Facts.Host(); host != "" {
		if err := node.SetHost(ctx, tx, o.Node, host, "the address of the node became known"); err != nil {
			return disagreeing(err)
		}
	}
	if n.Status != node.Active {
		if w.Facts.Deploys > 0 && !w.Facts.Adopted { // and not adopted as somebody else installed it
			if err := node.Installed(ctx, tx, o.Node, "onboarding "+o.ID.String()); err != nil {
				return disagreeing(err)
			}
		}
		if _, err := node.Move(ctx, tx, o.Node, node.Enrolled, "its onboarding completed"); err != nil {
			return disagreeing(err)
		}
		if w.Facts.KeepsOut() {
			if _, err := node.Move(ctx, tx, o.Node, node.Quarantine, bringup.KeptOut); err != nil {
				return disagreeing(err)
			}
		}
	}
	return disagreeing(binding.Bind(ctx, tx, binding.Binding{
		Node: o.Node, Site: o.Site, Profile: o.Profile, SystemID: w.SystemID, IPMIIP: w.IPMIIP, PXEMAC: w.PXEMAC,
		Status: w.Observed.Status, Power: w.Observed.Power, IPs: w.Observed.IPs, SeenAt: w.Observed.SeenAt(),
		Installation: w.Facts.InstallationID(),
	}))
}

// disagreeing turns a refusal of another slice into a failure of the job. Other
// errors, such as an unreachable database, stay as they are and are retried.
func disagreeing(err error) error {
	switch fault.KindOf(err) {
	case fault.Conflict, fault.NotFound, fault.Invalid:
		f := bringup.Classify(err)
		f.Class, f.Final = bringup.StateAmbiguity, true
		return f
	case fault.Stale, fault.Ambiguous, fault.Unavailable, fault.RateLimited, fault.Internal, fault.Forbidden,
		fault.Unauthenticated:
	}
	return err
}
