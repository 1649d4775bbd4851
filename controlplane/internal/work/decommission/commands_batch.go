package decommission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
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
	Selector       Selector
	Expected       []id.Node // what the selector was seen to name, those that are left out included; nil: whatever it names now
	MaxParallel    int       // zero: 10
	MaxFailures    int       // more than so many, and no further one is begun
	SkipIneligible bool      // leave nodes out that cannot be operated on, instead of refusing all
}

// LeftOut is a node that a batch does not concern, and why.
type LeftOut struct {
	NodeID   id.Node `json:"node_id"`
	Hostname string  `json:"hostname"`
	Code     string  `json:"code"`
	Message  string  `json:"message"`
}

// RequestBatch begins an operation on all nodes that a selector names, a few at
// a time, until all are done or too many have failed.
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
		return b, nil, fault.New(fault.Conflict, "node_busy", "another operation on one of the nodes was begun meanwhile").WithRemedy("ask again")
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
	if len(sel.Nodes) == 0 && sel.Site.IsZero() && sel.RegionCode == "" && sel.SKU == "" && sel.HostnamePrefix == "" && len(sel.Statuses) == 0 {
		bad = append(bad, fault.Field{Path: "body.selector", Message: "must name something: all nodes at once are never meant"})
	}
	if len(bad) > 0 {
		return n, fault.New(fault.Invalid, "validation_error", "the request has fields that cannot be accepted").WithFields(bad...)
	}
	return n, nil
}

// once is a list without repetitions.
func once(nodes []id.Node) []id.Node {
	seen := map[id.Node]bool{}
	return slices.DeleteFunc(slices.Clone(nodes), func(of id.Node) bool {
		again := seen[of]
		seen[of] = true
		return again
	})
}

// selected are the nodes that the selector of a batch names now.
func (s *Service) selected(ctx context.Context, n NewBatch) ([]id.Node, error) {
	sel := n.Selector
	p := decommissiondb.SelectedParams{Ids: []string{}, SiteID: optional(sel.Site), HostnamePrefix: sel.HostnamePrefix, Statuses: []string{}, Most: MaxBatch + 1}
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
		return nil, fault.New(fault.Invalid, "batch_too_large", "the selector names more than %d nodes", MaxBatch).WithRemedy("narrow it")
	}
	if err := s.asExpected(ctx, n, nodes); err != nil {
		return nil, err
	}
	if len(sel.Nodes) > 0 && len(nodes) < len(sel.Nodes) {
		return nil, fault.New(fault.NotFound, "node_not_found", "%d of the %d nodes are not there, or not what the selector says", len(sel.Nodes)-len(nodes), len(sel.Nodes))
	}
	return nodes, nil
}

// asExpected refuses a batch of other nodes than those that were seen when it was
// decided about.
func (s *Service) asExpected(ctx context.Context, n NewBatch, nodes []id.Node) error {
	if n.Expected == nil {
		return nil
	}
	changed, err := node.SinceSeen(ctx, s.db, n.Expected, nodes)
	if err != nil || changed == "" {
		return err
	}
	return fault.New(fault.Conflict, "selection_changed", "the selector names other nodes than were expected: %s; nothing was begun", changed).
		WithRemedy("look which nodes it names and decide again: gpuaas node list")
}

// eligible are the nodes of a selector that can be operated on, and the others.
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

// acceptable refuses a batch of which nothing can be done, or not all of it.
func (n NewBatch) acceptable(fit []situation, left []LeftOut) error {
	if len(left) > 0 && !n.SkipIneligible {
		fields := make([]fault.Field, len(left))
		for i, l := range left {
			fields[i] = fault.Field{Path: "node " + l.Hostname, Message: l.Message}
		}
		return fault.New(fault.Conflict, "batch_not_eligible", "%d of %d nodes cannot be operated on", len(left), len(left)+len(fit)).
			WithFields(fields...).WithRemedy("put that right, narrow the selector, or leave them out with skip_ineligible (--skip-ineligible)")
	}
	if len(fit) == 0 {
		return fault.New(fault.Conflict, "batch_empty", "no node is left to operate on").WithRemedy("look at the selector: gpuaas node list")
	}
	return nil
}

func (s *Service) insertBatch(ctx context.Context, tx pgx.Tx, n NewBatch, fit []situation) (Batch, error) {
	selector, err := json.Marshal(n.Selector)
	if err != nil {
		return Batch{}, fmt.Errorf("encode selector: %w", err)
	}
	parallel, failures := int32(n.MaxParallel), int32(n.MaxFailures) //nolint:gosec // bounded by MaxBatch
	b := Batch{
		ID: id.New[id.DecommissionBatch](), Mode: n.Mode, Selector: n.Selector, Total: len(fit), MaxParallel: n.MaxParallel, MaxFailures: n.MaxFailures,
		Reason: n.Reason, RequestedBy: auth.From(ctx).ID, RequestedAt: s.now().Truncate(time.Microsecond), Counts: map[job.Status]int{},
	}
	err = s.rows.InsertBatch(ctx, tx, job.Batch{
		ID: b.ID.String(), Total: b.Total, MaxParallel: &parallel, MaxFailures: &failures, Reason: b.Reason, RequestedAt: b.RequestedAt,
	}, job.Prepared(decommissiondb.InsertBatch, decommissiondb.InsertBatchParams{BatchID: b.ID, Mode: string(n.Mode), Selector: selector}))
	if err != nil {
		return Batch{}, err
	}
	for _, now := range fit {
		if _, err := s.insert(ctx, tx, now, n.Request, b.ID, nil); err != nil {
			return b, err
		}
	}
	b.Counts[job.Pending] = len(fit)
	if err := s.recordBatch(ctx, tx, "decommission_batch.request", b, n.Reason); err != nil {
		return b, err
	}
	return b, s.admit(ctx, tx, b.ID)
}

func (s *Service) recordBatch(ctx context.Context, tx pgx.Tx, action string, b Batch, reason string) error {
	return audit.Record(ctx, tx, audit.Entry{
		Action: action, TargetKind: "decommission_batch", TargetID: b.ID.String(), Result: audit.Success, Reason: reason,
		Metadata: map[string]any{"mode": b.Mode, "total": b.Total, "max_parallel": b.MaxParallel, "max_failures": b.MaxFailures, "selector": b.Selector},
	})
}

// admit begins as many of a batch as may run side by side. The batch is locked,
// so that no place is given twice. An action on a parked one takes a place
// regardless: see ADR 0027.
func (s *Service) admit(ctx context.Context, tx pgx.Tx, batch id.DecommissionBatch) error {
	b, err := s.rows.LockBatch(ctx, tx, batch.String())
	if err != nil {
		return err
	}
	counts, err := s.rows.Counts(ctx, tx, b.ID)
	if err != nil {
		return err
	}
	places, err := s.rows.HeldOfBatch(ctx, tx, b.ID)
	if err != nil {
		return err
	}
	failures := Batch{Counts: counts[b.ID]}.Failures()
	if b.CancelledAt != nil || failures > int(*b.MaxFailures) || places >= *b.MaxParallel {
		return nil
	}
	list, err := s.rows.AdmitOfBatch(ctx, tx, b.ID, *b.MaxParallel-places, s.now())
	if err != nil {
		return err
	}
	for _, d := range list {
		if err := outbox.StartWorkflow(ctx, tx, s.runner.Start(d)); err != nil {
			return err
		}
	}
	return nil
}

// ResumeBatch begins more of a batch in spite of what has failed: to go on is a
// decision of its own, which is recorded.
func (s *Service) ResumeBatch(ctx context.Context, batch id.DecommissionBatch, reason string) (Batch, error) {
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		b, err := s.lockBatch(ctx, tx, batch)
		if err != nil {
			return err
		}
		if b.CancelledAt != nil {
			return fault.New(fault.Conflict, "batch_cancelled", "the batch was cancelled: nothing more of it is begun").WithRemedy("ask for another one")
		}
		b.MaxFailures = max(b.MaxFailures, b.Failures())
		if err := s.setBatch(ctx, tx, b); err != nil {
			return err
		}
		if err := s.recordBatch(ctx, tx, "decommission_batch.resume", b, reason); err != nil {
			return err
		}
		return s.admit(ctx, tx, batch)
	})
	if err != nil {
		return Batch{}, err
	}
	return s.Batch(ctx, batch)
}

// CancelBatch stops a batch: what has not begun never will, what runs is
// cancelled one by one.
func (s *Service) CancelBatch(ctx context.Context, batch id.DecommissionBatch, reason string) (Batch, error) {
	var live []decommissiondb.LiveOfBatchRow
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		b, err := s.lockBatch(ctx, tx, batch)
		if err != nil {
			return err
		}
		if b.CancelledAt == nil {
			at := s.now()
			b.CancelledAt = &at
			if err := s.setBatch(ctx, tx, b); err != nil {
				return err
			}
			if err := s.recordBatch(ctx, tx, "decommission_batch.cancel", b, reason); err != nil {
				return err
			}
		}
		live, err = decommissiondb.New(tx).LiveOfBatch(ctx, batch)
		if err != nil {
			return fmt.Errorf("list decommissions of batch: %w", err)
		}
		return nil
	})
	if err != nil {
		return Batch{}, err
	}
	for _, d := range live {
		if _, err := s.Act(ctx, d.ID, job.Cancel, reason); err != nil && fault.KindOf(err) != fault.Conflict { // it ended, or is being cancelled
			return Batch{}, err
		}
	}
	return s.Batch(ctx, batch)
}

// lockBatch reads a batch, with how its decommissions are getting on, and locks it.
func (s *Service) lockBatch(ctx context.Context, tx pgx.Tx, batch id.DecommissionBatch) (Batch, error) {
	if _, err := s.rows.LockBatch(ctx, tx, batch.String()); err != nil {
		return Batch{}, err
	}
	r, err := decommissiondb.New(tx).Batch(ctx, batch)
	if err != nil {
		return Batch{}, fmt.Errorf("read batch: %w", err)
	}
	list, err := s.counted(ctx, tx, []decommissiondb.NodeDecommissionBatch{r})
	if err != nil {
		return Batch{}, err
	}
	return list[0], nil
}

func (s *Service) setBatch(ctx context.Context, tx pgx.Tx, b Batch) error {
	failures := int32(b.MaxFailures) //nolint:gosec // bounded by MaxBatch
	return s.rows.SetBatch(ctx, tx, job.Batch{ID: b.ID.String(), CancelledAt: b.CancelledAt, MaxFailures: &failures})
}

func batchFrom(r decommissiondb.NodeDecommissionBatch) (Batch, error) {
	b := Batch{
		ID: r.ID, Mode: Mode(r.Mode), Total: int(r.Total), MaxParallel: int(*r.MaxParallel), MaxFailures: int(*r.MaxFailures), Reason: r.Reason,
		RequestedBy: r.RequestedBy, RequestedAt: r.RequestedAt, CancelledAt: r.CancelledAt, Counts: map[job.Status]int{},
	}
	if err := json.Unmarshal(r.Selector, &b.Selector); err != nil {
		return b, fmt.Errorf("decode selector of batch %s: %w", r.ID, err)
	}
	return b, nil
}

// Batch reads a batch, with how its decommissions are getting on.
func (s *Service) Batch(ctx context.Context, batch id.DecommissionBatch) (Batch, error) {
	r, err := s.reads.Batch(ctx, batch)
	if errors.Is(err, pgx.ErrNoRows) {
		return Batch{}, s.rows.NoBatch()
	}
	if err != nil {
		return Batch{}, fmt.Errorf("read batch: %w", err)
	}
	list, err := s.counted(ctx, s.db, []decommissiondb.NodeDecommissionBatch{r})
	if err != nil {
		return Batch{}, err
	}
	return list[0], nil
}

// Batches reads batches, newest first.
func (s *Service) Batches(ctx context.Context, page postgres.Slice[id.DecommissionBatch]) ([]Batch, error) {
	list, err := s.reads.Batches(ctx, decommissiondb.BatchesParams{After: page.After.String(), PageSize: page.Limit})
	if err != nil {
		return nil, fmt.Errorf("list batches: %w", err)
	}
	return s.counted(ctx, s.db, list)
}

func (s *Service) counted(ctx context.Context, db decommissiondb.DBTX, list []decommissiondb.NodeDecommissionBatch) ([]Batch, error) {
	out, ids := make([]Batch, len(list)), make([]string, len(list))
	for i, r := range list {
		var err error
		if out[i], err = batchFrom(r); err != nil {
			return nil, err
		}
		ids[i] = r.ID.String()
	}
	counts, err := s.rows.Counts(ctx, db, ids...)
	if err != nil {
		return nil, err
	}
	for i := range out {
		out[i].Counts = counts[ids[i]]
	}
	return out, nil
}
