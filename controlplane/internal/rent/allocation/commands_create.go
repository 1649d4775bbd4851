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
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/sku"
	"gpuaas/controlplane/internal/people/sshkey"
	"gpuaas/controlplane/internal/rent/allocation/internal/allocationdb"
)

// races limits how often a request is tried again that only failed because others
// had locked the nodes it could have.
const races = 5

// Create places allocations and records them, all or none. Each node is one
// allocation; several that were asked for together share a group.
func (s *Service) Create(ctx context.Context, ask Ask) ([]Allocation, error) {
	ask, err := ask.checked()
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		var made []Allocation
		err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
			var err error
			made, err = s.create(ctx, tx, ask)
			return err
		})
		var missing *short
		if !errors.As(err, &missing) {
			return made, err
		}
		// The claims of this attempt are undone, so that what is counted is what there is.
		now, err := census(ctx, allocationdb.New(s.db), missing.look)
		switch {
		case err != nil:
			return nil, err
		case !ask.Wish.Node.IsZero():
			return nil, notThatNode()
		case now.Free < ask.Count:
			return nil, now.refusal(ask.Count)
		case attempt == races:
			return nil, now.locked(now.Free - ask.Count + 1).refusal(ask.Count)
		}
		if err := pause(ctx, time.Duration(attempt)*10*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// notThatNode refuses a node that an administrator named.
func notThatNode() error {
	return fault.New(fault.Conflict, CodeUnavailable,
		"the node that was asked for cannot be let now, or is of another SKU").
		WithRemedy("see why: gpuaas node show NODE")
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func (s *Service) create(ctx context.Context, tx pgx.Tx, ask Ask) ([]Allocation, error) {
	q := allocationdb.New(tx)
	org, err := q.OrgOf(ctx, ask.Project)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.New(fault.NotFound, "project_not_found", "there is no such project").
			WithRemedy("see which there are: gpuaas project list")
	}
	if err != nil {
		return nil, fmt.Errorf("read tenant of project: %w", err)
	}
	of, err := offered(ctx, tx, ask)
	if err != nil {
		return nil, err
	}
	if s.admission != nil {
		if err := s.admission.Admit(ctx, tx, Admitted{
			Org: org, Project: ask.Project, SKU: of.ID, GPUs: ask.Count * of.GPUsTotal, Nodes: ask.Count,
		}); err != nil {
			return nil, err
		}
	}
	keys, err := keysOf(ctx, tx, org, ask)
	if err != nil {
		return nil, err
	}
	spots, err := s.place(ctx, q, of.ID, ask)
	if err != nil {
		return nil, err
	}
	var group id.AllocationGroup
	if ask.Count > 1 {
		group = id.New[id.AllocationGroup]()
	}
	made := make([]Allocation, len(spots))
	for i, at := range spots {
		if made[i], err = s.insert(ctx, tx, ask, plot{org: org, group: group, sku: of, keys: keys, spot: at}); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// offered is the SKU of a request, as far as it can be rented.
func offered(ctx context.Context, tx pgx.Tx, ask Ask) (sku.SKU, error) {
	of, err := sku.Get(ctx, tx, ask.SKU)
	if fault.KindOf(err) == fault.NotFound {
		return of, fault.New(fault.Conflict, CodeUnavailable, "there is no SKU %.63q", ask.SKU).
			WithRemedy("see what can be rented: gpuaas sku list")
	}
	if err != nil {
		return of, err
	}
	return of, ask.fits(of)
}

// keysOf are the keys of a request: those it names, or those of the person who asks
// and of the project. Whoever may not use allocations of the project cannot get in
// with keys of their own: operators place allocations for others, and that must not
// be a way around the permission for terminals.
func keysOf(ctx context.Context, tx pgx.Tx, org id.Org, ask Ask) ([]Key, error) {
	owner := sshkey.Owner{Project: ask.Project}
	who := auth.From(ctx)
	ofProject := who.Decide(auth.AllocationUse, auth.Target{Org: org, Project: ask.Project}) == auth.Allowed
	if who.Kind == auth.KindUser && ofProject {
		if user, err := id.Parse[id.User](who.ID); err == nil {
			owner.User = user
		}
	}
	found, err := sshkey.Usable(ctx, tx, owner, ask.Keys)
	if fault.KindOf(err) == fault.NotFound && !ofProject {
		return nil, fault.New(fault.Forbidden, "ssh_key_not_of_project",
			"you have no role in the project: only keys that the project shares can be used").
			WithRemedy("name keys of the project (gpuaas key list --project PROJECT), or have a member of the project ask for it")
	}
	if err != nil {
		return nil, err
	}
	keys := make([]Key, len(found))
	for i, k := range found {
		keys[i] = Key{ID: k.ID, Name: k.Name, PublicKey: k.PublicKey, Fingerprint: k.Fingerprint}
	}
	return keys, nil
}

// plot is what an allocation is made of besides the request.
type plot struct {
	org   id.Org
	group id.AllocationGroup
	sku   sku.SKU
	keys  []Key
	spot  spot
}

func (s *Service) insert(ctx context.Context, tx pgx.Tx, ask Ask, p plot) (Allocation, error) {
	who, q := auth.From(ctx), allocationdb.New(tx)
	row := allocationdb.InsertParams{
		ID: p.spot.allocation, OrgID: p.org, ProjectID: ask.Project, GroupID: p.group, Name: ask.Name,
		CapacityShape: string(shapeOf(p.sku.CapacityShape)), SkuID: p.sku.ID, PriceMinor: p.sku.PriceMinor,
		PriceCurrency: p.sku.PriceCurrency, Gpus: p.sku.GPUsTotal, RegionCode: p.spot.region, NodeID: p.spot.node,
		Hostname: p.spot.hostname, Access: string(ask.Access), Protected: ask.Protected, EventID: id.New[id.Event](),
		RequestedBy: who.ID, RequestedByName: who.Name, CorrelationID: telemetry.Correlation(ctx),
		WaitingFor: "a worker that takes it up",
	}
	if ask.ExpiresIn > 0 {
		end := time.Now().Add(ask.ExpiresIn)
		row.ExpiresAt = &end
	}
	labels := ask.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	for to, value := range map[*json.RawMessage]any{
		&row.Labels: labels, &row.SkuTerms: p.sku.Terms, &row.Wish: ask.Wish, &row.SshKeys: p.keys,
	} {
		raw, err := json.Marshal(value)
		if err != nil {
			return Allocation{}, fmt.Errorf("encode allocation: %w", err)
		}
		*to = raw
	}
	var err error
	if row.Uid, row.Username, err = account(ctx, q, p.spot.node); err != nil {
		return Allocation{}, err
	}
	a, err := found(q.Insert(ctx, row))
	if err != nil {
		return a, err
	}
	if err := note(ctx, tx, a, "request", "asked for, and placed on "+a.Hostname, nil); err != nil {
		return a, err
	}
	if err := record(ctx, tx, "allocation.create", a, "", map[string]any{
		"sku": a.SKU, "gpus": a.GPUs, "node_id": a.Node, "hostname": a.Hostname, "access": a.Access,
		"expires_at": a.ExpiresAt,
	}); err != nil {
		return a, err
	}
	if err := announce(ctx, tx, a, ""); err != nil {
		return a, err
	}
	return a, outbox.StartWorkflow(ctx, tx, outbox.WorkflowStart{
		Type: provisionType, ID: a.WorkflowID(), Queue: queue, Input: Input{ID: a.ID},
	})
}

// account is the account of the next allocation on a node. Neither its uid nor its
// name was used on the installation before.
func account(ctx context.Context, q *allocationdb.Queries, node id.Node) (uid int32, username string, err error) {
	uid, err = q.NextUID(ctx, node)
	if err != nil {
		return 0, "", fmt.Errorf("take uid of node: %w", err)
	}
	return uid, fmt.Sprintf("u%d", uid), nil
}

// record adds an entry to the audit log.
func record(ctx context.Context, tx pgx.Tx, action string, a Allocation, reason string, metadata map[string]any) error {
	return audit.Record(ctx, tx, audit.Entry{
		Action: action, TargetKind: aggregate, TargetID: a.ID.String(), Org: a.Org, Project: a.Project, Result: audit.Success,
		Reason: reason, Metadata: metadata,
	})
}
