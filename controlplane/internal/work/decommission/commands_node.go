package decommission

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// inNode changes the node of an operation in a transaction that checks the
// fence.
func (s *Service) inNode(ctx context.Context, d Decommission, w *bringup.Work,
	change func(ctx context.Context, tx pgx.Tx, n node.Node) error,
) error {
	return disagreeing(s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := w.FenceIn(ctx, tx); err != nil {
			return err
		}
		n, err := node.Lock(ctx, tx, d.Node)
		if err != nil {
			return err
		}
		return change(ctx, tx, n)
	}))
}

// disagreeing turns a refusal of the inventory into a failure of the job. Other
// errors, such as an unreachable database, stay as they are and are retried.
func disagreeing(err error) error {
	switch fault.KindOf(err) {
	case fault.Conflict, fault.NotFound, fault.Invalid:
		if fault.CodeOf(err) == durable.CodeSuperseded {
			return err
		}
		f := bringup.Classify(err)
		f.Class, f.Final = bringup.StateAmbiguity, true
		return f
	case fault.Stale, fault.Ambiguous, fault.Unavailable, fault.RateLimited, fault.Internal, fault.Forbidden,
		fault.Unauthenticated:
	}
	return err
}

// hold takes the hold on the node for the operation. It takes over the hold of
// an operation that has ended.
func (s *Service) hold(ctx context.Context, tx pgx.Tx, d Decommission, n node.Node) (node.Node, error) {
	_, of, _ := strings.Cut(n.HeldBy, " ")
	other, err := id.Parse[id.Decommission](of)
	if err != nil || n.HeldBy != holderOf(other) || other == d.ID {
		return node.Hold(ctx, tx, d.Node, d.holder(), d.cause()) // the error says who holds it
	}
	before, err := s.rows.Of(ctx, tx, []string{other.String()})
	if err != nil {
		return node.Node{}, err
	}
	if len(before) == 0 || before[0].CompletedAt == nil {
		return node.Hold(ctx, tx, d.Node, d.holder(), d.cause())
	}
	return node.TakeOver(ctx, tx, d.Node, n.HeldBy, d.holder(), d.cause())
}

func (d Decommission) cause() string { return fmt.Sprintf("%s, %s", d.holder(), d.Mode) }

func skipped(why string) job.Result {
	return job.Result{Skipped: true, Message: why, Evidence: []job.Evidence{{
		Kind:  EvidenceNotApplicable,
		Value: map[string]any{"why": why},
	}}}
}

// emptied says whether somebody else already released a machine that the
// operation was to release. Then there is no agent to wait for.
func (s *Service) emptied(ctx context.Context, d Decommission, w *bringup.Work) (bool, error) {
	if !d.Mode.releases() || w.SystemID == "" {
		return false, nil
	}
	n, err := s.nodes.Node(ctx, d.Node)
	if err != nil || n.LastContactAt != nil && s.now().Sub(*n.LastContactAt) < time.Minute {
		return false, err
	}
	missing, err := s.bringup.ProveVacant(ctx, w)
	return err == nil && missing == "" && w.Observed.Status != bringup.Absent, err
}

// foundUnclean is the prefix of the cause of a quarantine that a validation
// made.
const foundUnclean = "a validation found it unclean: "

// ofValidation says whether a failed validation quarantined the node. A later
// clean validation lifts only such a quarantine.
func ofValidation(q node.Quarantining) bool {
	return !q.ByPerson && strings.HasPrefix(q.Cause, foundUnclean)
}

// quarantinedBefore marks the cause of a quarantine that outlasts an operation.
const quarantinedBefore = "it was quarantined before: "

// keptBy returns why a reimage keeps the quarantine that it found: a person
// made it. It returns "" if there was none or if the reimage lifts it, because
// findings about the old installation no longer apply.
func (d Decommission) keptBy(q node.Quarantining) string {
	ofPerson := q.ByPerson || strings.Contains(q.Cause, quarantinedBefore)
	if d.Mode != Reimage || d.Origin != node.Quarantined || !ofPerson {
		return ""
	}
	if _, why, kept := strings.Cut(q.Cause, quarantinedBefore); kept {
		return why
	}
	return or(q.Cause, "nobody said why")
}

// quarantinedStill returns why the node stays quarantined after the operation
// has reached its goal, or "" if it does not.
func (s *Service) quarantinedStill(ctx context.Context, d Decommission) (why string, err error) {
	err = s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		n, err := node.Get(ctx, tx, d.Node)
		if err != nil || n.Status != node.Quarantined && d.Origin != node.Quarantined {
			return err
		}
		q, err := node.LastQuarantined(ctx, tx, d.Node)
		if err == nil && n.Status != node.Quarantined {
			why = d.keptBy(q)
			return nil
		}
		if err == nil && !ofValidation(q) {
			why = or(q.Cause, "nobody said why")
		}
		return err
	})
	return why, err
}
