package decommission_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/testsuite"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
)

// landlord knows which tenant has which node, and what it was told about that.
type landlord struct {
	mu      sync.Mutex
	has     map[id.Node]*decommission.Tenancy
	told    []string
	refuses func(ended int) error // what End answers when it was called so often before; nil: nothing goes wrong
	ended   int
}

func renting(l *landlord) func(*decommission.Config) {
	return func(c *decommission.Config) { c.Allocations = l }
}

// stuck has a claim on every node, which it lets go of only with the request.
func stuck(err error) func(*decommission.Config) {
	return renting(&landlord{refuses: func(ended int) error {
		if ended <= 1 { // with the request, and when the node is disabled
			return nil
		}
		return err
	}})
}

// rent gives a node to a tenant.
func (l *landlord) rent(of id.Node, status string, live bool) id.Allocation {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.has == nil {
		l.has = map[id.Node]*decommission.Tenancy{}
	}
	t := &decommission.Tenancy{
		ID: id.New[id.Allocation](), Org: id.New[id.Org](), Project: id.New[id.Project](), Name: "training-7",
		Status: status, Live: live, Since: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC),
	}
	l.has[of] = t
	return t.ID
}

func (l *landlord) Of(_ context.Context, _ postgres.Querier, of id.Node) (*decommission.Tenancy, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuses != nil {
		return &decommission.Tenancy{ID: id.New[id.Allocation](), Status: "release_failed"}, nil
	}
	if t := l.has[of]; t != nil {
		shown := *t
		return &shown, nil
	}
	return nil, nil //nolint:nilnil // nobody has it
}

func (l *landlord) End(_ context.Context, _ pgx.Tx, of id.Node, by id.Decommission, reason string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuses != nil {
		l.ended++
		return l.refuses(l.ended - 1)
	}
	t := l.has[of]
	t.Live, t.Status, t.Cleanup = false, "releasing", by
	l.told = append(l.told, "end: "+reason)
	return nil
}

func (l *landlord) Cleaned(_ context.Context, _ pgx.Tx, of id.Node, by id.Decommission, proof string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = append(l.told, "cleaned: "+strings.ReplaceAll(proof, by.String(), "ID"))
	delete(l.has, of)
	return nil
}

func (l *landlord) Parked(_ context.Context, _ pgx.Tx, of id.Node, _ id.Decommission, why string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.has[of].Status = "release_failed"
	l.told = append(l.told, "parked: "+why)
	return nil
}

func (l *landlord) Resumed(_ context.Context, _ pgx.Tx, of id.Node, _ id.Decommission) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.has[of].Status = "releasing"
	l.told = append(l.told, "resumed")
	return nil
}

// heard checks what the landlord was told, each by its beginning.
func (l *landlord) heard(tb testing.TB, want ...string) {
	tb.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.EqualFunc(l.told, want, strings.HasPrefix) {
		tb.Errorf("the landlord was told\n  %s\nwant\n  %s", strings.Join(l.told, "\n  "), strings.Join(want, "\n  "))
	}
	l.told = nil
}

func ending(mode decommission.Mode) decommission.Request {
	r := asked(mode)
	r.EndAllocation = true
	return r
}

func (y *yard) begun(tb testing.TB, of id.Node, r decommission.Request) decommission.Decommission {
	tb.Helper()
	d, made, err := y.service.Request(y.ctx, of, r)
	if err != nil || !made {
		tb.Fatalf("%s: made %t, %v", r.Mode, made, err)
	}
	return d
}

// Under announced maintenance an operation begins where the tenant was told that the
// allocation ends and it may end now; otherwise the refusal says what is missing. It
// does not go with ending the allocation whatever was announced.
func TestAnnouncedMaintenancePermitsWhatTheTenantWasTold(t *testing.T) {
	l := &landlord{}
	y := newYard(t, renting(l))
	at := time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC)
	under := asked(decommission.SoftReset)
	under.UnderMaintenance = true
	for missing, m := range map[string]*decommission.Maintenance{
		"no maintenance is announced": nil,
		"told of a reboot":            {Kind: "reboot", Status: "consented", MayBegin: true},
		"has declined":                {EndsIt: true, Status: "declined", ConsentAsked: true, DueAt: at},
		"has not agreed":              {EndsIt: true, Status: "announced", ConsentAsked: true, DueAt: at},
		"ends at 2026-12-01T08":       {EndsIt: true, Status: "announced", DueAt: at},
		"ends at 2026-12-01T08:00:00": {EndsIt: true, Status: "consented", DueAt: at},
	} {
		n := y.node(t, node.Active, true)
		l.rent(n, "active", true)
		l.has[n].Maintenance = m
		_, made, err := y.service.Request(y.ctx, n, under)
		if made {
			t.Errorf("%s: it began", missing)
		}
		wantCode(t, err, fault.Conflict, "maintenance_not_open", missing, "gpuaas maintenance announce")
	}
	n := y.node(t, node.Active, true)
	l.rent(n, "active", true)
	l.has[n].Maintenance = &decommission.Maintenance{EndsIt: true, Status: "consented", MayBegin: true}
	_, _, err := y.service.Request(y.ctx, n, asked(decommission.SoftReset))
	wantCode(t, err, fault.Conflict, "node_allocated", "gpuaas maintenance announce", "--under-maintenance")
	l.heard(t)
	both := under
	both.EndAllocation = true
	_, _, err = y.service.Request(y.ctx, n, both)
	wantCode(t, err, fault.Invalid, "validation_error")
	batch := batchOf(n)
	batch.EndAllocation, batch.UnderMaintenance = true, true
	_, _, err = y.service.RequestBatch(y.ctx, batch)
	wantCode(t, err, fault.Invalid, "validation_error")
	l.heard(t)
	y.begun(t, n, under)
	l.heard(t, "end")
}

// Nothing that ends the work of a tenant begins unless somebody said so, and who
// says so knows whose work it is.
func TestTheNodeOfATenantIsLeftAlone(t *testing.T) {
	l := &landlord{}
	y := newYard(t, renting(l))
	for _, mode := range decommission.Modes() {
		from := node.Active
		if mode == decommission.Reactivate || mode == decommission.Remove {
			from = node.Retired
		}
		n := y.node(t, from, true)
		free, err := y.service.Plan(y.ctx, n, decommission.Request{Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		l.rent(n, "active", true)
		project := l.has[n].Project.String()
		blocked, err := y.service.Plan(y.ctx, n, decommission.Request{Mode: mode})
		if err != nil || len(blocked.Blocks) != 1 || blocked.Blocks[0].Code != "node_allocated" {
			t.Errorf("%s: the plan has the blocks %+v, %v", mode, blocked.Blocks, err)
		}
		_, made, err := y.service.Request(y.ctx, n, asked(mode))
		if made {
			t.Errorf("%s began on a rented node", mode)
		}
		wantCode(t, err, fault.Conflict, "node_allocated", "training-7", project, "2026-11-01", "--end-allocation")
		told, err := y.service.Plan(y.ctx, n, decommission.Request{Mode: mode, EndAllocation: true})
		if err != nil || len(told.Blocks) != 0 || !strings.Contains(told.Effects[0], "training-7") ||
			!strings.HasPrefix(told.Effects[0], "DESTROYS") {
			t.Errorf("%s: told to end it, the plan says %q, blocks %+v, %v", mode, told.Effects, told.Blocks, err)
		}
		if told.Hash == blocked.Hash || told.Hash == free.Hash || free.Hash == blocked.Hash {
			t.Errorf("%s: the hash does not know the tenant", mode)
		}
		stale := ending(mode)
		stale.PlanHash = free.Hash
		_, _, err = y.service.Request(y.ctx, n, stale)
		wantCode(t, err, fault.Conflict, "plan_stale")
		l.heard(t)
	}
	if rows := y.count(t, `SELECT count(*) FROM node_decommissions`); rows != 0 {
		t.Errorf("%d operations were begun", rows)
	}
}

// An operation that was told to ends the work of the tenant once, is its cleanup,
// and lets go of the claim when the node is proven clean.
func TestAnOperationIsTheCleanupOfATenant(t *testing.T) {
	for _, c := range []struct {
		mode    decommission.Mode
		managed bool
		heard   []string
	}{
		{decommission.SoftReset, false, []string{"cleaned: decommission ID, soft_reset proved it clean"}},
		{decommission.Reimage, true, []string{"cleaned: decommission ID, reimage proved it clean"}},
		{decommission.Retire, false, []string{"cleaned: decommission ID, retire proved it clean"}},
		{decommission.FullDecommission, true, []string{"cleaned: the node left the fleet"}},
		{decommission.Drain, false, []string{"parked: the drain has ended, and node"}},
		{decommission.StorageCleanup, false, []string{"parked: the storage_cleanup has ended, and node"}},
	} {
		t.Run(string(c.mode), func(t *testing.T) {
			l := &landlord{}
			y := newYard(t, renting(l))
			n := y.node(t, node.Active, c.managed)
			l.rent(n, "active", true)
			d := y.begun(t, n, ending(c.mode))
			if l.has[n].Cleanup != d.ID {
				t.Errorf("its cleanup is %s", l.has[n].Cleanup)
			}
			end := y.run(t, d.ID)
			if end.Status != job.Completed {
				t.Errorf("it ended as %s at %s: %s", end.Status, end.Stage, end.ErrorMessage)
			}
			l.heard(t, append([]string{"end: " + d.Reason}, c.heard...)...)
		})
	}
}

// The claim on a node that was put aside as it was ends with what proves it clean,
// or with the node.
func TestAClaimOutlastsADrain(t *testing.T) {
	for mode, cleaned := range map[decommission.Mode]string{
		decommission.Reactivate: "cleaned: decommission ID, reactivate proved it clean",
		decommission.Remove:     "cleaned: the node left the fleet",
	} {
		t.Run(string(mode), func(t *testing.T) {
			l := &landlord{}
			y := newYard(t, renting(l))
			n := y.node(t, node.Active, false)
			l.rent(n, "active", true)
			y.run(t, y.begun(t, n, ending(decommission.Drain)).ID)
			y.run(t, y.request(t, n, mode).ID)
			l.heard(t, "end: ", "parked: the drain has ended", "end: ", cleaned)
		})
	}
}

// Whoever waits for the cleanup is told when it waits itself.
func TestAParkedCleanupIsTold(t *testing.T) {
	l := &landlord{}
	y := newYard(t, renting(l))
	for _, c := range []struct {
		name  string
		heard []string
		then  []visit
	}{
		{
			"goes on",
			[]string{"end: ", "parked: ", "resumed", "cleaned: "},
			[]visit{acts(job.Resume, wellAgain)},
		},
		{
			"begins again",
			[]string{"end: ", "parked: ", "resumed", "cleaned: "},
			[]visit{acts(job.RestartClean, wellAgain)},
		},
		{
			"is cancelled",
			[]string{"end: ", "parked: ", "parked: the soft_reset that cleaned up was cancelled"},
			[]visit{acts(job.Cancel, wellAgain)},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			wellAgain(y)
			silent(t, y, id.Node{})
			n := y.node(t, node.Active, false)
			l.rent(n, "active", true)
			d := y.begun(t, n, ending(decommission.SoftReset))
			var visits []func(*testsuite.TestWorkflowEnvironment)
			for _, v := range c.then {
				visits = append(visits, v(t, y, d))
			}
			y.run(t, d.ID, visits...)
			l.heard(t, c.heard...)
		})
	}
	n := y.node(t, node.Active, false)
	l.rent(n, "active", true)
	d := y.begun(t, n, ending(decommission.SoftReset)) // and cancelled before it was begun
	if _, err := y.service.Act(y.ctx, d.ID, job.Cancel, "a mistake"); err != nil {
		t.Fatal(err)
	}
	l.heard(t, "end: ", "parked: the soft_reset that cleaned up was cancelled: a mistake")
}

// An allocation is cleaned up after by one operation, and only on the node that it
// has a claim on.
func TestAnAllocationAsksForItsCleanup(t *testing.T) {
	l := &landlord{}
	y := newYard(t, renting(l))
	n := y.node(t, node.Active, true)
	own := asked(decommission.SoftReset)
	own.CleanupOf = l.rent(n, "active", true)
	d := y.begun(t, n, own)
	again, made, err := y.service.Request(y.ctx, n, own)
	if err != nil || made || again.ID != d.ID {
		t.Errorf("asked again: %s, made %t, %v", again.ID, made, err)
	}
	other := own
	other.Mode = decommission.Reimage
	if again, made, err = y.service.Request(y.ctx, n, other); err != nil || made || again.ID != d.ID {
		t.Errorf("asked for a reimage while it is cleaned up after: %s, made %t, %v", again.ID, made, err)
	}
	y.run(t, d.ID)
	l.heard(t, "end: ", "cleaned: ")

	l.rent(n, "active", true) // the next tenant has come
	_, _, err = y.service.Request(y.ctx, n, own)
	wantCode(t, err, fault.Conflict, "allocation_not_on_node", own.CleanupOf.String())
	_, _, err = y.service.Request(y.ctx, y.node(t, node.Active, true), own)
	wantCode(t, err, fault.Conflict, "allocation_not_on_node")
	l.heard(t)
}

// A claim that no tenant works behind any more is no obstacle: whatever cleans the
// node is its cleanup.
func TestAFailedCleanupIsTakenOver(t *testing.T) {
	l := &landlord{}
	y := newYard(t, renting(l))
	n := y.node(t, node.Active, false)
	l.rent(n, "release_failed", false)
	y.run(t, y.request(t, n, decommission.SoftReset).ID)
	l.heard(t, "end: ", "cleaned: ")
}

// A node that was given to a tenant while an operation waited is not touched.
func TestATenantThatCameMeanwhileIsLeftAlone(t *testing.T) {
	l := &landlord{}
	y := newYard(t, renting(l))
	n := y.node(t, node.Active, false)
	d := y.begun(t, n, ending(decommission.SoftReset))
	l.rent(n, "active", true)
	end := y.run(t, d.ID, func(*testsuite.TestWorkflowEnvironment) {
		wants(t, y.read(t, d.ID), job.FailedManualIntervention, decommission.StageDisable, "node_allocated")
	}, y.act(t, d.ID, job.Cancel))
	if end.Status != job.Cancelled || y.stands(t, n) != "active schedulable" {
		t.Errorf("it ended as %s, and the node is %s", end.Status, y.stands(t, n))
	}
	l.heard(t)
}

// What cannot end the work of the tenant does not begin.
func TestNothingBeginsThatCannotEndTheWork(t *testing.T) {
	y := newYard(t, renting(&landlord{refuses: func(int) error {
		return fault.New(fault.Conflict, "allocation_protected", "it is protected")
	}}))
	n := y.node(t, node.Active, false)
	_, made, err := y.service.Request(y.ctx, n, ending(decommission.SoftReset))
	if wantCode(t, err, fault.Conflict, "allocation_protected"); made {
		t.Error("it began")
	}
	if rows := y.count(t, `SELECT count(*) FROM node_decommissions`); rows != 0 {
		t.Errorf("%d operations were begun", rows)
	}
}

func TestBatchesSpareTenants(t *testing.T) {
	l := &landlord{}
	y := newYard(t, renting(l))
	nodes := y.fleet(t, 3)
	l.rent(nodes[1], "active", true)
	_, _, err := y.service.RequestBatch(y.ctx, batchOf(nodes...))
	wantCode(t, err, fault.Conflict, "batch_not_eligible", "training-7")
	some := batchOf(nodes[:2]...)
	some.SkipIneligible = true
	b, left, err := y.service.RequestBatch(y.ctx, some)
	if err != nil || b.Total != 1 || len(left) != 1 || left[0].NodeID != nodes[1] || left[0].Code != "node_allocated" {
		t.Errorf("%d in the batch, left out %+v, %v", b.Total, left, err)
	}
	l.heard(t)
	all := batchOf(nodes[1:]...)
	all.EndAllocation, all.MaxParallel = true, 1
	if b, _, err = y.service.RequestBatch(y.ctx, all); err != nil || b.Total != 2 {
		t.Errorf("%d in the batch, %v", b.Total, err)
	}
	l.heard(t, "end: ")
	if _, err := y.service.CancelBatch(y.ctx, b.ID, "not today"); err != nil {
		t.Fatal(err)
	}
	l.heard(t, "parked: the soft_reset that cleaned up was cancelled: not today")
}

// No caller of the API passes for an allocation, and every way in knows how to be
// told.
func TestAttackPassingForAnAllocation(t *testing.T) {
	l := &landlord{}
	d := newDesk(t, renting(l))
	n := d.node(t, node.Active, true)
	rented := l.rent(n, "active", true)
	for _, path := range []string{"decommission", "drain", "retire", "storage-cleanup"} {
		body := object{"reason": "r"}
		switch path {
		case "decommission":
			body["mode"] = "soft_reset"
		case "storage-cleanup":
			body["scope"] = "local"
		}
		at := fmt.Sprintf("nodes/%s/%s", n, path)
		d.call(t, http.MethodPost, at, body).Refused(t, http.StatusConflict, "node_allocated", "training-7")
		body["cleanup_of"] = rented.String()
		d.call(t, http.MethodPost, at, body).Refused(t, http.StatusUnprocessableEntity, "validation_error", "cleanup_of")
	}
	d.callAs(t, httpapitest.Member, http.MethodPost, "nodes/"+n.String()+"/drain", "",
		object{"reason": "r", "end_allocation": true}).Refused(t, http.StatusForbidden,
		"insufficient_permissions")
	l.heard(t)
	d.begin(t, n, "drain", object{"reason": "told to", "end_allocation": true})
	l.heard(t, "end: told to")
}

// A tenant came and left while an operation waited for its turn: nobody else cleans
// up after that tenant.
func TestAnOperationFromBeforeATenantCleansUpAfterIt(t *testing.T) {
	l := &landlord{}
	y := newYard(t, renting(l))
	n := y.node(t, node.Active, false)
	d := y.begun(t, n, asked(decommission.SoftReset))
	l.rent(n, "release_failed", false)
	if end := y.run(t, d.ID); end.Status != job.Completed || l.has[n] != nil {
		t.Errorf("%s, told %q, claim %v", end.Status, l.told, l.has[n] != nil)
	}
}
