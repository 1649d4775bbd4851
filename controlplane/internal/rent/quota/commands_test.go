package quota_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/rent/quota"
)

const (
	big   = "mi300x.192g.8gpu"
	other = "h200-sxm-baremetal-8g"
)

// world is a tenant with two projects, and a table of what they hold.
type world struct {
	db       *postgres.DB
	quotas   *quota.Service
	org      id.Org
	projects [2]id.Project
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	db, owner := postgrestest.NewWithOwner(tb)
	w := &world{db: db, org: id.New[id.Org]()}
	w.quotas = quota.New(db, w)
	exec := func(query string, args ...any) {
		if _, err := db.Exec(tb.Context(), query, args...); err != nil {
			tb.Fatal(err)
		}
	}
	exec(`INSERT INTO organizations (id, slug, name) VALUES ($1, 'acme', 'Acme')`, w.org)
	for i, slug := range []string{"training", "serving"} {
		w.projects[i] = id.New[id.Project]()
		exec(`INSERT INTO projects (id, org_id, slug, name) VALUES ($1, $2, $3, $3)`, w.projects[i], w.org, slug)
	}
	if _, err := owner.Exec(tb.Context(), `CREATE TABLE holdings (org uuid, project uuid, sku text, gpus int, nodes int,
			waits boolean DEFAULT false);
		GRANT ALL ON holdings TO gpuaas_app`); err != nil {
		tb.Fatal(err)
	}
	return w
}

// Held counts the table of the test.
func (w *world) Held(
	ctx context.Context, tx pgx.Tx, org id.Org, project id.Project, sku string,
) (gpus, nodes int32, err error) {
	return counted(ctx, tx, false, org, project, sku)
}

// Awaited counts those rows of the table of the test that wait.
func (w *world) Awaited(
	ctx context.Context, tx pgx.Tx, org id.Org, project id.Project, sku string,
) (gpus, nodes int32, err error) {
	return counted(ctx, tx, true, org, project, sku)
}

func counted(ctx context.Context, tx pgx.Tx, waits bool, org id.Org, project id.Project, sku string) (
	gpus, nodes int32, err error,
) {
	err = tx.QueryRow(ctx, `SELECT coalesce(sum(gpus), 0), coalesce(sum(nodes), 0) FROM holdings WHERE waits = $4
		AND org = $1 AND ($2::uuid IS NULL OR project = $2) AND ($3 = '' OR sku = $3)`, org, project, sku, waits).
		Scan(&gpus, &nodes)
	return gpus, nodes, err
}

// take asks and, when admitted, holds.
func (w *world) take(ctx context.Context, a quota.Ask) error {
	return w.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := w.quotas.Admit(ctx, tx, a); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO holdings VALUES ($1, $2, $3, $4, $5, $6)`, a.Org, a.Project, a.SKU, a.GPUs, a.Nodes,
			a.Waits)
		return err
	})
}

func (w *world) set(tb testing.TB, project id.Project, sku string, gpus, nodes *int32) {
	tb.Helper()
	if _, err := w.quotas.Set(admin(tb), quota.Owner{Org: w.org, Project: project}, sku,
		quota.Limits{GPUs: gpus, Nodes: nodes}); err != nil {
		tb.Fatal(err)
	}
}

func admin(tb testing.TB) context.Context {
	tb.Helper()
	return auth.With(tb.Context(), &auth.Principal{Kind: auth.KindUser, ID: id.NewString(), Platform: auth.PlatformAdmin})
}

func TestWithoutAQuotaThereIsNoLimit(t *testing.T) {
	w := newWorld(t)
	a := quota.Ask{Org: w.org, Project: w.projects[0], SKU: big, GPUs: 8000, Nodes: 1000}
	if err := w.take(t.Context(), a); err != nil {
		t.Fatal(err)
	}
}

func TestARefusalNamesEveryLimitThatIsExceeded(t *testing.T) {
	w := newWorld(t)
	w.set(t, id.Project{}, "", new(int32(16)), nil)
	w.set(t, id.Project{}, big, new(int32(16)), new(int32(2)))
	w.set(t, w.projects[0], "", nil, new(int32(1)))
	w.set(t, w.projects[1], "", nil, new(int32(0))) // of the neighbour: does not apply
	a := quota.Ask{Org: w.org, Project: w.projects[0], SKU: big, GPUs: 8, Nodes: 1}
	if err := w.take(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	a.GPUs, a.Nodes = 16, 2
	err := w.take(t.Context(), a)
	f, ok := fault.As(err)
	if !ok || f.Kind != fault.Forbidden || f.Code != "quota_exceeded" || f.Remedy == "" {
		t.Fatalf("%v", err)
	}
	got := map[string]string{}
	for _, field := range f.Fields {
		got[field.Path] = field.Message
	}
	for path, numbers := range map[string]string{
		"tenant.gpus": "used 8, asked 16, limit 16", "tenant.gpus." + big: "used 8, asked 16, limit 16",
		"tenant.nodes." + big: "used 1, asked 2, limit 2", "project.nodes": "used 1, asked 2, limit 1",
	} {
		if !strings.Contains(got[path], numbers) {
			t.Errorf("%s: %q", path, got[path])
		}
	}
	if len(got) != 4 {
		t.Errorf("%v", got)
	}
	// Another SKU is held to what is about all SKUs only.
	if err := w.take(t.Context(), quota.Ask{Org: w.org, Project: w.projects[0], SKU: other, GPUs: 8}); err != nil {
		t.Error(err)
	}
}

// Whoever begins to wait is held to what is held and to what is waited for, of the
// tenant and of the project. Whoever does not wait is not held up by what others wait for.
func TestWhatIsWaitedForCountsForThoseWhoBeginToWait(t *testing.T) {
	w := newWorld(t)
	w.set(t, id.Project{}, "", nil, new(int32(4)))
	w.set(t, w.projects[0], big, nil, new(int32(2)))
	one := quota.Ask{Org: w.org, Project: w.projects[0], SKU: big, Nodes: 1}
	waits, neighbour := one, one
	waits.Waits, neighbour.Waits = true, true
	neighbour.Project = w.projects[1]
	for _, a := range []quota.Ask{one, waits, neighbour} {
		if err := w.take(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	err := w.take(t.Context(), waits)
	if f, _ := fault.As(err); f == nil || f.Code != "quota_exceeded" || len(f.Fields) != 1 ||
		!strings.HasPrefix(f.Fields[0].Path, "project.") ||
		!strings.HasSuffix(f.Fields[0].Message, "used 1, waited for 1, asked 1, limit 2") {
		t.Errorf("more than the project may have: %v", err)
	}
	neighbour.Nodes = 2
	err = w.take(t.Context(), neighbour)
	if f, _ := fault.As(err); f == nil || f.Code != "quota_exceeded" || len(f.Fields) != 1 ||
		!strings.HasSuffix(f.Fields[0].Message, "used 1, waited for 2, asked 2, limit 4") {
		t.Errorf("more than the tenant may have: %v", err)
	}
	if err := w.take(t.Context(), one); err != nil {
		t.Errorf("it does not wait: %v", err)
	}
}

func TestAProjectMayNotHoldMoreThanItsTenant(t *testing.T) {
	w := newWorld(t)
	w.set(t, id.Project{}, "", new(int32(16)), nil)
	of := quota.Owner{Org: w.org, Project: w.projects[0]}
	for _, sku := range []string{"", big} {
		_, err := w.quotas.Set(admin(t), of, sku, quota.Limits{GPUs: new(int32(17))})
		f, ok := fault.As(err)
		if !ok || f.Code != "quota_above_tenant" || !strings.Contains(f.Message, "17") || !strings.Contains(f.Message, "16") {
			t.Errorf("%q: %v", sku, err)
		}
	}
	w.set(t, w.projects[0], "", new(int32(16)), nil)
	w.set(t, id.Project{}, "", new(int32(8)), nil) // the platform may lower it, and the lower counts
	if err := w.take(t.Context(), quota.Ask{Org: w.org, Project: w.projects[0], SKU: big, GPUs: 9}); fault.CodeOf(err) !=
		"quota_exceeded" {
		t.Errorf("%v", err)
	}
}

func TestQuotasAreSetReplacedAndRemoved(t *testing.T) {
	w := newWorld(t)
	of := quota.Owner{Org: w.org}
	for name, c := range map[string]struct {
		of     quota.Owner
		sku    string
		limits quota.Limits
		code   string
	}{
		"nothing":        {of, "", quota.Limits{}, "validation_error"},
		"negative":       {of, "", quota.Limits{GPUs: new(int32(-1))}, "validation_error"},
		"unknown SKU":    {of, "gone", quota.Limits{GPUs: new(int32(1))}, "not_found"},
		"unknown tenant": {quota.Owner{Org: id.New[id.Org]()}, "", quota.Limits{GPUs: new(int32(1))}, "not_found"},
	} {
		if _, err := w.quotas.Set(admin(t), c.of, c.sku, c.limits); fault.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.set(t, id.Project{}, "", new(int32(16)), nil)
	w.set(t, id.Project{}, "", nil, new(int32(3)))
	w.set(t, w.projects[0], "", new(int32(0)), nil)
	page := postgres.Slice[id.Quota]{Limit: 10}
	all, err := w.quotas.OfTenant(admin(t), w.org, page)
	if err != nil || len(all) != 2 || all[0].Version != 2 || all[0].GPUs != nil || *all[0].Nodes != 3 {
		t.Fatalf("%+v, %v", all, err)
	}
	if err := w.take(t.Context(), quota.Ask{Org: w.org, Project: w.projects[1], SKU: big, GPUs: 8, Nodes: 1}); err != nil {
		t.Fatal(err)
	}
	for project, used := range map[id.Project]quota.Holding{w.projects[0]: {}, w.projects[1]: {GPUs: 8, Nodes: 1}} {
		held, err := w.quotas.OfProject(admin(t), project, page)
		if err != nil || held[0].Used != (quota.Holding{GPUs: 8, Nodes: 1}) || len(held) > 1 && held[1].Used != used {
			t.Errorf("%+v, %v", held, err) // the tenant's counts all of its projects
		}
	}
	if _, err := w.quotas.OfTenant(admin(t), id.New[id.Org](), page); fault.CodeOf(err) != "not_found" {
		t.Errorf("%v", err)
	}
	if held, err := w.quotas.OfProject(admin(t), w.projects[1], page); err != nil || len(held) != 1 {
		t.Errorf("%+v, %v", held, err)
	}
	if err := w.quotas.Remove(admin(t), of, ""); err != nil {
		t.Fatal(err)
	}
	if err := w.quotas.Remove(admin(t), of, ""); fault.CodeOf(err) != "quota_not_found" {
		t.Errorf("removed twice: %v", err)
	}
	var entries int
	if err := w.db.QueryRow(t.Context(), `SELECT count(*) FROM audit_logs WHERE action LIKE 'quota.%'`).Scan(
		&entries); err != nil || entries != 4 {
		t.Errorf("%d audit entries, %v", entries, err)
	}
}

// A member of one project does not learn what its neighbour may hold.
func TestAttackAMemberDoesNotSeeQuotasOfAnotherProject(t *testing.T) {
	w := newWorld(t)
	w.set(t, id.Project{}, "", new(int32(16)), nil)
	w.set(t, w.projects[0], "", new(int32(8)), nil)
	w.set(t, w.projects[1], "", new(int32(4)), nil)
	member := auth.With(t.Context(), &auth.Principal{
		Kind: auth.KindUser, ID: id.NewString(),
		Projects: map[id.Project]auth.ProjectRole{w.projects[0]: {Org: w.org, Role: auth.ProjectMember}},
	})
	seen, err := w.quotas.OfTenant(member, w.org, postgres.Slice[id.Quota]{Limit: 10})
	if err != nil || len(seen) != 2 {
		t.Fatalf("%+v, %v", seen, err)
	}
	for _, q := range seen {
		if q.Project == w.projects[1] {
			t.Errorf("sees %+v", q)
		}
	}
}

// Many ask at once, of two projects and two SKUs, while somebody gives back and
// somebody sets quotas anew: no count is ever above its quota.
func TestAttackQuotasAreNotExceededByAskingAtOnce(t *testing.T) {
	w := newWorld(t)
	w.set(t, id.Project{}, "", new(int32(40)), new(int32(9)))
	w.set(t, id.Project{}, big, new(int32(20)), nil)
	w.set(t, w.projects[0], "", new(int32(24)), nil)
	w.set(t, w.projects[1], other, nil, new(int32(3)))
	var wait sync.WaitGroup
	var admitted, refused atomic.Int32
	for n := range 8 {
		random := rand.New(rand.NewPCG(7, uint64(n)))
		wait.Go(func() {
			for range 25 {
				a := quota.Ask{
					Org: w.org, Project: w.projects[random.IntN(2)], SKU: []string{big, other}[random.IntN(2)],
					GPUs: int32(random.IntN(9)), Nodes: int32(random.IntN(2)),
				}
				switch err := w.take(t.Context(), a); {
				case err == nil:
					admitted.Add(1)
				case fault.CodeOf(err) == "quota_exceeded":
					refused.Add(1)
				default:
					t.Error(err)
				}
				w.within(t)
				if random.IntN(3) == 0 {
					if _, err := w.db.Exec(t.Context(), `DELETE FROM holdings WHERE ctid IN
						(SELECT ctid FROM holdings LIMIT 1 FOR UPDATE SKIP LOCKED)`); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wait.Wait()
	if admitted.Load() == 0 || refused.Load() == 0 {
		t.Errorf("%d admitted, %d refused: the test proves nothing", admitted.Load(), refused.Load())
	}
}

// within fails when a quota is exceeded. One statement sees one moment.
func (w *world) within(tb testing.TB) {
	tb.Helper()
	var over int
	if err := w.db.QueryRow(tb.Context(), `SELECT count(*) FROM quotas q,
		LATERAL (SELECT coalesce(sum(h.gpus), 0) gpus, coalesce(sum(h.nodes), 0) nodes FROM holdings h
			WHERE h.org = q.org_id AND (q.project_id IS NULL OR h.project = q.project_id) AND q.sku IN ('', h.sku)) held
		WHERE held.gpus > q.gpus OR held.nodes > q.nodes`).Scan(&over); err != nil {
		tb.Error(err)
	}
	if over > 0 {
		tb.Errorf("%d quotas are exceeded", over)
	}
}

// A quota that is set while somebody was admitted and has not committed counts
// them: whoever sets it waits.
func TestANewQuotaCountsWhoWasAdmittedBeforeIt(t *testing.T) {
	w := newWorld(t)
	set := make(chan error, 1)
	err := w.db.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		a := quota.Ask{Org: w.org, Project: w.projects[0], SKU: big, GPUs: 5}
		if err := w.quotas.Admit(ctx, tx, a); err != nil {
			return err
		}
		go func() {
			_, err := w.quotas.Set(admin(t), quota.Owner{Org: w.org}, "", quota.Limits{GPUs: new(int32(4))})
			set <- err
		}()
		waits := false
		for !waits { // until the database says that somebody waits for the lock
			if err := w.db.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`).Scan(&waits); err != nil {
				return err
			}
			select {
			case err := <-set:
				t.Errorf("the quota did not wait: %v", err)
				return err
			default:
			}
		}
		_, err := tx.Exec(ctx, `INSERT INTO holdings VALUES ($1, $2, $3, 5, 0)`, a.Org, a.Project, a.SKU)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-set; err != nil {
		t.Fatal(err)
	}
	if err := w.take(t.Context(), quota.Ask{Org: w.org, Project: w.projects[1], SKU: other, GPUs: 1}); fault.CodeOf(err) !=
		"quota_exceeded" {
		t.Errorf("%v", err)
	}
}
