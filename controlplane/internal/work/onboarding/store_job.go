package onboarding

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
	"gpuaas/controlplane/internal/work/onboarding/internal/onboardingdb"
)

// rowStore keeps the rows and ledgers of onboardings for package job.
type rowStore struct{ reads *onboardingdb.Queries }

var _ job.Store[Onboarding, *bringup.Work] = rowStore{}

func parsed(of string) (id.Onboarding, error) {
	o, err := id.Parse[id.Onboarding](of)
	if err != nil {
		return o, fault.Wrap(err, fault.Internal, "onboarding_id_malformed", "%q is not the id of an onboarding", of)
	}
	return o, nil
}

// expected is a row that a call expects to be so; pgx.ErrNoRows stays what it is.
func expected(r onboardingdb.NodeOnboarding, err error) (Onboarding, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return Onboarding{}, err
	}
	return found(r, err)
}

// Get implements job.Store.
func (s rowStore) Get(ctx context.Context, of string) (Onboarding, error) {
	o, err := parsed(of)
	if err != nil {
		return Onboarding{}, err
	}
	r, err := s.reads.Get(ctx, o)
	return found(r, err)
}

// Latest implements job.Store.
func (s rowStore) Latest(ctx context.Context, of string, limit int32) ([]job.Event, error) {
	o, err := parsed(of)
	if err != nil {
		return nil, err
	}
	events, err := s.reads.LatestEvents(ctx, onboardingdb.LatestEventsParams{OnboardingID: o, Limit: limit})
	return ledger(events, err)
}

// Unfinished implements job.Store.
func (s rowStore) Unfinished(ctx context.Context, of string, epoch int64, stage string) (bool, error) {
	o, err := parsed(of)
	if err != nil {
		return false, err
	}
	return s.reads.Unfinished(ctx, onboardingdb.UnfinishedParams{OnboardingID: o, Epoch: epoch, Stage: stage})
}

// Fence implements job.Store.
func (s rowStore) Fence(ctx context.Context, of string, epoch int64, token time.Time) (bool, error) {
	o, err := parsed(of)
	if err != nil {
		return false, err
	}
	return s.reads.Fence(ctx, onboardingdb.FenceParams{ID: o, Epoch: epoch, Token: token})
}

// Begin implements job.Store.
func (s rowStore) Begin(ctx context.Context, b job.Begun) (Onboarding, error) {
	o, err := parsed(b.Job)
	if err != nil {
		return Onboarding{}, err
	}
	r, err := s.reads.BeginStage(ctx, onboardingdb.BeginStageParams{
		ID: o, Epoch: b.Epoch, Stage: b.Stage, Attempt: int32(b.Attempt), WorkflowRunID: b.Run, Chained: b.Chained, Now: b.Now, //nolint:gosec // attempts are few
	})
	return expected(r, err)
}

// Save implements job.Store.
func (s rowStore) Save(ctx context.Context, b job.Saved[*bringup.Work]) (time.Time, error) {
	o, err := parsed(b.Job)
	if err != nil {
		return time.Time{}, err
	}
	w := b.Work
	facts, err := w.Facts.Encode()
	if err != nil {
		return time.Time{}, err
	}
	return s.reads.Save(ctx, onboardingdb.SaveParams{
		ID: o, Epoch: b.Epoch, Token: b.Token, MaasSystemID: w.SystemID, PxeMac: w.PXEMAC, Facts: facts, ObservedStatus: w.Observed.Status,
		ObservedPower: w.Observed.Power, ObservedIps: w.Observed.Addresses(), ObservedAt: w.Observed.SeenAt(),
	})
}

// Lock implements job.Store.
func (rowStore) Lock(ctx context.Context, tx pgx.Tx, of string) (Onboarding, error) {
	o, err := parsed(of)
	if err != nil {
		return Onboarding{}, err
	}
	r, err := onboardingdb.New(tx).Lock(ctx, o)
	return found(r, err)
}

// Start implements job.Store.
func (rowStore) Start(ctx context.Context, tx pgx.Tx, of, run string, now time.Time) (Onboarding, error) {
	o, err := parsed(of)
	if err != nil {
		return Onboarding{}, err
	}
	r, err := onboardingdb.New(tx).Start(ctx, onboardingdb.StartParams{ID: o, StartedAt: &now, WorkflowRunID: run})
	return expected(r, err)
}

// End implements job.Store.
func (rowStore) End(ctx context.Context, tx pgx.Tx, e job.Ended[*bringup.Work]) (Onboarding, error) {
	o, err := parsed(e.Job)
	if err != nil {
		return Onboarding{}, err
	}
	w := e.Work
	facts, err := w.Facts.Encode()
	if err != nil {
		return Onboarding{}, err
	}
	r, err := onboardingdb.New(tx).EndStage(ctx, onboardingdb.EndStageParams{
		ID: o, Epoch: e.Epoch, Token: e.Token, Attempt: int32(e.Told.Attempt), Now: e.Now, //nolint:gosec // attempts are few
		MaasSystemID: w.SystemID, PxeMac: w.PXEMAC, Facts: facts, NodeID: w.Node, ObservedStatus: w.Observed.Status,
		ObservedPower: w.Observed.Power, ObservedIps: w.Observed.Addresses(), ObservedAt: w.Observed.SeenAt(),
		Status: string(e.Status), NextStage: e.NextStage, NextAttempt: int32(e.NextAttempt), SameStage: e.SameStage, //nolint:gosec // attempts are few
		Action: string(e.Action), Adopted: e.Adopted,
		FailureClass: string(e.Trouble.Class), ErrorCode: e.Trouble.Code, ErrorMessage: e.Trouble.Message, ErrorRemedy: e.Trouble.Remedy,
		ErrorDetails: e.Trouble.Details, ParkedAt: e.Trouble.ParkedAt, CompletedAt: e.CompletedAt,
		ToldStage: e.Told.Stage, ToldStatus: string(e.Told.Status), ToldMessage: e.Told.Message, ToldDetails: e.Told.Details,
	})
	return expected(r, err)
}

// Act implements job.Store.
func (rowStore) Act(ctx context.Context, tx pgx.Tx, a job.Acted[Onboarding]) (Onboarding, error) {
	o, err := parsed(a.Job)
	if err != nil {
		return Onboarding{}, err
	}
	facts, err := a.Row.Facts.Encode()
	if err != nil {
		return Onboarding{}, err
	}
	r, err := onboardingdb.New(tx).Act(ctx, onboardingdb.ActParams{
		ID: o, Status: string(a.Status), CurrentStage: a.Stage, Action: string(a.Action), NodeID: a.Row.Node, Facts: facts,
		FailureClass: string(a.Trouble.Class), ErrorCode: a.Trouble.Code, ErrorMessage: a.Trouble.Message, ErrorRemedy: a.Trouble.Remedy,
		ErrorDetails: a.Trouble.Details, ParkedAt: a.Trouble.ParkedAt, CompletedAt: a.CompletedAt,
	})
	return found(r, err)
}

// Noticed implements job.Store.
func (rowStore) Noticed(ctx context.Context, tx pgx.Tx, of, seen string) (bool, error) {
	o, err := parsed(of)
	if err != nil {
		return false, err
	}
	noticed, err := onboardingdb.New(tx).Noticed(ctx, onboardingdb.NoticedParams{OnboardingID: o, Message: seen})
	if err != nil {
		return false, fmt.Errorf("read what was observed about onboarding: %w", err)
	}
	return noticed, nil
}

// Note implements job.Store.
func (rowStore) Note(ctx context.Context, tx pgx.Tx, of string, e job.Event) error {
	o, err := parsed(of)
	if err != nil {
		return err
	}
	err = onboardingdb.New(tx).InsertEvent(ctx, onboardingdb.InsertEventParams{
		OnboardingID: o, Epoch: e.Epoch, Stage: e.Stage, Attempt: int32(e.Attempt), Status: string(e.Status), //nolint:gosec // attempts are few
		Message: e.Message, Details: e.Details, OccurredAt: e.OccurredAt,
	})
	if err != nil {
		return fmt.Errorf("insert event of onboarding: %w", err)
	}
	return nil
}
