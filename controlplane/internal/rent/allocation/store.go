package allocation

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
	"gpuaas/controlplane/internal/rent/allocation/internal/allocationdb"
)

func from(r allocationdb.Allocation) (Allocation, error) {
	a := Allocation{
		ID: r.ID, Org: r.OrgID, Project: r.ProjectID, Group: r.GroupID, Name: r.Name, Status: Status(r.Status),
		Shape: Shape(r.CapacityShape), SKU: r.SkuID, GPUs: r.Gpus, Region: r.RegionCode, Node: r.NodeID, Hostname: r.Hostname,
		Placements: r.Placements, Access: Access(r.Access), Username: r.Username, UID: r.Uid, Protected: r.Protected,
		ExpiresAt: r.ExpiresAt, Event: r.EventID, AskedBy: r.RequestedBy, AskedName: r.RequestedByName,
		WaitingFor: r.WaitingFor, Cleanup: r.CleanupID, Version: r.Version,
		Keyring: Keyring{Revision: r.KeysRevision, ChangingSince: r.KeysChangingSince, WaitingFor: r.KeysWaitingFor},
		Failure: Failure{Code: r.FailureCode, Reason: r.FailureReason, Remedy: r.FailureRemedy},
		Release: Ending{
			Cause: Cause(r.ReleaseCause), Reason: r.ReleaseReason, By: r.ReleaseRequestedBy, Failed: r.ReleaseFailedReason,
		},
		Times: Times{
			Created: r.CreatedAt, StatusChanged: r.StatusChangedAt, Updated: r.UpdatedAt,
			ProvisioningStarted: r.ProvisioningStartedAt, Active: r.ActiveAt, ReleaseRequested: r.ReleaseRequestedAt,
			Released: r.ReleasedAt, Failed: r.FailedAt, ReleaseFailed: r.ReleaseFailedAt,
		},
	}
	for what, of := range map[string]struct {
		raw []byte
		to  any
	}{
		"labels": {r.Labels, &a.Labels}, "wish": {r.Wish, &a.Wish}, "SSH keys": {r.SshKeys, &a.Keys},
		"terms": {r.SkuTerms, &a.Terms}, "complaint": {r.Complaint, &a.Complaint},
	} {
		if len(of.raw) == 0 {
			continue
		}
		if err := json.Unmarshal(of.raw, of.to); err != nil {
			return a, fmt.Errorf("decode %s of allocation %s: %w", what, r.ID, err)
		}
	}
	return a, nil
}

func found(r allocationdb.Allocation, err error) (Allocation, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return Allocation{}, notFound()
	}
	if err != nil {
		return Allocation{}, fmt.Errorf("read allocation: %w", err)
	}
	return from(r)
}

// Get reads an allocation through a pool or a transaction.
func Get(ctx context.Context, db allocationdb.DBTX, of id.Allocation) (Allocation, error) {
	return found(allocationdb.New(db).Get(ctx, of))
}

func lock(ctx context.Context, tx pgx.Tx, of id.Allocation) (Allocation, error) {
	return found(allocationdb.New(tx).Lock(ctx, of))
}

// hold locks the node of an allocation and then the allocation, which is the order
// in which operations on nodes lock them.
func hold(ctx context.Context, tx pgx.Tx, of id.Allocation) (Allocation, node.Node, error) {
	for range 3 { // it is placed twice at most
		seen, err := Get(ctx, tx, of)
		if err != nil {
			return seen, node.Node{}, err
		}
		n, err := node.Lock(ctx, tx, seen.Node)
		if err != nil {
			return seen, n, err
		}
		a, err := lock(ctx, tx, of)
		if err != nil || a.Node == seen.Node {
			return a, n, err
		}
	}
	return Allocation{}, node.Node{}, fault.New(fault.Unavailable, "allocation_moves",
		"allocation %s is being placed on another node", of).WithRemedy("try again")
}

func all(rows []allocationdb.Allocation, err error) ([]Allocation, error) {
	if err != nil {
		return nil, fmt.Errorf("list allocations: %w", err)
	}
	out := make([]Allocation, len(rows))
	for i, r := range rows {
		if out[i], err = from(r); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Selection chooses allocations; zero fields choose all.
type Selection struct {
	Project  id.Project
	Node     id.Node
	AskedBy  string
	Statuses []Status
}

// List gives allocations, newest first.
func (s *Service) List(ctx context.Context, of Selection, page postgres.Slice[id.Allocation]) ([]Allocation, error) {
	statuses := make([]string, len(of.Statuses))
	for i, status := range of.Statuses {
		statuses[i] = string(status)
	}
	p := allocationdb.ListParams{
		Project: textOf(of.Project), Node: textOf(of.Node), Statuses: statuses, PageSize: page.Limit,
	}
	if of.AskedBy != "" {
		p.RequestedBy = &of.AskedBy
	}
	p.Before = textOf(page.After)
	return all(allocationdb.New(s.db).List(ctx, p))
}

// Timeline gives what happened to an allocation, in its order.
func (s *Service) Timeline(ctx context.Context, of id.Allocation, page postgres.Slice[int64]) ([]Moment, error) {
	rows, err := allocationdb.New(s.db).Timeline(ctx, allocationdb.TimelineParams{
		AllocationID: of, After: page.After, PageSize: page.Limit,
	})
	if err != nil {
		return nil, fmt.Errorf("read timeline of allocation %s: %w", of, err)
	}
	out := make([]Moment, len(rows))
	for i, r := range rows {
		out[i] = Moment{
			Seq: r.Seq, At: r.At, Event: r.Event, Status: Status(r.Status), ActorKind: r.ActorKind, Actor: r.Actor,
			Message: r.Message,
		}
		if err := json.Unmarshal(r.Details, &out[i].Details); err != nil {
			return nil, fmt.Errorf("decode timeline of allocation %s: %w", of, err)
		}
	}
	return out, nil
}

// Holdings counts what tenants and projects have, for quotas.
type Holdings struct{}

// Held counts what a tenant (zero project) or a project has, of a SKU or of all
// ("").
func (Holdings) Held(
	ctx context.Context, tx pgx.Tx, org id.Org, project id.Project, sku string,
) (gpus, nodes int32, err error) {
	held, err := allocationdb.New(tx).Held(ctx, allocationdb.HeldParams{OrgID: org, Project: textOf(project), Sku: sku})
	if err != nil {
		return 0, 0, fmt.Errorf("count allocations: %w", err)
	}
	return held.Gpus, held.Nodes, nil
}

// Awaited counts what a tenant (zero project) or a project waits for, of a SKU or of
// all ("").
func (Holdings) Awaited(
	ctx context.Context, tx pgx.Tx, org id.Org, project id.Project, sku string,
) (gpus, nodes int32, err error) {
	awaited, err := allocationdb.New(tx).Awaited(ctx,
		allocationdb.AwaitedParams{OrgID: org, Project: textOf(project), Sku: sku})
	if err != nil {
		return 0, 0, fmt.Errorf("count what is waited for: %w", err)
	}
	return awaited.Gpus, awaited.Nodes, nil
}

func textOf[noun any](of id.Of[noun]) *string {
	if of.IsZero() {
		return nil
	}
	text := of.String()
	return &text
}

// Receipt is a paper about the node of an allocation.
type Receipt struct {
	Moment   string // handover or release
	ID       id.Certificate
	Kind     string
	Digest   string
	Outcome  string
	IssuedAt time.Time
}

// Receipts gives the papers of an allocation, oldest first.
func (s *Service) Receipts(ctx context.Context, of id.Allocation) ([]Receipt, error) {
	rows, err := allocationdb.New(s.db).Receipts(ctx, of)
	if err != nil {
		return nil, fmt.Errorf("list receipts of allocation %s: %w", of, err)
	}
	out := make([]Receipt, len(rows))
	for i, r := range rows {
		out[i] = Receipt{Moment: r.Moment, Kind: r.Kind, Digest: r.Digest, Outcome: r.Outcome, IssuedAt: r.IssuedAt}
		if out[i].ID, err = id.Parse[id.Certificate](r.CertificateID); err != nil {
			return nil, fmt.Errorf("read id of receipt: %w", err)
		}
	}
	return out, nil
}
