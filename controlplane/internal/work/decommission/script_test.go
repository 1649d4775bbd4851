package decommission_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// scripted is what a stage does at its nth execution, from 1.
type scripted func(ctx context.Context, w *bringup.Work, n int) (job.Result, error)

// script plays the stages on machines of MAAS.
type script struct {
	db    *postgres.DB
	mu    sync.Mutex
	does  map[string]scripted
	calls []string
	// What a look shows is missing; nil: everything.
	installed, vacant func(w *bringup.Work) string
}

func (s *script) on(stage string, do scripted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.does[stage] = do
}

func (s *script) note(stage string) (do scripted, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, stage)
	for _, c := range s.calls {
		if c == stage {
			n++
		}
	}
	return s.does[stage], n
}

// machineStages are the stages that package bringup carries out.
var machineStages = slices.Sorted(maps.Keys(bringup.New(bringup.Config{}).Stages()))

func (s *script) Stages() map[string]bringup.Stage {
	out := map[string]bringup.Stage{}
	for _, stage := range machineStages {
		out[stage] = func(ctx context.Context, w *bringup.Work) (job.Result, error) {
			if do, n := s.note(stage); do != nil {
				return do(ctx, w, n)
			}
			return s.well(ctx, stage, w)
		}
	}
	return out
}

func (s *script) Adopt(ctx context.Context, w *bringup.Work) (job.Result, error) {
	if do, n := s.note("adopt"); do != nil {
		return do(ctx, w, n)
	}
	switch ended := w.Facts.Release != nil && w.Facts.Release.EndedAt != nil; {
	case !ended:
		return job.Result{Next: bringup.ReleaseMAASNode}, nil
	case w.Reimage:
		return job.Result{Next: bringup.ConfigureStorage}, nil
	}
	return job.Result{Next: bringup.PowerOffMAASNode}, nil
}

// powerCycle names what the script does when a machine is switched off and on.
const powerCycle = "power_cycle"

func (s *script) PowerCycle(ctx context.Context, w *bringup.Work, stage string) error {
	if w.Facts.PowerCycle.Of(stage, w.Epoch) && w.Facts.PowerCycle.OnAt != nil {
		return nil
	}
	if do, n := s.note(powerCycle); do != nil {
		_, err := do(ctx, w, n)
		return err
	}
	off := time.Now().UTC()
	on := off.Add(time.Minute)
	w.Facts.PowerCycle = &bringup.PowerCycleFacts{Stage: stage, Epoch: w.Epoch, OffAt: &off, OnAt: &on}
	return w.Save(ctx)
}

func (s *script) Compensate(ctx context.Context, w *bringup.Work) error {
	if do, n := s.note("compensate"); do != nil {
		_, err := do(ctx, w, n)
		return err
	}
	return nil
}

// released is a release that MAAS reports to have gone well.
func released(w *bringup.Work) bringup.ReleaseFacts {
	at := time.Now().UTC()
	return bringup.ReleaseFacts{
		Requested: w.Erase, Achieved: w.Erase, MinimumErase: "none", RequestedAt: &at,
		EndedAt: &at, Reported: []string{"Ready"},
	}
}

// well is a stage on a machine that nothing is wrong with.
func (s *script) well(ctx context.Context, stage string, w *bringup.Work) (job.Result, error) {
	now := time.Now().UTC()
	switch stage {
	case bringup.ReleaseMAASNode:
		f := released(w)
		w.Facts.Release, w.Observed = &f, bringup.Observed{Status: "Ready", Power: "off", At: now}
		return job.Result{Message: "released", Evidence: []job.Evidence{{Kind: bringup.EvidenceRelease, Value: f}}}, nil
	case bringup.PowerOffMAASNode:
		f := bringup.PowerFacts{State: "off", ObservedAt: now, Confirmed: true}
		w.Facts.PowerOff = &f
		return job.Result{Message: "off", Evidence: []job.Evidence{{Kind: bringup.EvidencePowerOff, Value: f}}}, nil
	case bringup.RenderCloudInit:
		return job.Result{Message: "rendered"}, s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
			_, err := node.Reimaged(ctx, tx, w.Node, w.WorkflowID, "reimage")
			return err
		})
	case bringup.DeployViaMAAS:
		w.Facts.Deploys++
	case bringup.WaitForDeployed:
		w.Facts.DeployedAt, w.Facts.Addresses = &now, []string{"10.20.0.9"}
		w.Observed = bringup.Observed{Status: "Deployed", Power: "on", IPs: []string{"10.20.0.9"}, At: now}
	case bringup.WaitForAgentEnrollment:
		_, err := s.db.Exec(ctx, `UPDATE nodes SET first_poll_at = clock_timestamp() WHERE id = $1`, w.Node)
		return job.Result{Message: "the agent polled"}, err
	}
	return job.Result{}, nil
}

// fails is a stage that fails the first times.
func (s *script) fails(times int, stage string, f job.Failure) {
	s.on(stage, func(ctx context.Context, w *bringup.Work, n int) (job.Result, error) {
		if n <= times {
			return job.Result{}, &f
		}
		return s.well(ctx, stage, w)
	})
}

const always = 1 << 30

func failure(class job.FailureClass, code string) job.Failure {
	return job.Failure{Class: class, Code: job.CodeNamed(code), Message: "it does not work", Remedy: "mend it"}
}
