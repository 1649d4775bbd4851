package rentalsettings_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/rent/rentalsettings"
)

const day = 24 * time.Hour

// world is a tenant with a project.
type world struct {
	db              *postgres.DB
	settings        *rentalsettings.Service
	tenant, project rentalsettings.Owner
	ctx             context.Context
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	db := postgrestest.New(tb)
	w := &world{db: db, settings: rentalsettings.New(db), tenant: rentalsettings.Owner{Org: id.New[id.Org]()}}
	w.project = rentalsettings.Owner{Org: w.tenant.Org, Project: id.New[id.Project]()}
	if _, err := db.Exec(tb.Context(), `WITH acme AS (INSERT INTO organizations (id, slug, name) VALUES ($1, 'acme', 'Acme'))
		INSERT INTO projects (id, org_id, slug, name) VALUES ($2, $1, 'training', 'Training')`,
		w.tenant.Org, w.project.Project); err != nil {
		tb.Fatal(err)
	}
	w.ctx = auth.With(tb.Context(), &auth.Principal{Kind: auth.KindUser, ID: "ann", Platform: auth.PlatformAdmin})
	return w
}

func (w *world) set(tb testing.TB, of rentalsettings.Owner, v rentalsettings.Values) rentalsettings.Rules {
	tb.Helper()
	now, _, err := w.settings.OfTenant(w.ctx, of.Org)
	if !of.Project.IsZero() {
		now, _, err = w.settings.OfProject(w.ctx, of.Project)
	}
	if err != nil {
		tb.Fatal(err)
	}
	_, rules, err := w.settings.Set(w.ctx, of, now.Version, v)
	if err != nil {
		tb.Fatal(err)
	}
	return rules
}

func TestWhatNobodySetIsAsThePlatformHasIt(t *testing.T) {
	w := newWorld(t)
	_, r, err := w.settings.OfProject(w.ctx, w.project.Project)
	want := rentalsettings.Rules{
		RootAccess: true, DefaultExpiryFrom: rentalsettings.Platform, MaxExpiryFrom: rentalsettings.Platform,
		RootAccessFrom: rentalsettings.Platform,
	}
	if err != nil || r != want {
		t.Fatalf("%+v, %v", r, err)
	}
	if r.Lasts(0) != nil || r.Lasts(300*day) != nil || r.Roots() != nil {
		t.Error("something is refused")
	}
}

// What is in force is the narrower of both, and says whose it is.
func TestTheTenantBoundsItsProjects(t *testing.T) {
	w := newWorld(t)
	w.set(t, w.project, rentalsettings.Values{
		DefaultExpiry: new(20 * day), MaxExpiry: new(60 * day), RootAccess: new(true),
	})
	w.set(t, w.tenant, rentalsettings.Values{MaxExpiry: new(10 * day), RootAccess: new(false)}) // lowered later
	r, err := rentalsettings.InForce(w.ctx, w.db, w.project.Org, w.project.Project)
	if err != nil || r != (rentalsettings.Rules{
		DefaultExpiry: 10 * day, DefaultExpiryFrom: rentalsettings.Tenant, MaxExpiry: 10 * day,
		MaxExpiryFrom: rentalsettings.Tenant, RootAccessFrom: rentalsettings.Tenant,
	}) {
		t.Fatalf("%+v, %v", r, err)
	}
	for name, err := range map[string]error{"for ever": r.Lasts(0), "11 days": r.Lasts(11 * day)} {
		f, _ := fault.As(err)
		if f == nil || f.Code != "expiry_above_maximum" || f.Kind != fault.Forbidden ||
			!strings.Contains(f.Message, "10 days") || !strings.Contains(f.Remedy, "administrator of the tenant") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if f, _ := fault.As(r.Roots()); f == nil || f.Code != "root_access_forbidden" ||
		!strings.Contains(f.Remedy, "administrator of the tenant") {
		t.Errorf("%v", f)
	}
	narrower := w.set(t, w.project, rentalsettings.Values{DefaultExpiry: new(2 * day), MaxExpiry: new(5 * day)})
	if narrower.MaxExpiry != 5*day || narrower.MaxExpiryFrom != rentalsettings.Project ||
		narrower.DefaultExpiry != 2*day || narrower.DefaultExpiryFrom != rentalsettings.Project {
		t.Errorf("%+v", narrower)
	}
	if f, _ := fault.As(narrower.Lasts(6 * day)); f == nil || !strings.Contains(f.Remedy, "administrator of the project") {
		t.Errorf("%v", f)
	}
}

func TestAProjectCannotBeAllowedMoreThanItsTenant(t *testing.T) {
	w := newWorld(t)
	w.set(t, w.tenant, rentalsettings.Values{MaxExpiry: new(10 * day), RootAccess: new(false)})
	_, _, err := w.settings.Set(w.ctx, w.project, 0, rentalsettings.Values{
		DefaultExpiry: new(time.Duration(0)), MaxExpiry: new(11 * day), RootAccess: new(true),
	})
	if f, _ := fault.As(err); f == nil || f.Kind != fault.Invalid {
		t.Errorf("a default above the maximum: %v", err)
	}
	_, _, err = w.settings.Set(w.ctx, w.project, 0, rentalsettings.Values{
		DefaultExpiry: new(10*day + time.Hour), MaxExpiry: new(11 * day), RootAccess: new(true),
	})
	if f, _ := fault.As(err); f == nil || f.Code != "settings_beyond_tenant" || len(f.Fields) != 3 {
		t.Errorf("%v", err)
	}
}

func TestSettingsAreClearedAndGuardedByTheirVersion(t *testing.T) {
	w := newWorld(t)
	w.set(t, w.tenant, rentalsettings.Values{MaxExpiry: new(10 * day)})
	if r := w.set(t, w.tenant, rentalsettings.Values{}); r.MaxExpiry != 0 || r.MaxExpiryFrom != rentalsettings.Platform {
		t.Errorf("%+v", r)
	}
	if _, _, err := w.settings.Set(w.ctx, w.tenant, 1, rentalsettings.Values{}); fault.KindOf(err) != fault.Stale {
		t.Errorf("%v", err)
	}
	unknown := rentalsettings.Owner{Org: id.New[id.Org]()}
	if _, _, err := w.settings.Set(w.ctx, unknown, 0, rentalsettings.Values{}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("%v", err)
	}
	if _, _, err := w.settings.OfTenant(w.ctx, unknown.Org); fault.KindOf(err) != fault.NotFound {
		t.Errorf("%v", err)
	}
	for name, v := range map[string]rentalsettings.Values{
		"a maximum of a minute": {MaxExpiry: new(time.Minute)}, "a default of years": {DefaultExpiry: new(1000 * day)},
		"no maximum but zero": {MaxExpiry: new(time.Duration(0))},
	} {
		if _, _, err := w.settings.Set(w.ctx, w.tenant, 2, v); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	var entries int
	if err := w.db.QueryRow(t.Context(), `SELECT count(*) FROM audit_logs WHERE action = 'rental_settings.set'`).Scan(
		&entries); err != nil || entries != 2 {
		t.Errorf("%d audit entries, %v", entries, err)
	}
}
