package allocation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/sku"
	"gpuaas/controlplane/internal/rent/allocation/internal/allocationdb"
	"gpuaas/controlplane/internal/rent/reservation"
)

// channel tells that there may be nodes for those who wait.
const channel = "allocation_requests"

// wait records a request that waits for capacity.
func (s *Service) wait(ctx context.Context, ask Ask) (Request, error) {
	var r Request
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q, who := allocationdb.New(tx), auth.From(ctx)
		org, of, err := s.mayWait(ctx, tx, ask)
		if err != nil {
			return err
		}
		if ask.HourMost, err = s.hourOf(ctx, tx, ask, org, of); err != nil {
			return err
		}
		raw, err := json.Marshal(ask)
		if err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
		row, err := q.InsertRequest(ctx, allocationdb.InsertRequestParams{
			ID: id.New[id.AllocationRequest](), OrgID: org, ProjectID: ask.Project, SkuID: ask.SKU, Nodes: ask.Count, Ask: raw,
			RequestedBy: who.ID, RequestedByName: who.Name, RequesterKind: string(who.Kind),
			CorrelationID: telemetry.Correlation(ctx), WaitSeconds: int64(ask.WaitUpTo.Seconds()),
		})
		if err != nil {
			return fmt.Errorf("record request that waits: %w", err)
		}
		if r, err = requestIn(ctx, q, row.ID); err != nil {
			return err
		}
		if err := recordRequest(ctx, tx, "allocation_request.create", r); err != nil {
			return err
		}
		if err := tellOfRequest(ctx, tx, r, "it waits for capacity"); err != nil {
			return err
		}
		return postgres.Notify(ctx, tx, channel, r.Ask.SKU) // something may have become free meanwhile
	})
	return r, err
}

// mayWait refuses what a project may not wait for: one more request than the most, or
// more than its quotas allow together with all that is held and waited for already.
// Requests of a project begin to wait one after the other.
func (s *Service) mayWait(ctx context.Context, tx pgx.Tx, ask Ask) (org id.Org, of sku.SKU, err error) {
	q := allocationdb.New(tx)
	if org, err = renterOf(ctx, q, ask.Project); err != nil {
		return org, of, err
	}
	if err := q.LockWaiting(ctx, ask.Project.String()); err != nil {
		return org, of, fmt.Errorf("lock requests that wait: %w", err)
	}
	n, err := q.CountWaiting(ctx, ask.Project)
	if err != nil {
		return org, of, fmt.Errorf("count requests that wait: %w", err)
	}
	if n >= maxWaiting {
		return org, of, tooManyWaiting()
	}
	if of, err = offered(ctx, tx, ask); err != nil {
		return org, of, err
	}
	return org, of, s.admit(ctx, tx, Admitted{
		Org: org, Project: ask.Project, SKU: ask.SKU, GPUs: ask.Count * of.GPUsTotal, Nodes: ask.Count, Waits: true,
		Placed: placedFor(ctx, ask, org),
	})
}

// placedFor says whether an operator places something for others.
func placedFor(ctx context.Context, ask Ask, org id.Org) bool {
	return ask.Placed &&
		auth.From(ctx).Decide(auth.AllocationUse, auth.Target{Org: org, Project: ask.Project}) != auth.Allowed
}

// hourOf is what a node may cost for an hour while a request waits: what the request
// names, or else the price of this moment; nil: nothing is charged.
func (s *Service) hourOf(ctx context.Context, tx pgx.Tx, ask Ask, org id.Org, of sku.SKU) (*int64, error) {
	if s.pricing == nil {
		return nil, nil //nolint:nilnil // nothing is charged
	}
	now, err := s.pricing.Quote(ctx, tx, Priced{
		Org: org, Project: ask.Project, SKU: of.ID, GPUs: of.GPUsTotal, Lasts: ask.ExpiresIn,
		Machines: ask.Count, Placed: placedFor(ctx, ask, org),
	})
	if err == nil {
		err = ask.affords(now)
	}
	if err != nil || ask.HourMost != nil || now.Currency == "" {
		return ask.HourMost, err
	}
	return &now.Hour, nil
}

// errNotWaiting says that a request does not wait any more, or that another replica
// is at work on it.
var errNotWaiting = errors.New("the request does not wait")

// admitWaiting places a request that waits, in a transaction, as a request of this
// moment: quotas and the rights of whoever asked count now.
func (s *Service) admitWaiting(ctx context.Context, tx pgx.Tx, of Request) ([]Allocation, error) {
	row, err := allocationdb.New(tx).TakeRequest(ctx, of.ID)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, errNotWaiting
	}
	if err != nil {
		return nil, fmt.Errorf("lock request %s: %w", of.ID, err)
	}
	r, err := requestFrom(row, 0)
	if err != nil {
		return nil, err
	}
	ctx = telemetry.WithCorrelation(ctx, r.Correlation)
	own, err := s.stillMay(ctx, tx, r)
	if err != nil {
		return nil, err
	}
	made, err := s.create(ctx, tx, r.Ask, plot{by: r.By, own: own, request: r.ID, waited: time.Since(r.CreatedAt)})
	if err != nil {
		return nil, err
	}
	_, err = endRequest(ctx, tx, r, PlaceRequest, made, Failure{})
	return made, err
}

// stillMay refuses a request whose requester has lost the right to rent, and says
// whether that is somebody of the project.
func (s *Service) stillMay(ctx context.Context, tx pgx.Tx, r Request) (own bool, err error) {
	if s.members == nil {
		return true, nil
	}
	own, err = s.members.StillMay(ctx, tx, r.By.ID, auth.AllocationUse, auth.Target{Org: r.Org, Project: r.Project})
	if err != nil || own {
		return own, err
	}
	may, err := s.members.StillMay(ctx, tx, r.By.ID, auth.AllocationForce, auth.Target{}) // an operator may ask for others
	if err != nil || may {
		return false, err
	}
	return false, fault.New(fault.Forbidden, "insufficient_permissions",
		"whoever asked may not rent for the project any more").WithRemedy("somebody who may has to ask again")
}

// Serve places requests that wait, as far as there are nodes, each SKU in the order
// of its queue. It says how many it placed. Any number of replicas may run it.
func (s *Service) Serve(ctx context.Context) (placed int, err error) {
	ctx = auth.With(ctx, auth.System("allocation-queue"))
	skus, err := allocationdb.New(s.db).AwaitedSKUs(ctx)
	if err != nil {
		return 0, fmt.Errorf("list SKUs that are waited for: %w", err)
	}
	var failed error
	for _, sku := range skus {
		n, err := s.serve(ctx, sku)
		placed, failed = placed+n, errors.Join(failed, err)
	}
	return placed, failed
}

// serve goes through the queue of a SKU until nothing more can be placed. The order
// is read again after every placement, because tenants and projects take turns.
func (s *Service) serve(ctx context.Context, sku string) (placed int, err error) {
	for {
		queue, err := allocationdb.New(s.db).Queue(ctx, sku)
		if err != nil {
			return placed, fmt.Errorf("read queue of %s: %w", sku, err)
		}
		owners, err := reservation.OwnersOf(ctx, s.db, sku)
		if err != nil {
			return placed, err
		}
		again, err := s.serveOne(ctx, queue, owners)
		if err != nil || !again {
			return placed, err
		}
		placed++
	}
}

// serveOne places the first of a queue that can be placed.
func (s *Service) serveOne(ctx context.Context, queue []allocationdb.QueueRow, owners reservation.Owners) (
	placed bool, err error,
) {
	lacks := map[string]bool{} // wishes that found nothing: what is free is kept for the first who asked for the same
	for _, row := range queue {
		of, err := id.Parse[id.AllocationRequest](row.ID)
		if err != nil {
			return false, fmt.Errorf("read id of request: %w", err)
		}
		r := Request{ID: of}
		if err := json.Unmarshal(row.Ask, &r.Ask); err != nil {
			return false, fmt.Errorf("decode request %s: %w", of, err)
		}
		same, err := r.Ask.key()
		if err != nil {
			return false, err
		}
		if owners.Cover(row.OrgID, r.Ask.Project) {
			same += r.Ask.Project.String() // there may be something for it that others cannot have
		}
		if lacks[same] {
			continue
		}
		_, lacking, err := s.attempt(ctx, r.Ask, &r, nil)
		switch f, refused := fault.As(err); {
		case errors.Is(err, errNotWaiting):
		case refused && f.Kind != fault.Unavailable && f.Kind != fault.Internal:
			if err := s.refuse(ctx, of, f); err != nil {
				return false, err
			}
		case err != nil:
			return false, err
		case lacking == nil:
			return true, nil
		default:
			lacks[same] = true
		}
	}
	return false, nil
}

// refuse ends a request that may not be placed any more.
func (s *Service) refuse(ctx context.Context, of id.AllocationRequest, why *fault.Error) error {
	return s.end(ctx, of, RefuseRequest, Failure{Code: why.Code, Reason: why.Message, Remedy: why.Remedy})
}

func (s *Service) end(ctx context.Context, of id.AllocationRequest, event RequestEvent, f Failure) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		r, err := lockRequest(ctx, allocationdb.New(tx), of)
		if err != nil || r.Status != Waiting {
			return err
		}
		_, err = endRequest(ctx, tx, r, event, nil, f)
		return err
	})
}

// Cancel takes a request back that waits. One that was taken back already stays so.
func (s *Service) Cancel(ctx context.Context, of id.AllocationRequest) (Request, error) {
	var now Request
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		r, err := lockRequest(ctx, allocationdb.New(tx), of)
		if now = r; err != nil || r.Status == RequestCancelled {
			return err
		}
		if now, err = endRequest(ctx, tx, r, CancelRequest, nil, Failure{}); err != nil {
			return err
		}
		return recordRequest(ctx, tx, "allocation_request.cancel", now)
	})
	return now, err
}

// GiveUp ends requests that have waited for as long as they were told to.
func (s *Service) GiveUp(ctx context.Context) (ended int, err error) {
	ctx = auth.With(ctx, auth.System("allocation-queue"))
	due, err := allocationdb.New(s.db).OverdueRequests(ctx)
	if err != nil {
		return 0, fmt.Errorf("list requests that waited long enough: %w", err)
	}
	for _, of := range due {
		if err := s.end(ctx, of, ExpireRequest, Failure{
			Code: CodeUnavailable, Reason: "there was no capacity for as long as it waited", Remedy: "ask again, or for less",
		}); err != nil {
			return ended, err
		}
		ended++
	}
	return ended, nil
}

// endRequest takes an edge of the lifecycle of requests, and tells of it.
func endRequest(ctx context.Context, tx pgx.Tx, r Request, event RequestEvent, made []Allocation, f Failure) (Request,
	error,
) {
	next, err := RequestLifecycle.Next(r.Status, event)
	if err != nil {
		return r, err
	}
	ids := make([]string, len(made))
	for i, a := range made {
		ids[i] = a.ID.String()
	}
	p := allocationdb.EndRequestParams{
		ID: r.ID, ToStatus: string(next), AllocationIds: ids, Code: f.Code, Reason: f.Reason, Remedy: f.Remedy,
	}
	if event == CancelRequest {
		p.EndedBy = auth.From(ctx).ID
	}
	row, err := allocationdb.New(tx).EndRequest(ctx, p)
	if err != nil {
		return r, fmt.Errorf("end request %s: %w", r.ID, err)
	}
	now, err := requestFrom(row, 0)
	if err != nil {
		return r, err
	}
	return now, tellOfRequest(ctx, tx, now, f.Reason)
}

var requestEvents = map[RequestStatus]eventwire.Type{
	Waiting: eventwire.AllocationRequestWaiting, Placed: eventwire.AllocationRequestPlaced,
	RequestCancelled: eventwire.AllocationRequestCancelled, RequestExpired: eventwire.AllocationRequestExpired,
	Refused: eventwire.AllocationRequestRefused,
}

// tellOfRequest publishes that a request has entered its state.
func tellOfRequest(ctx context.Context, tx pgx.Tx, r Request, message string) error {
	ids := make([]string, len(r.Allocations))
	for i, a := range r.Allocations {
		ids[i] = a.String()
	}
	return outbox.Append(ctx, tx, outbox.Event{
		Type: requestEvents[r.Status], AggregateKind: "allocation_request", AggregateID: r.ID.String(), Org: r.Org,
		Project: r.Project,
		Payload: eventwire.AllocationRequest{
			RequestID: r.ID.String(), Status: string(r.Status), Name: r.Ask.Name, SKU: r.Ask.SKU, Count: r.Ask.Count,
			Region: r.Ask.Wish.Region, RequestedBy: r.By.ID, WaitUntil: r.WaitUntil, AllocationIDs: ids, Code: r.Failure.Code,
			Message: message, Remedy: r.Failure.Remedy,
		},
	})
}

func recordRequest(ctx context.Context, tx pgx.Tx, action string, r Request) error {
	return audit.Record(ctx, tx, audit.Entry{
		Action: action, TargetKind: "allocation_request", TargetID: r.ID.String(), Org: r.Org, Project: r.Project,
		Result:   audit.Success,
		Metadata: map[string]any{"sku": r.Ask.SKU, "count": r.Ask.Count, "wait_until": r.WaitUntil},
	})
}

// The shortest and the longest pause before subscribing again.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 3 * time.Second
)

// Attend serves those who wait as soon as the database tells that a node may be had,
// until the context ends. What is missed while nobody listens, Tend finds.
func (s *Service) Attend(ctx context.Context) {
	woken := make(chan struct{}, 1)
	wake := func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	}
	go s.listen(ctx, wake)
	for {
		select {
		case <-ctx.Done():
			return
		case <-woken:
		}
		if _, err := s.Serve(ctx); err != nil && ctx.Err() == nil {
			s.logger.WarnContext(ctx, "requests that wait for nodes could not be placed; they are tried again", "error", err)
		}
	}
}

func (s *Service) listen(ctx context.Context, wake func()) {
	again := firstPause
	for ctx.Err() == nil {
		err := s.db.Listen(ctx, channel, func() { again = firstPause; wake() }, func(string) { wake() })
		if ctx.Err() != nil {
			return
		}
		s.logger.WarnContext(ctx, "notifications of free nodes lost; subscribing again", "error", err)
		if pause(ctx, again*3/4+rand.N(again/2)) != nil { //nolint:gosec // jitter, not a secret
			return
		}
		again = min(2*again, longestPause)
	}
}

// Tend does what the passing of time requires: it warns of ends, ends allocations and
// requests whose time is over, looks after those who wait, in case nobody told of a node,
// and has all keys reviewed now and then.
func (s *Service) Tend(ctx context.Context) error {
	_, warned := s.Warn(ctx)
	_, expired := s.Expire(ctx)
	_, gaveUp := s.GiveUp(ctx)
	_, served := s.Serve(ctx)
	return errors.Join(warned, expired, gaveUp, served, s.ReviewHourly(ctx))
}
