package allocation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/rent/allocation/internal/allocationdb"
)

// kept are free nodes that a request must leave to others.
type kept struct {
	waiting []string // for those who have waited longer
}

// nodes are all of them: never nil, which the database would take for unknown.
func (k kept) nodes() []string { return append([]string{}, k.waiting...) }

// errQueued says that somebody began to wait for a SKU after its lock was taken for
// requests side by side. The attempt is repeated.
var errQueued = errors.New("somebody has begun to wait")

// keepUnderLock says which nodes a request must leave to others, and makes sure that
// it stays so until the transaction ends.
func (s *Service) keepUnderLock(ctx context.Context, q *allocationdb.Queries, ask Ask, of id.AllocationRequest) (kept,
	error,
) {
	lock, err := q.LockSKU(ctx, ask.SKU)
	if err != nil {
		return kept{}, fmt.Errorf("lock placement of %s: %w", ask.SKU, err)
	}
	others, err := s.keep(ctx, q, ask, of)
	if err == nil && !lock.OneByOne && len(others.waiting) > 0 {
		err = errQueued
	}
	return others, err
}

// keep chooses the nodes that a request must leave to others: to each of those who
// wait before it, as many free nodes as that one asks for. So a request for many
// nodes gathers them, and nobody who comes later takes them away again. Of the nodes
// that would do, it chooses those that are of no use to the request.
func (s *Service) keep(ctx context.Context, q *allocationdb.Queries, ask Ask, of id.AllocationRequest) (kept, error) {
	others := kept{waiting: []string{}}
	if !ask.Wish.Node.IsZero() {
		return others, nil // an administrator has decided
	}
	mine, err := s.look(ask)
	if err != nil {
		return others, err
	}
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
		if exhausted[same] {
			continue // there was nothing left for somebody who asked for the same
		}
		got, err := s.nodesFor(ctx, q, theirs, w.Nodes, mine, others.nodes())
		if err != nil {
			return others, err
		}
		others.waiting = append(others.waiting, got...)
		exhausted[same] = len(got) < int(w.Nodes)
	}
	return others, nil
}

// nodesFor chooses free nodes for a request, if possible such that are of no use to
// the one who looks.
func (s *Service) nodesFor(ctx context.Context, q *allocationdb.Queries, ask Ask, most int32,
	mine allocationdb.TakeParams, passed []string,
) ([]string, error) {
	theirs, err := s.look(ask)
	if err != nil {
		return nil, err
	}
	found, err := q.NodesToLet(ctx, allocationdb.NodesToLetParams{
		Sku: theirs.Sku, Region: theirs.Region, Pool: theirs.Pool, Labels: theirs.Labels, Capabilities: theirs.Capabilities,
		HeardSince: theirs.HeardSince, Passed: append(passed, theirs.Passed...), Most: most, Root: theirs.Root,
		OtherRegion: mine.Region, OtherPool: mine.Pool, OtherLabels: mine.Labels, OtherCapabilities: mine.Capabilities,
		OtherNode: mine.Node,
	})
	if err != nil {
		return nil, fmt.Errorf("look for nodes of those who wait: %w", err)
	}
	return found, nil
}
