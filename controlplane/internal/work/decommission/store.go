package decommission

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

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
		Outcome: Outcome(r.Outcome),
		Job: job.Job{
			ID: r.ID.String(), Batch: textOf(r.BatchID), Site: r.SiteID, Node: r.NodeID, Subject: r.Hostname,
			Status: job.Status(r.Status), Phase: job.Parking.PhaseOf(job.Status(r.Status)),
			Stage: r.CurrentStage, Attempt: int(r.CurrentAttempt), Takes: int(r.CurrentTakes), Epoch: r.Epoch,
			Action: job.Trigger(r.Action), Adopted: r.Adopted,
			FailureClass: job.FailureClass(r.FailureClass), ErrorCode: r.ErrorCode, ErrorMessage: r.ErrorMessage,
			ErrorRemedy:  r.ErrorRemedy,
			ErrorDetails: r.ErrorDetails, WorkflowID: r.WorkflowID, WorkflowRunID: r.WorkflowRunID,
			RequestedBy: r.RequestedBy, CorrelationID: r.CorrelationID, RequestedAt: r.RequestedAt, AdmittedAt: r.AdmittedAt,
			StartedAt: r.StartedAt, StageStartedAt: r.StageStartedAt, ParkedAt: r.ParkedAt, CompletedAt: r.CompletedAt,
			UpdatedAt: r.UpdatedAt,
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

// columns are the columns that only decommissions have.
var columns = job.Columns[Decommission, *bringup.Work]{
	Read: decommissiondb.OfIDs,
	Scan: func(row pgx.CollectableRow) (Decommission, error) {
		r, err := pgx.RowToStructByPos[decommissiondb.NodeDecommission](row)
		if err != nil {
			return Decommission{}, err
		}
		return fromRow(r)
	},
	Keep: func(of string, w *bringup.Work) ([]job.Statement, error) {
		d, err := id.Parse[id.Decommission](of)
		if err != nil {
			return nil, err
		}
		facts, err := w.Facts.Encode()
		return []job.Statement{job.Prepared(decommissiondb.Keep, decommissiondb.KeepParams{
			JobID: d, MaasSystemID: w.SystemID, PxeMac: w.PXEMAC, Facts: facts, ObservedStatus: w.Observed.Status,
			ObservedPower: w.Observed.Power, ObservedIps: w.Observed.Addresses(), ObservedAt: w.Observed.SeenAt(),
		})}, err
	},
	Change: func(d Decommission) ([]job.Statement, error) {
		facts, err := d.Facts.Encode()
		return []job.Statement{job.Prepared(decommissiondb.KeepFacts,
			decommissiondb.KeepFactsParams{JobID: d.ID, Facts: facts})}, err
	},
}

// claimNode is the claim of an operation on its node: a node has one operation
// at a time.
const claimNode = "decommission.node"

// Get reads a decommission.
func (s *Service) Get(ctx context.Context, of id.Decommission) (Decommission, error) {
	return s.rows.Get(ctx, of.String())
}

// List reads decommissions, newest first.
func (s *Service) List(ctx context.Context, f Filter, page postgres.Slice[id.Decommission]) ([]Decommission, error) {
	p := decommissiondb.ListParams{
		After: page.After.String(), BatchID: optional(f.Batch), NodeID: optional(f.Node), SiteID: optional(f.Site),
		Statuses:       []string{},
		HostnamePrefix: f.Hostname, Outcome: string(f.Outcome), PageSize: page.Limit,
	}
	if f.Mode != "" {
		mode := string(f.Mode)
		p.Mode = &mode
	}
	for _, status := range f.Statuses {
		p.Statuses = append(p.Statuses, string(status))
	}
	list, err := s.reads.List(ctx, p)
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

// Events reads the ledger of a decommission in order, after a given entry (0:
// from the first).
func (s *Service) Events(ctx context.Context, of id.Decommission, after int64, limit int32) ([]job.Event, error) {
	return s.rows.Events(ctx, of.String(), after, limit)
}

// EvidenceOf reads what the stages of a decommission saw, in order.
func (s *Service) EvidenceOf(ctx context.Context, of id.Decommission) ([]Evidence, error) {
	return evidenceOf(ctx, s.reads, of)
}

func evidenceOf(ctx context.Context, q *decommissiondb.Queries, of id.Decommission) ([]Evidence, error) {
	list, err := q.EvidenceOf(ctx, of)
	if err != nil {
		return nil, fmt.Errorf("read evidence of decommission: %w", err)
	}
	out := make([]Evidence, len(list))
	for i, r := range list {
		out[i] = Evidence{
			Seq: r.Seq, Stage: r.Stage, Attempt: int(r.Attempt), Epoch: r.Epoch, Kind: r.Kind,
			Value: r.Evidence, RecordedAt: r.RecordedAt,
		}
	}
	return out, nil
}

func optional[noun any](u id.Of[noun]) *string {
	if text := textOf(u); text != "" {
		return &text
	}
	return nil
}

// textOf returns an id as text, or "" for the zero id.
func textOf[noun any](u id.Of[noun]) string {
	if u.IsZero() {
		return ""
	}
	return u.String()
}

// typicalSeconds returns how long stages take, by mode and name: at the given
// site or, if it is zero, at all sites.
func (s *Service) typicalSeconds(ctx context.Context, of id.Site) (map[Mode]map[string]float64, error) {
	kinds := make([]string, len(Modes()))
	for i, m := range Modes() {
		kinds[i] = string(m)
	}
	typical, err := s.rows.TypicalSeconds(ctx, of, kinds...)
	if err != nil {
		return nil, err
	}
	out := make(map[Mode]map[string]float64, len(kinds))
	for kind, seconds := range typical {
		out[Mode(kind)] = seconds
	}
	return out, nil
}
