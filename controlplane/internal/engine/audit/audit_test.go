package audit_test

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/engine/telemetry"
)

func record(t *testing.T, db *postgres.DB, entries ...audit.Entry) {
	t.Helper()
	ctx := auth.With(telemetry.WithClientAddr(telemetry.WithCorrelation(t.Context(), "corr"), "192.0.2.7"),
		&auth.Principal{Kind: auth.KindUser, ID: "u1", Name: "Ada", Platform: auth.PlatformAdmin})
	err := db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		for _, e := range entries {
			if err := audit.Record(ctx, tx, e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAnEntrySaysWhoWhatWhereAndWhy(t *testing.T) {
	db := postgrestest.New(t)
	org, project := id.New[id.Org](), id.New[id.Project]()
	record(t, db, audit.Entry{
		Action: "thing.do", TargetKind: "thing", TargetID: "t1", Org: org, Project: project,
		Result: audit.Success, Reason: "because", Metadata: map[string]any{"k": "v"},
	})
	logs, err := audit.List(t.Context(), db, audit.Filter{}, 0, 10)
	if err != nil || len(logs) != 1 {
		t.Fatal(logs, err)
	}
	l := logs[0]
	if l.ActorID != "u1" || l.ActorName != "Ada" || l.ActorRole != auth.PlatformAdmin || l.ActorAddr != "192.0.2.7" ||
		l.Action != "thing.do" ||
		l.TargetKind != "thing" || l.TargetID != "t1" || l.Org != org || l.Project != project || l.Result != audit.Success ||
		l.Reason != "because" || l.CorrelationID != "corr" || string(l.Metadata) != `{"k": "v"}` ||
		time.Since(l.OccurredAt) > time.Minute {
		t.Errorf("%+v", l)
	}
}

// Nobody takes the work of an agent or of a workflow for that of a person.
func TestAgentsAndWorkflowsAreAuditedAsWhatTheyAre(t *testing.T) {
	db := postgrestest.New(t)
	n := id.New[id.Node]()
	for action, who := range map[string]*auth.Principal{
		"thing.report": auth.Node(n), "thing.finish": auth.System("workflow:thing/1"),
	} {
		err := db.InTx(auth.With(t.Context(), who), func(ctx context.Context, tx pgx.Tx) error {
			return audit.Record(ctx, tx, audit.Entry{Action: action, Result: audit.Success})
		})
		logs, listErr := audit.List(t.Context(), db, audit.Filter{Action: &action}, 0, 10)
		if err != nil || listErr != nil || len(logs) != 1 {
			t.Fatal(logs, err, listErr)
		}
		if l := logs[0]; l.ActorKind != who.Kind || l.ActorID != who.ID || string(l.ActorRole) != string(who.Kind) {
			t.Errorf("%s is on record as done by %s %s, as %s", action, l.ActorKind, l.ActorID, l.ActorRole)
		}
	}
}

func TestAnEntrySharesTheFateOfItsChange(t *testing.T) {
	db := postgrestest.New(t)
	boom := errors.New("boom")
	err := db.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		if err := audit.Record(ctx, tx, audit.Entry{Action: "thing.do", Result: audit.Success}); err != nil {
			return err
		}
		return boom
	})
	logs, listErr := audit.List(t.Context(), db, audit.Filter{}, 0, 10)
	if !errors.Is(err, boom) || listErr != nil || len(logs) != 0 {
		t.Errorf("%v, %v, %v", err, listErr, logs)
	}
}

// Neither the product nor the owner of the schema can rewrite history.
func TestTheLogIsAppendOnly(t *testing.T) {
	db, owner := postgrestest.NewWithOwner(t)
	record(t, db, audit.Entry{Action: "thing.do", Result: audit.Success})
	// PostgreSQL only warns if somebody grants a right that they do not own.
	if _, err := db.Exec(t.Context(), "GRANT UPDATE, DELETE, TRUNCATE ON audit_logs TO gpuaas_app"); err != nil {
		t.Fatal(err)
	}
	for name, who := range map[string]*postgres.DB{"product": db, "owner": owner} {
		for _, change := range []string{
			"UPDATE audit_logs SET reason = 'x'", "DELETE FROM audit_logs", "TRUNCATE audit_logs",
		} {
			if _, err := who.Exec(t.Context(), change); err == nil {
				t.Errorf("%s may %s", name, change)
			}
		}
	}
	for _, change := range []string{
		"ALTER TABLE audit_logs DISABLE TRIGGER ALL", "DROP TABLE audit_logs",
		"DROP TRIGGER audit_logs_append_only ON audit_logs",
	} {
		if _, err := db.Exec(t.Context(), change); err == nil {
			t.Errorf("product may %s", change)
		}
	}
}

func TestListingFiltersPagesAndNarrows(t *testing.T) {
	db := postgrestest.New(t)
	own, foreign := id.New[id.Org](), id.New[id.Org]()
	for i := range 5 {
		record(t, db,
			audit.Entry{Action: "a.do", TargetKind: "a", TargetID: strconv.Itoa(i), Org: own, Result: audit.Success},
			audit.Entry{Action: "b.do", TargetKind: "b", TargetID: strconv.Itoa(i), Org: foreign, Result: audit.Denied})
	}
	count := func(f audit.Filter) int {
		t.Helper()
		logs, err := audit.List(t.Context(), db, f, 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		return len(logs)
	}
	later, action, denied, corr, other, admin := time.Now().Add(time.Hour), "a.do", "denied", "corr", "other", "u1"
	for name, c := range map[string]struct {
		filter audit.Filter
		want   int
	}{
		"everything":                          {audit.Filter{}, 10},
		"action":                              {audit.Filter{Action: &action}, 5},
		"result":                              {audit.Filter{Result: &denied}, 5},
		"both":                                {audit.Filter{Action: &action, Result: &denied}, 0},
		"correlation":                         {audit.Filter{CorrelationID: &corr}, 10},
		"target":                              {audit.Filter{TargetKind: &other}, 0},
		"since":                               {audit.Filter{Since: &later}, 0},
		"until":                               {audit.Filter{Until: &later}, 10},
		"own tenant":                          {audit.Filter{Orgs: []id.Org{own}}, 5},
		"no tenant":                           {audit.Filter{Orgs: []id.Org{}}, 0},
		"actor unknown":                       {audit.Filter{ActorID: &other}, 0},
		"actor":                               {audit.Filter{ActorID: &admin}, 10},
		"actor by name":                       {audit.Filter{Actor: ptr("ad")}, 10},
		"actor by id":                         {audit.Filter{Actor: ptr("u1")}, 10},
		"people":                              {audit.Filter{ActorKinds: []string{"user", "anonymous"}}, 10},
		"nodes":                               {audit.Filter{ActorKinds: []string{"node"}}, 0},
		"target by id":                        {audit.Filter{Target: ptr("3")}, 2},
		"target by no name":                   {audit.Filter{Target: ptr("nobody")}, 0},
		"actor hidden from a tenant, by name": {audit.Filter{Actor: ptr("ad"), Orgs: []id.Org{own}}, 0},
		// Who people of the platform are, a tenant does not learn by trying ids.
		"actor hidden from a tenant": {audit.Filter{ActorID: &admin, Orgs: []id.Org{own}}, 0},
	} {
		if got := count(c.filter); got != c.want {
			t.Errorf("%s: %d entries, want %d", name, got, c.want)
		}
	}
	var seen []int64
	for before := int64(0); ; {
		page, err := audit.List(t.Context(), db, audit.Filter{}, before, 3)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, l := range page {
			if len(seen) > 0 && l.Seq >= seen[len(seen)-1] {
				t.Errorf("order broken at %d", l.Seq)
			}
			seen = append(seen, l.Seq)
		}
		before = seen[len(seen)-1]
	}
	if len(seen) != 10 {
		t.Errorf("pages hold %d entries", len(seen))
	}
}

// named has things with names: what was done to them is on record for one tenant.
func named(t *testing.T) (*postgres.DB, id.Org, map[string]string) {
	t.Helper()
	db, owner := postgrestest.NewWithOwner(t)
	org, other := id.New[id.Org](), id.New[id.Org]()
	of := map[string]string{
		"tenant": org.String(), "other": other.String(),
		"site": id.NewString(), "bob": id.NewString(), "olga": id.NewString(),
	}
	for statement, args := range map[string][]any{
		"INSERT INTO organizations (id, slug, name) VALUES ($1, 'acme', 'Acme'), ($2, 'rival', 'Rival')": {org.String(), other.String()},
		`INSERT INTO users (id, email, name, platform_role)
			VALUES ($1, 'bob@acme.example', '', NULL), ($2, 'olga@platform.example', 'Olga', 'operator')`: {of["bob"], of["olga"]},
		`INSERT INTO maas_sites
			(id, name, region_code, api_base_url, pxe_iface, pxe_vlan_vid, node_pxe_iface, fingerprint_salt)
			VALUES ($1, 'lab', 'eu-1', 'https://maas.example/MAAS/', 'eth0', 10, 'eth0',
				decode(repeat('00', 16), 'hex'))`: {of["site"]},
	} {
		if _, err := owner.Exec(t.Context(), statement, args...); err != nil {
			t.Fatal(err)
		}
	}
	for name, kind := range map[string]string{
		"tenant": "tenant", "other": "tenant", "site": "site", "bob": "user", "olga": "user",
	} {
		record(t, db, audit.Entry{
			Action: kind + ".update", TargetKind: kind, TargetID: of[name], Org: org, Result: audit.Success,
		})
	}
	return db, org, of
}

// People look for things by what they are called; the log keeps ids. A tenant finds and reads so no
// machines, no other tenants, and nobody of the platform.
func TestTargetsAreFoundByTheirNames(t *testing.T) {
	db, org, of := named(t)
	tenant := []id.Org{org}
	for _, c := range []struct {
		name, target string
		orgs         []id.Org
		found        int
		called       string
	}{
		{"acme", "tenant", nil, 1, "acme"},
		{"acme", "tenant", tenant, 1, "acme"},
		{"rival", "other", nil, 1, "rival"},
		{"rival", "other", tenant, 0, ""},
		{"lab", "site", nil, 1, "lab"},
		{"lab", "site", tenant, 0, ""},
		{"BOB@acme.example", "bob", tenant, 1, "bob@acme.example"},
		{"olga@platform.example", "olga", nil, 1, "Olga"},
		{"olga@platform.example", "olga", tenant, 0, audit.ThePlatform},
		{"Olga", "olga", tenant, 0, audit.ThePlatform},
	} {
		logs, err := audit.List(t.Context(), db, audit.Filter{Target: &c.name, Orgs: c.orgs}, 0, 10)
		if err != nil || len(logs) != c.found {
			t.Errorf("%s for %v: %d entries, want %d, %v", c.name, c.orgs, len(logs), c.found, err)
		}
		everything, err := audit.List(t.Context(), db, audit.Filter{}, 0, 10)
		if err != nil {
			t.Fatal(err)
		}
		names, err := audit.NamesOf(t.Context(), db, everything, c.orgs)
		kind := map[string]string{"tenant": "tenant", "other": "tenant", "site": "site"}[c.target]
		if got := names[[2]string{cmp.Or(kind, "user"), of[c.target]}]; err != nil || got != c.called {
			t.Errorf("%s is called %q for %v, want %q, %v", c.target, got, c.orgs, c.called, err)
		}
	}
}

// Somebody of the platform who is also a member of a tenant is not named to it, and not found by the name.
func TestPeopleOfThePlatformAreNotNamedToTenants(t *testing.T) {
	db, org, of := named(t)
	olga := &auth.Principal{
		Kind: auth.KindUser, ID: of["olga"], Name: "Olga", Platform: auth.Operator,
		Tenants: map[id.Org]auth.Role{org: auth.TenantAdmin},
	}
	err := db.InTx(auth.With(t.Context(), olga), func(ctx context.Context, tx pgx.Tx) error {
		return audit.Record(ctx, tx, audit.Entry{Action: "quota.set", Org: org, Result: audit.Success})
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []audit.Filter{{Actor: ptr("olga")}, {Actor: &olga.ID}, {ActorID: &olga.ID}} {
		for want, orgs := range [][]id.Org{{org}, nil} {
			f.Orgs = orgs
			logs, err := audit.List(t.Context(), db, f, 0, 10)
			if err != nil || len(logs) != want {
				t.Errorf("%d entries for %v, want %d, %v", len(logs), orgs, want, err)
			}
		}
	}
	logs, err := audit.List(t.Context(), db, audit.Filter{Action: ptr("quota.set"), Orgs: []id.Org{org}}, 0, 10)
	if err != nil || len(logs) != 1 || logs[0].ActorRole != auth.TenantAdmin {
		t.Fatal(logs, err)
	}
	names, err := audit.NamesOf(t.Context(), db, logs, []id.Org{org})
	if err != nil || names[[2]string{"user", olga.ID}] != audit.ThePlatform {
		t.Errorf("%v, %v", names, err)
	}
}

func ptr(s string) *string { return &s }
