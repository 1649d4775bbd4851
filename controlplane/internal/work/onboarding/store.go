package onboarding

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
	"gpuaas/controlplane/internal/work/onboarding/internal/onboardingdb"
)

func fromRow(r onboardingdb.NodeOnboarding) (Onboarding, error) {
	o := Onboarding{
		ID: r.ID, Batch: r.BatchID, SKU: r.SkuID, InitializeDisks: r.InitializeDisks,
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
		o.Observed.At = *r.ObservedAt
	}
	if err := json.Unmarshal(r.Facts, &o.Facts); err != nil {
		return o, fmt.Errorf("decode facts of onboarding %s: %w", r.ID, err)
	}
	return o, nil
}

// columns are the columns that only onboardings have.
var columns = job.Columns[Onboarding, *bringup.Work]{
	Read: onboardingdb.OfIDs,
	Scan: func(row pgx.CollectableRow) (Onboarding, error) {
		r, err := pgx.RowToStructByPos[onboardingdb.NodeOnboarding](row)
		if err != nil {
			return Onboarding{}, err
		}
		return fromRow(r)
	},
	Keep: func(of string, w *bringup.Work) ([]job.Statement, error) {
		o, err := id.Parse[id.Onboarding](of)
		if err != nil {
			return nil, err
		}
		facts, err := w.Facts.Encode()
		return []job.Statement{job.Prepared(onboardingdb.Keep, onboardingdb.KeepParams{
			JobID: o, MaasSystemID: w.SystemID, PxeMac: w.PXEMAC, Facts: facts, ObservedStatus: w.Observed.Status,
			ObservedPower: w.Observed.Power, ObservedIps: w.Observed.Addresses(), ObservedAt: w.Observed.SeenAt(),
		})}, err
	},
	Change: func(o Onboarding) ([]job.Statement, error) {
		facts, err := o.Facts.Encode()
		return []job.Statement{job.Prepared(onboardingdb.KeepFacts, onboardingdb.KeepFactsParams{JobID: o.ID, Facts: facts})},
			err
	},
	Node: func(w *bringup.Work) id.Node { return w.Node },
	Claims: func(at id.Site, w *bringup.Work) []job.Claim {
		return []job.Claim{claim(claimMachine, at, w.SystemID)}
	},
}

// What an onboarding claims at its site, so that a machine is onboarded only
// once at a time, under whatever name.
const (
	claimHostname = "onboarding.hostname"
	claimBMC      = "onboarding.bmc"
	claimMachine  = "onboarding.machine" // its system id, once that is known
)

func claim(kind string, at id.Site, what string) job.Claim {
	if what == "" {
		return job.Claim{Kind: kind}
	}
	return job.Claim{Kind: kind, Key: at.String() + " " + what}
}

// Get reads an onboarding.
func (s *Service) Get(ctx context.Context, of id.Onboarding) (Onboarding, error) {
	return s.rows.Get(ctx, of.String())
}

// List reads onboardings, newest first.
func (s *Service) List(ctx context.Context, f Filter, page postgres.Slice[id.Onboarding]) ([]Onboarding, error) {
	p := onboardingdb.ListParams{
		After: page.After.String(), BatchID: optional(f.Batch), SiteID: optional(f.Site), Statuses: []string{},
		HostnamePrefix: f.HostnamePrefix, PageSize: page.Limit,
	}
	for _, status := range f.Statuses {
		p.Statuses = append(p.Statuses, string(status))
	}
	rows, err := s.reads.List(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("list onboardings: %w", err)
	}
	out := make([]Onboarding, len(rows))
	for i, r := range rows {
		if out[i], err = fromRow(r); err != nil {
			return nil, err
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

// Events reads the ledger of an onboarding in order, after a given entry (0:
// from the first).
func (s *Service) Events(ctx context.Context, of id.Onboarding, after int64, limit int32) ([]job.Event, error) {
	return s.rows.Events(ctx, of.String(), after, limit)
}

// typicalSeconds returns how long stages take, by name: at the given site or,
// if it is zero, at all sites.
func (s *Service) typicalSeconds(ctx context.Context, of id.Site) (map[string]float64, error) {
	typical, err := s.rows.TypicalSeconds(ctx, of, "")
	return typical[""], err
}
