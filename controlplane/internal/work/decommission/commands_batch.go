package decommission

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/decommission/internal/decommissiondb"
	"gpuaas/controlplane/internal/work/job"
)

// MaxBatch is how many nodes one request may concern.
const MaxBatch = 1000

// NewBatch asks for the same operation on many nodes.
type NewBatch struct {
	Request
	Selector Selector
	// Expected lists the nodes that the requester saw, including those left
	// out; if nil, the batch takes whatever the selector names now.
	Expected       []id.Node
	MaxParallel    int  // if zero, 10
	MaxFailures    int  // when more have failed, no further operation begins
	SkipIneligible bool // leave ineligible nodes out instead of refusing the batch
}

// LeftOut is a node that the batch leaves out, and why.
type LeftOut struct {
	NodeID   id.Node `json:"node_id"`
	Hostname string  `json:"hostname"`
	Code     string  `json:"code"`
	Message  string  `json:"message"`
}

// RequestBatch begins an operation on every node that the selector names, a few
// at a time, until all are done or too many have failed.
func (s *Service) RequestBatch(ctx context.Context, n NewBatch) (Batch, []LeftOut, error) {
	var err error
	if n.Request, err = n.checked(); err != nil {
		return Batch{}, nil, err
	}
	if n, err = n.bounded(); err != nil {
		return Batch{}, nil, err
	}
	fit, left, err := s.eligible(ctx, n)
	if err != nil {
		return Batch{}, nil, err
	}
	var b Batch
	err = s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		b, err = s.insertBatch(ctx, tx, n, fit)
		return err
	})
	if postgres.Violates(err, job.ClaimTaken) {
		return b, nil, fault.New(fault.Conflict, "node_busy",
			"another operation on one of the nodes was begun meanwhile").WithRemedy("ask again")
	}
	return b, left, err
}

func (n NewBatch) bounded() (NewBatch, error) {
	if n.MaxParallel == 0 {
		n.MaxParallel = 10
	}
	var bad []fault.Field
	if n.MaxParallel < 1 || n.MaxParallel > MaxBatch {
		bad = append(bad, fault.Field{Path: "body.max_parallel", Message: fmt.Sprintf("must be 1 to %d", MaxBatch)})
	}
	if n.MaxFailures < 0 || n.MaxFailures > MaxBatch {
		bad = append(bad, fault.Field{Path: "body.max_failures", Message: fmt.Sprintf("must be 0 to %d", MaxBatch)})
	}
	if n.PlanHash != "" {
		bad = append(bad, fault.Field{Path: "body.plan_hash", Message: "a plan is of one node"})
	}
	n.Selector.Nodes = once(n.Selector.Nodes)
	sel := n.Selector
	if len(sel.Nodes) == 0 && sel.Site.IsZero() && sel.RegionCode == "" && sel.SKU == "" && sel.HostnamePrefix == "" &&
		len(sel.Statuses) == 0 {
		bad = append(bad, fault.Field{
			Path:    "body.selector",
			Message: "must name something: all nodes at once are never meant",
		})
	}
	if len(bad) > 0 {
		return n, fault.New(fault.Invalid, "validation_error",
			"the request has fields that cannot be accepted").WithFields(bad...)
	}
	return n, nil
}

// once returns the list without duplicates.
func once(nodes []id.Node) []id.Node {
	seen := map[id.Node]bool{}
	return slices.DeleteFunc(slices.Clone(nodes), func(of id.Node) bool {
		again := seen[of]
		seen[of] = true
		return again
	})
}

// selected returns the nodes that the selector of a batch names now.
func (s *Service) selected(ctx context.Context, n NewBatch) ([]id.Node, error) {
	sel := n.Selector
	p := decommissiondb.SelectedParams{
		Ids: []string{}, SiteID: optional(sel.Site), HostnamePrefix: sel.HostnamePrefix,
		Statuses: []string{}, Most: MaxBatch + 1,
	}
	for _, of := range sel.Nodes {
		p.Ids = append(p.Ids, of.String())
	}
	for _, status := range sel.Statuses {
		p.Statuses = append(p.Statuses, string(status))
	}
	p.RegionCode, p.SkuID = given(sel.RegionCode), given(sel.SKU)
	nodes, err := s.reads.Selected(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("select nodes: %w", err)
	}
	if len(nodes) > MaxBatch {
		return nil, fault.New(fault.Invalid, "batch_too_large", "the selector names more than %d nodes",
			MaxBatch).WithRemedy("narrow it")
	}
	if err := s.asExpected(ctx, n, nodes); err != nil {
		return nil, err
	}
	if len(sel.Nodes) > 0 && len(nodes) < len(sel.Nodes) {
		return nil, fault.New(fault.NotFound, "node_not_found",
			"%d of the %d nodes are not there, or not what the selector says", len(sel.Nodes)-len(nodes), len(sel.Nodes))
	}
	return nodes, nil
}

// asExpected refuses the batch if its nodes are not those that the requester
// saw.
func (s *Service) asExpected(ctx context.Context, n NewBatch, nodes []id.Node) error {
	if n.Expected == nil {
		return nil
	}
	changed, err := node.SinceSeen(ctx, s.db, n.Expected, nodes)
	if err != nil || changed == "" {
		return err
	}
	return fault.New(fault.Conflict, "selection_changed",
		"the selector names other nodes than were expected: %s; nothing was started", changed).
		WithRemedy("look which nodes it names and decide again: gpuaas node list")
}

// eligible splits the nodes of a selector into those that the operation can run
// on and those that it cannot.
func (s *Service) eligible(ctx context.Context, n NewBatch) (fit []situation, left []LeftOut, err error) {
	nodes, err := s.selected(ctx, n)
	if err != nil {
		return nil, nil, err
	}
	for _, of := range nodes {
		now, err := s.lookFor(ctx, of, n.Request)
		if err != nil {
			return nil, nil, err
		}
		if err := now.refuse(n.Request); err != nil {
			f, _ := fault.As(err)
			left = append(left, LeftOut{NodeID: of, Hostname: now.node.Hostname, Code: f.Code, Message: f.Message})
			continue
		}
		fit = append(fit, now)
	}
	return fit, left, n.acceptable(fit, left)
}

func given(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// acceptable refuses a batch if no node is eligible, or if some are not and the
// request does not allow leaving them out.
func (n NewBatch) acceptable(fit []situation, left []LeftOut) error {
	if len(left) > 0 && !n.SkipIneligible {
		fields := make([]fault.Field, len(left))
		for i, l := range left {
			fields[i] = fault.Field{Path: "node " + l.Hostname, Message: l.Message}
		}
		return fault.New(fault.Conflict, "batch_not_eligible", "%d of %d nodes cannot be operated on", len(left),
			len(left)+len(fit)).
			WithFields(fields...).WithRemedy("put that right, narrow the selector, or leave them out with skip_ineligible (--skip-ineligible)")
	}
	if len(fit) == 0 {
		return fault.New(fault.Conflict, "batch_empty",
			"no node is left to operate on").WithRemedy("look at the selector: gpuaas node list")
	}
	return nil
}

func (s *Service) insertBatch(ctx context.Context, tx pgx.Tx, n NewBatch, fit []situation) (Batch, error) {
	selector, err := json.Marshal(n.Selector)
	if err != nil {
		return Batch{}, fmt.Errorf("encode selector: %w", err)
	}
	b := Batch{ID: id.New[id.DecommissionBatch](), Mode: n.Mode, Selector: n.Selector}
	b.Batch, err = s.rows.InsertBatch(ctx, tx, job.Batch{
		ID: id.JobBatch(b.ID), Total: len(fit), MaxParallel: n.MaxParallel, MaxFailures: &n.MaxFailures, Reason: n.Reason,
		RequestedAt: s.now(),
	}, job.Prepared(decommissiondb.InsertBatch, decommissiondb.InsertBatchParams{
		BatchID: b.ID, Mode: string(n.Mode), Selector: selector,
	}))
	if err != nil {
		return Batch{}, err
	}
	for _, now := range fit {
		if _, err := s.insert(ctx, tx, now, n.Request, b.ID); err != nil {
			return b, err
		}
	}
	err = s.batches.Audit(ctx, tx, "request", b.Batch, n.Reason, map[string]any{"mode": n.Mode, "selector": n.Selector})
	if err != nil {
		return b, err
	}
	return b, s.rows.Admit(ctx, tx, b.ID.String(), s.now())
}

// Batch reads a batch and counts its decommissions by status.
func (s *Service) Batch(ctx context.Context, batch id.DecommissionBatch) (Batch, error) {
	b, err := s.batches.Batch(ctx, s.db, id.JobBatch(batch))
	if err != nil {
		return Batch{}, err
	}
	list, err := s.withOwn(ctx, []job.Batch{b})
	if err != nil {
		return Batch{}, err
	}
	return list[0], nil
}

// withOwn adds the columns that only decommissions have.
func (s *Service) withOwn(ctx context.Context, batches []job.Batch) ([]Batch, error) {
	out, ids, at := make([]Batch, len(batches)), make([]string, len(batches)), map[id.DecommissionBatch]int{}
	for i, b := range batches {
		out[i] = Batch{Batch: b, ID: id.DecommissionBatch(b.ID)}
		ids[i], at[out[i].ID] = b.ID.String(), i
	}
	rows, err := s.reads.OwnOfBatches(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read batches of decommissions: %w", err)
	}
	for _, r := range rows {
		b := &out[at[r.BatchID]]
		b.Mode = Mode(r.Mode)
		if err := json.Unmarshal(r.Selector, &b.Selector); err != nil {
			return nil, fmt.Errorf("decode selector of batch %s: %w", r.BatchID, err)
		}
	}
	return out, nil
}
