package decommission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/decommission/internal/decommissiondb"
	"gpuaas/controlplane/internal/work/job"
)

func fromRow(r decommissiondb.NodeDecommission) (Decommission, error) {
	d := Decommission{
		ID: r.ID, Batch: r.BatchID, Mode: Mode(r.Mode), Erase: Erase(r.Erase), StorageCleanup: Cleanup(r.StorageCleanup),
		Reason: r.Reason, Requester: r.RequestedByName, PlanHash: r.PlanHash, Origin: node.Status(r.Origin),
		Job: job.Job{
			ID: r.ID.String(), Site: r.SiteID, Node: r.NodeID, Subject: r.Hostname,
			Status: job.Status(r.Status), Phase: job.Parking.PhaseOf(job.Status(r.Status)),
			Stage: r.CurrentStage, Attempt: int(r.CurrentAttempt), Takes: int(r.CurrentTakes), Epoch: r.Epoch,
			Action: job.Trigger(r.Action), Adopted: r.Adopted,
			FailureClass: job.FailureClass(r.FailureClass), ErrorCode: r.ErrorCode, ErrorMessage: r.ErrorMessage, ErrorRemedy: r.ErrorRemedy,
			ErrorDetails: r.ErrorDetails, WorkflowID: r.WorkflowID, WorkflowRunID: r.WorkflowRunID,
			RequestedBy: r.RequestedBy, CorrelationID: r.CorrelationID, RequestedAt: r.RequestedAt, AdmittedAt: r.AdmittedAt,
			StartedAt: r.StartedAt, StageStartedAt: r.StageStartedAt, ParkedAt: r.ParkedAt, CompletedAt: r.CompletedAt, UpdatedAt: r.UpdatedAt,
		},
		Machine: bringup.Machine{
			Profile: r.ProfileID, Hostname: r.Hostname, IPMIIP: r.IpmiIp, PXEMAC: r.PxeMac, SystemID: r.MaasSystemID,
			Observed:      bringup.Observed{Status: r.ObservedStatus, Power: r.ObservedPower, IPs: r.ObservedIps},
			ObservedSince: r.ObservedSince,
		},
	}
	if r.ObservedAt != nil {
		d.Observed.At = *r.ObservedAt
	}
	for _, field := range []struct {
		raw  json.RawMessage
		into any
	}{{r.Facts, &d.Facts}, {r.Overrides, &d.Overrides}, {r.FollowUps, &d.FollowUps}} {
		if err := json.Unmarshal(field.raw, field.into); err != nil {
			return d, fmt.Errorf("decode decommission %s: %w", r.ID, err)
		}
	}
	return d, nil
}

func found(r decommissiondb.NodeDecommission, err error) (Decommission, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return Decommission{}, fault.New(fault.NotFound, "decommission_not_found", "there is no such decommission").
			WithRemedy("list them with: gpuaas decommission list")
	}
	if err != nil {
		return Decommission{}, fmt.Errorf("read decommission: %w", err)
	}
	return fromRow(r)
}

// expected is a row that a call of the runner expects; one that is not there is
// the runner's to judge.
func expected(r decommissiondb.NodeDecommission, err error) (Decommission, error) {
	if err != nil {
		return Decommission{}, err //nolint:wrapcheck // pgx.ErrNoRows is what the runner goes by
	}
	return fromRow(r)
}

// rows implements job.Store.
type rows struct{ db *postgres.DB }

func (s rows) q() *decommissiondb.Queries { return decommissiondb.New(s.db) }

func parse(jobID string) (id.Decommission, error) {
	of, err := id.Parse[id.Decommission](jobID)
	if err != nil {
		return of, fault.Wrap(err, fault.Internal, "decommission_id_malformed", "%q is not the id of a decommission", jobID)
	}
	return of, nil
}

// Get implements job.Store.
func (s rows) Get(ctx context.Context, jobID string) (Decommission, error) {
	of, err := parse(jobID)
	if err != nil {
		return Decommission{}, err
	}
	r, err := s.q().Get(ctx, of)
	return found(r, err)
}

// Lock implements job.Store.
func (s rows) Lock(ctx context.Context, tx pgx.Tx, jobID string) (Decommission, error) {
	of, err := parse(jobID)
	if err != nil {
		return Decommission{}, err
	}
	r, err := decommissiondb.New(tx).Lock(ctx, of)
	return found(r, err)
}

// Latest implements job.Store.
func (s rows) Latest(ctx context.Context, jobID string, limit int32) ([]job.Event, error) {
	of, err := parse(jobID)
	if err != nil {
		return nil, err
	}
	r, err := s.q().LatestEvents(ctx, decommissiondb.LatestEventsParams{DecommissionID: of, Limit: limit})
	return ledger(r, err)
}

func ledger(list []decommissiondb.NodeDecommissionEvent, err error) ([]job.Event, error) {
	if err != nil {
		return nil, fmt.Errorf("read ledger of decommission: %w", err)
	}
	out := make([]job.Event, len(list))
	for i, r := range list {
		out[i] = job.Event{
			Seq: r.Seq, Epoch: r.Epoch, Stage: r.Stage, Attempt: int(r.Attempt), Status: job.EventStatus(r.Status),
			Message: r.Message, Details: r.Details, OccurredAt: r.OccurredAt,
		}
	}
	return out, nil
}

// Unfinished implements job.Store.
func (s rows) Unfinished(ctx context.Context, jobID string, epoch int64, stage string) (bool, error) {
	of, err := parse(jobID)
	if err != nil {
		return false, err
	}
	open, err := s.q().Unfinished(ctx, decommissiondb.UnfinishedParams{DecommissionID: of, Epoch: epoch, Stage: stage})
	if err != nil {
		return false, fmt.Errorf("read ledger of decommission: %w", err)
	}
	return open, nil
}

// Fence implements job.Store.
func (s rows) Fence(ctx context.Context, jobID string, epoch int64, token time.Time) (bool, error) {
	of, err := parse(jobID)
	if err != nil {
		return false, err
	}
	holds, err := s.q().Fence(ctx, decommissiondb.FenceParams{ID: of, Epoch: epoch, Token: token})
	if err != nil {
		return false, fmt.Errorf("ask fence of decommission: %w", err)
	}
	return holds, nil
}

// Begin implements job.Store.
func (s rows) Begin(ctx context.Context, b job.Begun) (Decommission, error) {
	of, err := parse(b.Job)
	if err != nil {
		return Decommission{}, err
	}
	r, err := s.q().BeginStage(ctx, decommissiondb.BeginStageParams{
		ID: of, Epoch: b.Epoch, Stage: b.Stage, Attempt: int32(b.Attempt), WorkflowRunID: b.Run, Chained: b.Chained, Now: b.Now, //nolint:gosec // attempts are few
	})
	return expected(r, err)
}

// Save implements job.Store.
func (s rows) Save(ctx context.Context, v job.Saved[*bringup.Work]) (time.Time, error) {
	of, err := parse(v.Job)
	if err != nil {
		return time.Time{}, err
	}
	w := v.Work
	facts, err := w.Facts.Encode()
	if err != nil {
		return time.Time{}, err
	}
	return s.q().Save(ctx, decommissiondb.SaveParams{ //nolint:wrapcheck // pgx.ErrNoRows is what the runner goes by
		ID: of, Epoch: v.Epoch, Token: v.Token, MaasSystemID: w.SystemID, PxeMac: w.PXEMAC, Facts: facts, ObservedStatus: w.Observed.Status,
		ObservedPower: w.Observed.Power, ObservedIps: w.Observed.Addresses(), ObservedAt: w.Observed.SeenAt(),
	})
}

// Start implements job.Store.
func (s rows) Start(ctx context.Context, tx pgx.Tx, jobID, run string, now time.Time) (Decommission, error) {
	of, err := parse(jobID)
	if err != nil {
		return Decommission{}, err
	}
	r, err := decommissiondb.New(tx).Start(ctx, decommissiondb.StartParams{ID: of, StartedAt: &now, WorkflowRunID: run})
	return expected(r, err)
}

// End implements job.Store.
func (s rows) End(ctx context.Context, tx pgx.Tx, e job.Ended[*bringup.Work]) (Decommission, error) {
	of, err := parse(e.Job)
	if err != nil {
		return Decommission{}, err
	}
	w := e.Work
	facts, err := w.Facts.Encode()
	if err != nil {
		return Decommission{}, err
	}
	r, err := decommissiondb.New(tx).EndStage(ctx, decommissiondb.EndStageParams{
		ID: of, Epoch: e.Epoch, Token: e.Token, Now: e.Now, MaasSystemID: w.SystemID, PxeMac: w.PXEMAC, Facts: facts,
		ObservedStatus: w.Observed.Status, ObservedPower: w.Observed.Power, ObservedIps: w.Observed.Addresses(), ObservedAt: w.Observed.SeenAt(),
		Status: string(e.Status), NextStage: e.NextStage, NextAttempt: int32(e.NextAttempt), SameStage: e.SameStage, //nolint:gosec // attempts are few
		Action: string(e.Action), Adopted: e.Adopted,
		FailureClass: string(e.Trouble.Class), ErrorCode: e.Trouble.Code, ErrorMessage: e.Trouble.Message, ErrorRemedy: e.Trouble.Remedy,
		ErrorDetails: object(e.Trouble.Details), ParkedAt: e.Trouble.ParkedAt, CompletedAt: e.CompletedAt,
		ToldStage: e.Told.Stage, Attempt: int32(e.Told.Attempt), ToldStatus: string(e.Told.Status), ToldMessage: e.Told.Message, //nolint:gosec // attempts are few
		ToldDetails: object(e.Told.Details),
	})
	return expected(r, err)
}

// Act implements job.Store.
func (s rows) Act(ctx context.Context, tx pgx.Tx, a job.Acted[Decommission]) (Decommission, error) {
	of, err := parse(a.Job)
	if err != nil {
		return Decommission{}, err
	}
	facts, err := a.Row.Facts.Encode()
	if err != nil {
		return Decommission{}, err
	}
	r, err := decommissiondb.New(tx).Act(ctx, decommissiondb.ActParams{
		ID: of, Status: string(a.Status), CurrentStage: a.Stage, Action: string(a.Action), Facts: facts,
		FailureClass: string(a.Trouble.Class), ErrorCode: a.Trouble.Code, ErrorMessage: a.Trouble.Message, ErrorRemedy: a.Trouble.Remedy,
		ErrorDetails: object(a.Trouble.Details), ParkedAt: a.Trouble.ParkedAt, CompletedAt: a.CompletedAt,
	})
	return expected(r, err)
}

// Noticed implements job.Store.
func (s rows) Noticed(ctx context.Context, tx pgx.Tx, jobID, seen string) (bool, error) {
	of, err := parse(jobID)
	if err != nil {
		return false, err
	}
	noticed, err := decommissiondb.New(tx).Noticed(ctx, decommissiondb.NoticedParams{DecommissionID: of, Message: seen})
	if err != nil {
		return false, fmt.Errorf("read what was observed about decommission: %w", err)
	}
	return noticed, nil
}

// Note implements job.Store.
func (s rows) Note(ctx context.Context, tx pgx.Tx, jobID string, e job.Event) error {
	of, err := parse(jobID)
	if err != nil {
		return err
	}
	err = decommissiondb.New(tx).InsertEvent(ctx, decommissiondb.InsertEventParams{
		DecommissionID: of, Epoch: e.Epoch, Stage: e.Stage, Attempt: int32(e.Attempt), Status: string(e.Status), Message: e.Message, //nolint:gosec // attempts are few
		Details: object(e.Details), OccurredAt: e.OccurredAt,
	})
	if err != nil {
		return fmt.Errorf("write into ledger of decommission: %w", err)
	}
	return nil
}

// Get reads a decommission.
func (s *Service) Get(ctx context.Context, of id.Decommission) (Decommission, error) {
	return s.rows.Get(ctx, of.String())
}

// List reads decommissions, newest first.
func (s *Service) List(ctx context.Context, f Filter, page postgres.Slice[id.Decommission]) ([]Decommission, error) {
	p := decommissiondb.ListParams{
		After: page.After.String(), BatchID: optional(f.Batch), NodeID: optional(f.Node), SiteID: optional(f.Site), Statuses: []string{},
		HostnamePrefix: f.Hostname, PageSize: page.Limit,
	}
	if f.Mode != "" {
		mode := string(f.Mode)
		p.Mode = &mode
	}
	for _, status := range f.Statuses {
		p.Statuses = append(p.Statuses, string(status))
	}
	list, err := s.rows.q().List(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("list decommissions: %w", err)
	}
	out := make([]Decommission, len(list))
	for i, r := range list {
		if out[i], err = fromRow(r); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Events reads the ledger of a decommission in its order, after an entry (0:
// from the first).
func (s *Service) Events(ctx context.Context, of id.Decommission, after int64, limit int32) ([]job.Event, error) {
	r, err := s.rows.q().Events(ctx, decommissiondb.EventsParams{DecommissionID: of, Seq: after, Limit: limit})
	return ledger(r, err)
}

// EvidenceOf reads what stages of a decommission saw, in its order.
func (s *Service) EvidenceOf(ctx context.Context, of id.Decommission) ([]Evidence, error) {
	list, err := s.rows.q().EvidenceOf(ctx, of)
	if err != nil {
		return nil, fmt.Errorf("read evidence of decommission: %w", err)
	}
	out := make([]Evidence, len(list))
	for i, r := range list {
		out[i] = Evidence{Seq: r.Seq, Stage: r.Stage, Attempt: int(r.Attempt), Epoch: r.Epoch, Kind: r.Kind, Value: r.Evidence, RecordedAt: r.RecordedAt}
	}
	return out, nil
}

func optional[noun any](u id.Of[noun]) *string {
	if u.IsZero() {
		return nil
	}
	text := u.String()
	return &text
}

// object is a JSON object; nil is the empty one.
func object(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("{}")
	}
	return raw
}

// typicalSeconds says how long stages take at a site, or at all, by mode and name.
func (s *Service) typicalSeconds(ctx context.Context, of id.Site) (map[Mode]map[string]float64, error) {
	p := decommissiondb.TypicalSecondsParams{SiteID: optional(of), Jobs: job.TypicalOver}
	out := map[Mode]map[string]float64{}
	for _, m := range Modes() {
		p.Modes, out[m] = append(p.Modes, string(m)), map[string]float64{}
	}
	rows, err := s.rows.q().TypicalSeconds(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("read how long stages take: %w", err)
	}
	for _, r := range rows {
		out[Mode(r.Mode)][r.Stage] = r.Seconds
	}
	return out, nil
}
