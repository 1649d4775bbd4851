package allocation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/rent/allocation/internal/allocationdb"
	"gpuaas/controlplane/internal/rent/reservation"
)

// kept are free nodes that a request must leave to others.
type kept struct {
	waiting  []string           // for those who have waited longer
	reserved []string           // for reservations of others
	own      []reservation.Part // what the project of the request may use of reservations
	// seen are the nodes that were free when it was decided what to keep. Others have
	// become free since, and nobody knows whose they are; nil: nothing is kept.
	seen []string
}

// nodes are all of them: never nil, which the database would take for unknown.
func (k kept) nodes() []string { return append(append([]string{}, k.waiting...), k.reserved...) }

// errQueued says that somebody began to wait for a SKU, or reserved some of it, after
// its lock was taken for requests side by side. The attempt is repeated.
var errQueued = errors.New("somebody has begun to wait, or has reserved nodes")

// keepUnderLock says which nodes a request must leave to others, and makes sure that
// it stays so until the transaction ends.
func (s *Service) keepUnderLock(ctx context.Context, tx pgx.Tx, org id.Org, ask Ask, of id.AllocationRequest) (kept,
	error,
) {
	lock, err := allocationdb.New(tx).LockSKU(ctx, ask.SKU)
	if err != nil {
		return kept{}, fmt.Errorf("lock placement of %s: %w", ask.SKU, err)
	}
	if !ask.Wish.Node.IsZero() { // an administrator has decided
		return keepNothing(), nil
	}
	if !lock.OneByOne { // one short question in place of two long ones, which most requests would ask in vain
		queued, err := allocationdb.New(tx).Queued(ctx, ask.SKU)
		switch {
		case err != nil:
			err = fmt.Errorf("look who waits for %s: %w", ask.SKU, err)
		case queued:
			err = errQueued
		}
		return keepNothing(), err
	}
	seen, err := s.seen(ctx, tx, ask)
	if err != nil {
		return kept{}, err
	}
	others, err := s.keep(ctx, tx, org, ask, of)
	others.seen = seen
	return others, err
}

func keepNothing() kept { return kept{waiting: []string{}, reserved: []string{}} }

// seen are the nodes that are free now, of those that a request may have: never nil.
// It is called before what is kept for others is chosen, so that each of them was
// there to be kept.
func (s *Service) seen(ctx context.Context, tx pgx.Tx, ask Ask) ([]string, error) {
	look, err := s.look(ask)
	if err != nil {
		return nil, err
	}
	found, err := allocationdb.New(tx).Seen(ctx, allocationdb.SeenParams{
		Sku: look.Sku, Pool: look.Pool, HeardSince: look.HeardSince,
	})
	if err != nil {
		return nil, fmt.Errorf("look which nodes of %s are free: %w", ask.SKU, err)
	}
	return append([]string{}, found...), nil
}

// keep chooses the nodes that a request must leave to others: to each of those who
// wait before it, as many free nodes as that one asks for. So a request for many
// nodes gathers them, and nobody who comes later takes them away again. Of the nodes
// that would do, it chooses those that are of no use to the request.
//
// Before all of them come the reservations that run: nobody gets what is dealt to those
// of others.
func (s *Service) keep(ctx context.Context, db allocationdb.DBTX, org id.Org, ask Ask, of id.AllocationRequest) (kept,
	error,
) {
	others := keepNothing()
	if !ask.Wish.Node.IsZero() {
		return others, nil // an administrator has decided
	}
	mine, err := s.look(ask)
	if err != nil {
		return others, err
	}
	dealt, err := dealtFor(ctx, db, mine, org, ask.Project)
	if err != nil {
		return others, err
	}
	others.reserved, others.own = dealt.KeptFrom(org, ask.Project), dealt.Of(org, ask.Project)
	q := allocationdb.New(db)
	ahead, err := q.Ahead(ctx, allocationdb.AheadParams{Sku: ask.SKU, Request: textOf(of)})
	if err != nil {
		return others, fmt.Errorf("read queue of %s: %w", ask.SKU, err)
	}
	exhausted := map[string]bool{}
	for _, w := range ahead {
		var theirs Ask
		if err := json.Unmarshal(w.Ask, &theirs); err != nil {
			return others, fmt.Errorf("decode request that waits: %w", err)
		}
		same, err := theirs.key()
		if err != nil {
			return others, err
		}
		if len(dealt.Of(w.OrgID, theirs.Project)) > 0 {
			same += theirs.Project.String() // there may be something for it that others cannot have
		}
		if exhausted[same] {
			continue // there was nothing left for somebody who asked for the same
		}
		passed := append(dealt.KeptFrom(w.OrgID, theirs.Project), others.waiting...)
		got, err := s.nodesFor(ctx, q, theirs, w.Nodes, mine, passed, others.reserved)
		if err != nil {
			return others, err
		}
		others.waiting = append(others.waiting, got...)
		exhausted[same] = len(got) < int(w.Nodes)
	}
	return others, nil
}

// dealtFor deals the nodes of a SKU to the reservations that run, for somebody who looks
// for some of them.
func dealtFor(ctx context.Context, db allocationdb.DBTX, look allocationdb.TakeParams, org id.Org,
	project id.Project,
) (reservation.Dealt, error) {
	return reservation.Read(ctx, db, reservation.Asker{
		Org: org, Project: project, SKU: look.Sku, Region: look.Region, Pool: look.Pool, Labels: look.Labels,
		Capabilities: look.Capabilities, HeardSince: look.HeardSince,
	})
}

// keepReserved says which nodes an allocation that is placed again must leave to
// reservations of others. It goes past those who wait.
func (s *Service) keepReserved(ctx context.Context, tx pgx.Tx, org id.Org, ask Ask) (kept, error) {
	look, err := s.look(ask)
	if err != nil {
		return kept{}, err
	}
	lock, err := allocationdb.New(tx).LockSKU(ctx, ask.SKU)
	if err != nil {
		return kept{}, fmt.Errorf("lock placement of %s: %w", ask.SKU, err)
	}
	var seen []string
	if lock.OneByOne {
		if seen, err = s.seen(ctx, tx, ask); err != nil {
			return kept{}, err
		}
	}
	dealt, err := dealtFor(ctx, tx, look, org, ask.Project)
	if err == nil && !lock.OneByOne && len(dealt) > 0 {
		err = errQueued
	}
	return kept{
		waiting: []string{}, reserved: dealt.KeptFrom(org, ask.Project), own: dealt.Of(org, ask.Project), seen: seen,
	}, err
}

// nodesFor chooses free nodes for a request, if possible such that the one who looks
// must leave anyway, or that are of no use to it.
func (s *Service) nodesFor(ctx context.Context, q *allocationdb.Queries, ask Ask, most int32,
	mine allocationdb.TakeParams, passed, lost []string,
) ([]string, error) {
	theirs, err := s.look(ask)
	if err != nil {
		return nil, err
	}
	found, err := q.NodesToLet(ctx, allocationdb.NodesToLetParams{
		Sku: theirs.Sku, Region: theirs.Region, Pool: theirs.Pool, Labels: theirs.Labels, Capabilities: theirs.Capabilities,
		HeardSince: theirs.HeardSince, Passed: append(passed, theirs.Passed...), Most: most, Root: theirs.Root,
		OtherRegion: mine.Region, OtherPool: mine.Pool, OtherLabels: mine.Labels, OtherCapabilities: mine.Capabilities,
		OtherNode: mine.Node, Lost: lost,
	})
	if err != nil {
		return nil, fmt.Errorf("look for nodes of those who wait: %w", err)
	}
	return found, nil
}
