package decommission

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/decommission/internal/decommissiondb"
	"gpuaas/controlplane/internal/work/job"
)

// Act carries out an operator's action.
func (s *Service) Act(ctx context.Context, of id.Decommission, action job.Trigger, reason string) (Decommission,
	error,
) {
	return s.runner.Act(ctx, of.String(), action, reason)
}

// Override goes on without the stage that failed, and without the later stages
// in also. The operation and its certificate keep the residual risk.
func (s *Service) Override(ctx context.Context, of id.Decommission, stage, reason, risk string, also ...string) (
	Decommission, error,
) {
	if risk = strings.TrimSpace(risk); risk == "" {
		return Decommission{}, fault.New(fault.Invalid, "residual_risk_missing",
			"say what risk remains if the stage is skipped; the certificate states it")
	}
	stages := append([]string{stage}, also...)
	return s.runner.Act(ctx, of.String(), job.RetryStage, reason, job.Besides[Decommission]{
		Verb: "override", Metadata: map[string]any{"override": strings.Join(stages, ","), "residual_risk": risk},
		Done: func(before Decommission) bool {
			return !slices.ContainsFunc(stages, func(name string) bool { return before.overridden(name) == nil })
		},
		Within: func(ctx context.Context, tx pgx.Tx, before Decommission, _ *job.Acted[Decommission]) error {
			made := make([]Override, len(stages))
			for i, name := range stages {
				if err := overridable(before, name, i > 0); err != nil {
					return err
				}
				made[i] = Override{
					Stage: name, Reason: reason, ResidualRisk: risk, Actor: named(auth.From(ctx).Name, auth.From(ctx).ID),
					At: s.now().UTC(), Epoch: before.Epoch + 1,
				}
			}
			raw, err := json.Marshal(made)
			if err != nil {
				return fmt.Errorf("encode override: %w", err)
			}
			if err := decommissiondb.New(tx).AddOverride(ctx, decommissiondb.AddOverrideParams{
				JobID: before.ID, Override: raw,
			}); err != nil {
				return fmt.Errorf("keep override: %w", err)
			}
			return nil
		},
	})
}

// overridable refuses to skip stages that must run: a node never returns to
// service without proof, and a machine that was not released cannot be
// reinstalled. ahead says that the operation has not reached the stage yet.
func overridable(d Decommission, stage string, ahead bool) error {
	s, known := tables[d.Mode].Of(stage)
	number, _ := tables[d.Mode].Number(stage)
	now, _ := tables[d.Mode].Number(d.Stage)
	switch {
	case !ahead && stage != d.Stage, ahead && known && number <= now:
		return fault.New(fault.Conflict, "override_of_other_stage", "the operation stands at %s, not at %s", d.Stage, stage).
			WithRemedy("override the stage that failed, and with it only stages that come later")
	case !known || !s.Overridable, d.Mode.returns() && stage == stageRelease:
		return fault.New(fault.Conflict, "stage_not_overridable", "%s cannot go on without %s", d.Mode, stage).
			WithRemedy("fix what failed and retry; or cancel")
	}
	return nil
}

// alsoWithout returns the later stages that will fail for the same reason as
// the current one: the agent does not answer, and only the installation that is
// about to be erased could run them.
func alsoWithout(d Decommission) (out []string) {
	if d.FailureClass != bringup.NodeAgentUnreachable || !d.Mode.releases() {
		return nil
	}
	for _, stage := range beforeRelease {
		if overridable(d, stage, true) == nil {
			out = append(out, stage)
		}
	}
	return out
}

// parkedOf returns the parked decommissions of a batch.
func (s *Service) parkedOf(ctx context.Context, batch id.JobBatch) ([]Decommission, error) {
	of := id.DecommissionBatch(batch)
	if _, err := s.Batch(ctx, of); err != nil {
		return nil, err
	}
	return s.List(ctx, Filter{Batch: of, Statuses: job.Parking.In(job.Parked)},
		postgres.Slice[id.Decommission]{Limit: MaxBatch})
}
