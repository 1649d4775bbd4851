package decommission

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/binding"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/decommission/internal/decommissiondb"
	"gpuaas/controlplane/internal/work/job"
)

// hooks implements job.Hooks.
type hooks struct{ *Service }

// Limits implements job.Hooks. A node that is not a machine of MAAS gets the
// default limits.
func (h hooks) Limits(ctx context.Context, d Decommission) (job.Limits, error) {
	if d.Site.IsZero() {
		return bringup.Limits(site.DefaultPolicy()), nil
	}
	p, err := h.sites.Profile(ctx, d.Site, d.Profile)
	if fault.KindOf(err) == fault.NotFound {
		return bringup.Limits(site.DefaultPolicy()), nil
	}
	return bringup.Limits(p.Policy), err
}

// Work implements job.Hooks.
func (h hooks) Work(d Decommission, w job.Work) *bringup.Work { return d.Work(d.Node, w) }

// Learn implements job.Hooks.
func (h hooks) Learn(d Decommission, w *bringup.Work) Decommission {
	d.Facts = w.Facts
	return d
}

// Equip implements job.Hooks.
func (h hooks) Equip(ctx context.Context, d Decommission, w *bringup.Work) (job.Limits, error) {
	err := h.equip(ctx, d, w)
	return bringup.Limits(w.Profile.Policy), err
}

func (h hooks) equip(ctx context.Context, d Decommission, w *bringup.Work) error {
	w.Erase, w.Reimage = string(d.Erase), d.Mode == Reimage
	w.Profile.Policy = site.DefaultPolicy()
	if d.Site.IsZero() {
		return nil
	}
	var err error
	if w.Site, err = h.sites.Site(ctx, d.Site); err != nil {
		return err
	}
	if w.Profile, err = h.sites.Profile(ctx, d.Site, d.Profile); err != nil {
		return err
	}
	_, ofMachine := h.bringup.Stages()[d.Stage]
	if !ofMachine && d.Stage != StageScrub && d.Stage != StageScrubAgain { // the scrub may power-cycle the machine
		return nil
	}
	n, err := h.nodes.Node(ctx, d.Node)
	if err != nil {
		return err
	}
	w.SKU = n.SKU
	prior, err := h.prior(ctx, d.Node)
	for _, p := range prior {
		w.Prior = append(w.Prior, p.id)
	}
	w.BlankBefore = blankAtJoin(prior)
	w.InitializeDisks = w.Reimage && (initializes(prior) || w.Profile.Policy.DataDisks == site.DisksInitialize)
	return err
}

func (s *Service) prior(ctx context.Context, of id.Node) ([]priorJob, error) {
	list, err := s.reads.PriorJobs(ctx, of)
	if err != nil {
		return nil, fmt.Errorf("list earlier jobs of node: %w", err)
	}
	out := make([]priorJob, len(list))
	for i, r := range list {
		out[i] = priorJob{kind: r.Kind, id: r.ID, initializesDisks: r.InitializeDisks}
		if err := json.Unmarshal(r.BlankDisks, &out[i].blankDisks); err != nil {
			return nil, fmt.Errorf("decode blank disks of node: %w", err)
		}
	}
	return out, nil
}

// holds returns the decision if it still holds. A decision made because the
// agent was gone ends when the agent calls again, because then the agent can
// clean.
func (h hooks) holds(ctx context.Context, d Decommission, o *Override) (*Override, error) {
	if o == nil || !o.AgentGone {
		return o, nil
	}
	n, err := h.nodes.Node(ctx, d.Node)
	if err != nil || n.LastContactAt != nil && n.LastContactAt.After(o.At) {
		return nil, err
	}
	return o, nil
}

// Perform implements job.Hooks.
func (h hooks) Perform(ctx context.Context, d Decommission, stage string, w *bringup.Work) (job.Result, error) {
	o, err := h.holds(ctx, d, d.overridden(stage))
	if err != nil {
		return job.Result{}, err
	}
	if o != nil && stage != StageRemove {
		if err := w.Fence(ctx); err != nil { // without the fence this would stop tasks of the next epoch
			return job.Result{}, err
		}
		if err := h.tasks.CancelOf(ctx, d.Node, d.WorkflowID, "an operator decided to go on without it"); err != nil {
			return job.Result{}, err
		}
		return job.Result{
			Skipped: true, Message: fmt.Sprintf("gone on without it by decision of %s: %s; residual risk: %s", o.Actor, o.Reason,
				o.ResidualRisk),
			Evidence: []job.Evidence{{Kind: EvidenceOverride, Value: o}},
		}, nil
	}
	if released(w) {
		n, err := h.nodes.Node(ctx, d.Node)
		if err != nil {
			return job.Result{}, err
		}
		_, ofMachine := h.bringup.Stages()[stage]
		switch anew := d.installed(w, n); {
		case anew && ofMachine:
			return job.Result{Skipped: true, Message: "the machine was reinstalled by this operation, and its agent has come"}, nil
		case !anew && slices.Contains(beforeRelease, stage), stage == stageRelease && d.Mode != Reimage:
			return skipped("the installation is gone: the machine was released by this operation before"), nil
		}
	}
	if slices.Contains(beforeRelease, stage) {
		gone, err := h.emptied(ctx, d, w)
		if gone {
			err = h.tasks.CancelOf(ctx, d.Node, d.WorkflowID, "the machine was released, and nobody will fetch it")
		}
		if err != nil || gone {
			return skipped(fmt.Sprintf("MAAS shows the machine as %s and off, and its agent is silent: somebody else released it, and there is nobody to ask", w.Observed.Status)), err
		}
	}
	if d.Mode == Reactivate || onceMore[stage] != "" {
		n, err := h.nodes.Node(ctx, d.Node)
		if err != nil {
			return job.Result{}, err
		}
		if spared, err := h.spared(ctx, d, stage, n); err != nil || spared {
			return skipped(whySpared[d.Mode]), err
		}
	}
	if perform, own := catalog.Performer(stage); own {
		if doubted, err := h.afterRoot(ctx, d, stage); err != nil {
			return job.Result{}, err
		} else if doubted {
			return h.tryOldAgent(ctx, d, stage, w, perform)
		}
		return perform(h, ctx, d, w)
	}
	return h.onMachine(ctx, d, stage, w)
}

// beforeRelease are the stages that need the old installation. Once the machine
// is released that installation is gone, so a second pass skips them.
var beforeRelease = []string{StageDrain, StageStorage, StageScrub}

// installed says whether this operation has already reinstalled the node. A
// second pass cleans that installation and does not install again.
func (d Decommission) installed(w *bringup.Work, n node.Node) bool {
	return d.Mode == Reimage && released(w) && w.Facts.DeployedAt != nil && n.Status.Is(node.Steady)
}

// released says whether this operation has released the machine.
func released(w *bringup.Work) bool { return w.Facts.Release != nil && w.Facts.Release.EndedAt != nil }

// onMachine runs a stage of bringup. It skips the stage if the node is not a
// machine of MAAS.
func (h hooks) onMachine(ctx context.Context, d Decommission, stage string, w *bringup.Work) (job.Result, error) {
	if !d.managed() {
		return skipped(d.Hostname + " is not a MAAS machine"), nil
	}
	run, known := h.bringup.Stages()[stage]
	if !known {
		return job.Result{}, fault.New(fault.Internal, "stage_unknown", "there is no stage %s", stage)
	}
	return run(ctx, w)
}

// Anew implements job.Hooks. A restart keeps the machine, the node, and what
// cannot be undone.
func (h hooks) Anew(_ context.Context, _ pgx.Tx, before Decommission, w *bringup.Work) (*bringup.Work, error) {
	fresh := *w
	fresh.SystemID, fresh.PXEMAC = before.SystemID, before.PXEMAC
	fresh.Facts = bringup.Facts{
		Release: before.Facts.Release, Left: before.Facts.Left, Asked: before.Facts.Asked,
	}
	return &fresh, nil
}

// Acting implements job.Hooks. It refuses to end an operation whose node is
// deleted: the node's secrets and record would stay, and nobody would know.
func (h hooks) Acting(ctx context.Context, tx pgx.Tx, before Decommission, a *job.Acted[Decommission]) error {
	if !slices.Contains(endings, a.Action) {
		return nil
	}
	n, err := node.Get(ctx, tx, before.Node)
	if err != nil || n.Status != node.Deleted {
		return err
	}
	return fault.New(fault.Conflict, "node_deleted", "%s is out of the inventory: what belongs to that is seen through",
		before.Hostname).
		WithRemedy("fix what failed, and resume or retry")
}

// Claimed implements job.Hooks. Decommissions claim nothing while they run.
func (h hooks) Claimed(error, Decommission, *bringup.Work) *job.Failure { return nil }

// Settle implements job.Hooks: it stores the evidence of the attempt, updates
// the node, and ends the operation.
func (h hooks) Settle(ctx context.Context, tx pgx.Tx, s job.Settled[Decommission, *bringup.Work]) error {
	for _, e := range s.Result.Evidence {
		if err := h.keep(ctx, tx, s, e); err != nil {
			return err
		}
	}
	if err := h.left(ctx, tx, s); err != nil {
		return err
	}
	if s.Stage == StageValidate {
		if err := h.validated(ctx, tx, s); err != nil {
			return err
		}
	}
	if err := h.vacated(ctx, tx, s); err != nil {
		return err
	}
	if s.Stage == bringup.WaitForAgentEnrollment && s.Failure == nil {
		if err := h.reenrolled(ctx, tx, s); err != nil {
			return err
		}
	}
	if s.Stage == StageRemove && s.Failure == nil {
		if err := disagreeing(h.deleted(ctx, tx, s.Before)); err != nil {
			return err
		}
	}
	if !s.Complete {
		return nil
	}
	if err := h.noteOutcome(ctx, tx, s.After); err != nil {
		return err
	}
	return disagreeing(h.complete(ctx, tx, s.After))
}

// noteOutcome stores whether everything that was requested was done, judged by
// the row and the evidence as they are now.
func (h hooks) noteOutcome(ctx context.Context, tx pgx.Tx, d Decommission) error {
	rows, err := h.rows.Of(ctx, tx, []string{d.ID.String()})
	if err != nil {
		return err
	}
	q := decommissiondb.New(tx)
	evidence, err := evidenceOf(ctx, q, d.ID)
	if err != nil {
		return err
	}
	n, err := node.Get(ctx, tx, d.Node)
	if err != nil {
		return err
	}
	for _, now := range rows {
		outcome, err := outcomeOf(now, n, evidence)
		if err != nil {
			return err
		}
		if err := q.SetOutcome(ctx, decommissiondb.SetOutcomeParams{JobID: d.ID, Outcome: string(outcome)}); err != nil {
			return fmt.Errorf("keep outcome: %w", err)
		}
	}
	return nil
}

func (h hooks) keep(ctx context.Context, tx pgx.Tx, s job.Settled[Decommission, *bringup.Work], e job.Evidence) error {
	raw, err := json.Marshal(e.Value)
	if err != nil {
		return fmt.Errorf("encode evidence: %w", err)
	}
	err = decommissiondb.New(tx).InsertEvidence(ctx, decommissiondb.InsertEvidenceParams{
		DecommissionID: s.Before.ID, Stage: s.Stage, Epoch: s.Told.Epoch, Kind: e.Kind, Evidence: raw,
		Attempt: int32(s.Told.Attempt), RecordedAt: h.now(), //nolint:gosec // attempts are few
	})
	if err != nil {
		return fmt.Errorf("keep evidence: %w", err)
	}
	return nil
}

// left stores the follow-ups of the stage. They replace the earlier ones of
// this stage, unless the attempt failed and reported none.
func (h hooks) left(ctx context.Context, tx pgx.Tx, s job.Settled[Decommission, *bringup.Work]) error {
	list := []FollowUp{}
	for _, e := range s.Result.Evidence {
		if open, ok := e.Value.(bringup.FollowUp); ok {
			list = append(list, FollowUp{
				What: open.What, Why: open.Why, Command: open.Command, Stage: s.Stage,
				At: h.now().UTC(),
			})
		}
	}
	before := slices.ContainsFunc(s.Before.FollowUps, func(f FollowUp) bool { return f.Stage == s.Stage })
	if done := before && s.Failure == nil; len(list) == 0 && !done {
		return nil
	}
	raw, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("encode follow-ups: %w", err)
	}
	if err := decommissiondb.New(tx).SetFollowUps(ctx,
		decommissiondb.SetFollowUpsParams{JobID: s.Before.ID, Stage: s.Stage, FollowUps: raw}); err != nil {
		return fmt.Errorf("keep follow-ups: %w", err)
	}
	return nil
}

// validated records the result of a validation. A node that is not clean leaves
// service until it is.
func (h hooks) validated(ctx context.Context, tx pgx.Tx, s job.Settled[Decommission, *bringup.Work]) error {
	d := s.Before
	if s.Failure == nil {
		at, ok := askedAt(s.Result)
		if !ok {
			return nil
		}
		n, err := node.Lock(ctx, tx, d.Node)
		if err != nil || !d.Mode.proves(n) {
			return disagreeing(err)
		}
		if a := d.accepts(); a != nil {
			if _, err := node.AcceptRoot(ctx, tx, d.Node, *a.RootAt, a.ResidualRisk, a.Actor, d.cause()); err != nil {
				return disagreeing(err)
			}
		}
		_, err = node.NoteClean(ctx, tx, d.Node, at, d.cause())
		return disagreeing(err)
	}
	if s.Failure.Code != codeResidue && s.Failure.Code != codeRootResidue {
		return nil
	}
	taint := node.Taint
	if s.Failure.Code == codeRootResidue {
		taint = func(ctx context.Context, tx pgx.Tx, of id.Node, cause string) error {
			return node.TaintRoot(ctx, tx, of, node.RootFound, cause)
		}
	}
	if err := taint(ctx, tx, d.Node, s.Failure.Message); err != nil {
		return err
	}
	n, err := node.Get(ctx, tx, d.Node)
	if err != nil || !n.Status.Is(node.Serving) {
		return err
	}
	_, err = node.Move(ctx, tx, d.Node, node.Quarantine, foundUnclean+s.Failure.Message)
	return err
}

// vacated clears the known installation of the node once MAAS was asked to
// release the machine. It stays cleared until the node enrols again; otherwise
// reconciliation would mistake the next installation for somebody else's.
func (h hooks) vacated(ctx context.Context, tx pgx.Tx, s job.Settled[Decommission, *bringup.Work]) error {
	f := s.Work.Facts.Release
	if f == nil || f.RequestedAt == nil && f.EndedAt == nil {
		return nil
	}
	d := s.Before
	bound, err := binding.OfNode(ctx, tx, d.Node)
	if fault.KindOf(err) == fault.NotFound || err == nil && bound.Installation == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	n, err := node.Lock(ctx, tx, d.Node)
	if err != nil || d.installed(s.Work, n) {
		return err
	}
	return binding.Rebase(ctx, tx, d.Node, 0)
}

// reenrolled takes a reinstalled node back into the fleet. The node stays held
// until it is proven clean.
func (h hooks) reenrolled(ctx context.Context, tx pgx.Tx, s job.Settled[Decommission, *bringup.Work]) error {
	d := s.Before
	n, err := node.Get(ctx, tx, d.Node)
	if err != nil {
		return err
	}
	if n.Status == node.Enrolling {
		if s.Work.Facts.Deploys > 0 && !s.Work.Facts.Adopted { // and not adopted as somebody else installed it
			if err := node.Installed(ctx, tx, d.Node, d.holder()); err != nil {
				return disagreeing(err)
			}
		}
		if i := s.Work.Facts.InstallationID(); i != 0 {
			if err := binding.Rebase(ctx, tx, d.Node, i); err != nil {
				return disagreeing(err)
			}
		}
		if _, err := node.Move(ctx, tx, d.Node, node.Enrolled, d.cause()); err != nil {
			return disagreeing(err)
		}
	}
	host := s.Work.Facts.Host()
	if host == "" {
		return nil
	}
	return disagreeing(node.SetHost(ctx, tx, d.Node, host, "the address of the node became known"))
}

// complete releases the hold on the node. The inventory does not return a node
// to scheduling that is not proven clean. A node that was quarantined for any
// other reason than being unclean stays quarantined.
func (h hooks) complete(ctx context.Context, tx pgx.Tx, d Decommission) error {
	if d.Mode == FullDecommission || d.Mode == Remove {
		return nil
	}
	if d.Mode == Reimage && d.managed() {
		if err := binding.SetProfile(ctx, tx, d.Node, d.Profile); err != nil {
			return err
		}
	}
	if d.Mode.returns() {
		n, err := node.Lock(ctx, tx, d.Node)
		if err != nil {
			return err
		}
		q, err := node.LastQuarantined(ctx, tx, d.Node)
		if err != nil {
			return err
		}
		switch serves := n.Status.Is(node.Serving); {
		case !d.Mode.proves(n) && serves:
			if _, err := node.KeepOut(ctx, tx, d.Node, d.cause()+" proves nothing about a tainted node"); err != nil {
				return err
			}
		case d.Facts.KeepsOut() && serves:
			if _, err := node.Move(ctx, tx, d.Node, node.Quarantine, bringup.KeptOut); err != nil {
				return err
			}
		case d.keptBy(q) != "" && serves:
			cause := fmt.Sprintf("%s reinstalled it; %s%s", d.cause(), quarantinedBefore, d.keptBy(q))
			if _, err := node.Move(ctx, tx, d.Node, node.Quarantine, cause); err != nil {
				return err
			}
		case d.Mode.proves(n) && n.Status == node.Quarantined && ofValidation(q):
			if _, err := node.Move(ctx, tx, d.Node, node.ReturnToService, d.cause()); err != nil {
				return err
			}
		}
	}
	_, err := node.Unhold(ctx, tx, d.Node, d.holder(), d.cause())
	return err
}
