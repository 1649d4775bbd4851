package allocation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/currency"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/sku"
	"gpuaas/controlplane/internal/people/sshkey"
	"gpuaas/controlplane/internal/rent/allocation/internal/allocationdb"
	"gpuaas/controlplane/internal/rent/rentalsettings"
)

// races limits how often a request is tried again that only failed because others
// had locked the nodes it could have.
const races = 5

// Request places allocations, or lets the request wait for capacity where there is
// not enough and it is ready to wait. What is refused for another reason does not
// wait.
func (s *Service) Request(ctx context.Context, ask Ask) (Outcome, error) {
	ask, err := ask.checked()
	if err == nil {
		err = ask.askable(ctx)
	}
	if err != nil {
		return Outcome{}, err
	}
	var cost *Cost
	made, lacking, err := s.attempt(ctx, ask, nil, &cost)
	switch {
	case err != nil || lacking == nil:
		return Outcome{Allocations: made, Cost: cost}, err
	case ask.WaitUpTo == 0 || lacking.ever() < ask.Count: // waiting would not help
		return Outcome{}, lacking.seenBy(ctx).refusal(ask.Count)
	}
	r, err := s.wait(ctx, ask)
	return Outcome{Request: &r}, err
}

// Create places allocations and records them, all or none. Each node is one
// allocation; several that were asked for together share a group. It does not wait.
func (s *Service) Create(ctx context.Context, ask Ask) ([]Allocation, error) {
	ask.WaitUpTo = 0
	made, err := s.Request(ctx, ask)
	return made.Allocations, err
}

// attempt tries to place a request once, one that waits or a new one (nil). Where
// there is not enough, it says what there is.
func (s *Service) attempt(ctx context.Context, ask Ask, waiting *Request, cost **Cost) (made []Allocation,
	lacking *Capacity, err error,
) {
	for attempt := 1; ; attempt++ {
		err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
			var err error
			if waiting == nil {
				*cost = nil // the attempt before was undone
				made, err = s.create(ctx, tx, ask, plot{by: askerOf(auth.From(ctx)), cost: cost})
			} else {
				made, err = s.admitWaiting(ctx, tx, *waiting)
			}
			return err
		})
		var missing *short
		switch {
		case errors.As(err, &missing):
		case errors.Is(err, errQueued) && attempt < races:
			continue
		default:
			return made, nil, err
		}
		// The claims of this attempt are undone, so that what is counted is what there is.
		now, err := census(ctx, allocationdb.New(s.db), missing.look, missing.kept)
		switch {
		case err != nil:
			return nil, nil, err
		case !ask.Wish.Node.IsZero():
			return nil, nil, notThatNode()
		case now.Free < ask.Count:
			return nil, &now, nil
		case attempt == races:
			now = now.locked(now.Free - ask.Count + 1)
			return nil, &now, nil
		}
		if err := pause(ctx, time.Duration(attempt)*10*time.Millisecond); err != nil {
			return nil, nil, err
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

// orgOf is the tenant of a project.
func orgOf(ctx context.Context, q *allocationdb.Queries, project id.Project) (id.Org, error) {
	of, err := tenantOfProject(ctx, q, project)
	return of.OrgID, err
}

// renterOf is the tenant of a project, if it may have something new.
func renterOf(ctx context.Context, q *allocationdb.Queries, project id.Project) (id.Org, error) {
	of, err := tenantOfProject(ctx, q, project)
	if err == nil && of.Disabled {
		err = fault.New(fault.Forbidden, "tenant_disabled", "tenant %s is disabled: nothing new is let to it", of.Slug).
			WithRemedy("ask the operator of the platform to enable it; why it is disabled: gpuaas tenant get %s", of.Slug)
	}
	return of.OrgID, err
}

func tenantOfProject(ctx context.Context, q *allocationdb.Queries, project id.Project) (allocationdb.OrgOfRow, error) {
	of, err := q.OrgOf(ctx, project)
	if errors.Is(err, pgx.ErrNoRows) {
		return of, fault.New(fault.NotFound, "project_not_found", "there is no such project").
			WithRemedy("see which there are: gpuaas project list")
	}
	if err != nil {
		return of, fmt.Errorf("read tenant of project: %w", err)
	}
	return of, nil
}

// create places a request in a transaction. What it was made of besides is in from.
func (s *Service) create(ctx context.Context, tx pgx.Tx, ask Ask, from plot) ([]Allocation, error) {
	q := allocationdb.New(tx)
	var err error
	if from.org, err = renterOf(ctx, q, ask.Project); err != nil {
		return nil, err
	}
	if from.sku, err = offered(ctx, tx, ask); err != nil {
		return nil, err
	}
	if ask, err = allowed(ctx, tx, from.org, ask); err != nil {
		return nil, err
	}
	if from.request.IsZero() {
		from.own = auth.From(ctx).Decide(auth.AllocationUse, auth.Target{Org: from.org, Project: ask.Project}) == auth.Allowed
	}
	if err := s.admit(ctx, tx, Admitted{
		Org: from.org, Project: ask.Project, SKU: ask.SKU, GPUs: ask.Count * from.sku.GPUsTotal, Nodes: ask.Count,
		Placed: ask.Placed && !from.own,
	}); err != nil {
		return nil, err
	}
	if from.keys, err = keysOf(ctx, tx, ask, from); err != nil {
		return nil, err
	}
	others, err := s.keepUnderLock(ctx, tx, from.org, ask, from.request)
	if err != nil {
		return nil, err
	}
	spots, err := s.place(ctx, q, ask, others)
	if err != nil {
		return nil, err
	}
	if ask.Count > 1 {
		from.group = id.New[id.AllocationGroup]()
	}
	made := make([]Allocation, len(spots))
	for i, at := range spots {
		from.spot = at
		one := ask
		if ask.Count > 1 && ask.Name != "" {
			one.Name = fmt.Sprintf("%s-%d", ask.Name, i+1) // people log in by the name
		}
		if made[i], err = s.insert(ctx, tx, one, from); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// admit refuses what a project may not have.
func (s *Service) admit(ctx context.Context, tx pgx.Tx, what Admitted) error {
	if s.admission == nil {
		return nil
	}
	return s.admission.Admit(ctx, tx, what)
}

// allowed is a request as the tenant and the project let it be made.
func allowed(ctx context.Context, tx pgx.Tx, org id.Org, ask Ask) (Ask, error) {
	rules, err := rentalsettings.InForce(ctx, tx, org, ask.Project)
	if err != nil {
		return ask, err
	}
	return ask.within(rules)
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
func keysOf(ctx context.Context, tx pgx.Tx, ask Ask, from plot) ([]Key, error) {
	owner := sshkey.Owner{Project: ask.Project}
	if from.by.Kind == auth.KindUser && from.own {
		if user, err := id.Parse[id.User](from.by.ID); err == nil {
			owner.User = user
		}
	}
	found, err := sshkey.Usable(ctx, tx, owner, ask.Keys)
	if fault.KindOf(err) == fault.NotFound && !from.own {
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
	by      asker
	own     bool                 // whoever asked may use allocations of the project
	request id.AllocationRequest // zero: it did not wait
	waited  time.Duration
	org     id.Org
	group   id.AllocationGroup
	sku     sku.SKU
	keys    []Key
	spot    spot
	cost    **Cost // what it costs is added here; nil: nobody asks
}

// asked says for people how an allocation began.
func (p plot) asked(on string) string {
	if p.request.IsZero() {
		return "asked for, and placed on " + on
	}
	return fmt.Sprintf("placed on %s after it waited for %s", on, p.waited.Round(time.Second))
}

func (s *Service) insert(ctx context.Context, tx pgx.Tx, ask Ask, p plot) (Allocation, error) {
	q := allocationdb.New(tx)
	var err error
	if p.sku, err = s.priced(ctx, tx, ask, p); err != nil {
		return Allocation{}, err
	}
	row := allocationdb.InsertParams{
		ID: p.spot.allocation, OrgID: p.org, ProjectID: ask.Project, GroupID: p.group, Name: ask.Name,
		CapacityShape: string(shapeOf(p.sku.CapacityShape)), SkuID: p.sku.ID, PriceMinor: p.sku.PriceMinor,
		PriceCurrency: p.sku.PriceCurrency, Gpus: p.sku.GPUsTotal, RegionCode: p.spot.region, NodeID: p.spot.node,
		Hostname: p.spot.hostname, Access: string(ask.Access), Protected: ask.Protected, EventID: id.New[id.Event](),
		RequestedBy: p.by.ID, RequestedByName: p.by.Name, CorrelationID: telemetry.Correlation(ctx),
		WaitingFor: "a worker to start it",
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
	if row.Uid, row.Username, err = account(ctx, q, p.spot.node); err != nil {
		return Allocation{}, err
	}
	a, err := found(q.Insert(ctx, row))
	if err != nil {
		return a, err
	}
	if err := note(ctx, tx, a, "request", p.asked(a.Hostname), nil); err != nil {
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
	return a, s.ahead.Start(ctx, tx, outbox.WorkflowStart{
		Type: provisionType, ID: a.WorkflowID(), Queue: queue, Input: Input{ID: a.ID},
	}, func(ctx context.Context) (outbox.Rest, error) {
		placement, err := (&Activities{s}).BeginProvisioning(ctx, a.ID)
		return outbox.Rest{Done: err == nil && placement == 0}, err
	})
}

// priced is the SKU of an allocation at the price that was agreed on for it.
func (s *Service) priced(ctx context.Context, tx pgx.Tx, ask Ask, p plot) (sku.SKU, error) {
	if s.pricing == nil {
		return p.sku, nil
	}
	price, err := s.pricing.Freeze(ctx, tx, Priced{
		Allocation: p.spot.allocation, Org: p.org, Project: ask.Project, SKU: p.sku.ID, GPUs: p.sku.GPUsTotal,
		Lasts: ask.ExpiresIn, Placed: ask.Placed && !p.own,
	})
	if err == nil {
		err = ask.affords(price)
	}
	if err == nil && price.Currency != "" {
		p.sku.PriceMinor, p.sku.PriceCurrency = price.Minor, price.Currency
	}
	if err == nil && p.cost != nil {
		*p.cost = (*p.cost).with(price, ask.ExpiresIn)
	}
	return p.sku, err
}

// affords refuses what costs more than the request names, or than when it was asked for.
func (a Ask) affords(now Price) error {
	switch {
	case a.HourMost == nil || now.Currency == "":
		return nil
	case a.HourIn != "" && a.HourIn != now.Currency:
		return fault.New(fault.Conflict, "currency_mismatch", "the tenant pays in %s, the most that a node may cost is in %s",
			now.Currency, a.HourIn).WithRemedy("name the most in %s", now.Currency).
			WithFields(fault.Field{Path: "body.hour_most.currency", Message: "must be " + now.Currency})
	case now.Hour <= *a.HourMost:
		return nil
	}
	costs, most := currency.Format(now.Hour, now.Currency), currency.Format(*a.HourMost, now.Currency)
	if a.HourIn != "" {
		return fault.New(fault.Conflict, "price_above_limit", "a node costs %s an hour, and may cost %s", costs, most).
			WithRemedy("name a higher limit, if it is worth that; what it costs: gpuaas allocation explain")
	}
	return fault.New(fault.Conflict, "price_changed", "a node costs %s an hour now, and cost %s when it was asked for",
		costs, most).WithRemedy("ask again, if it is worth that")
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
