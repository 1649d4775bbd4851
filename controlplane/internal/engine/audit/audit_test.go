package audit_test

import (
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
		"everything":    {audit.Filter{}, 10},
		"action":        {audit.Filter{Action: &action}, 5},
		"result":        {audit.Filter{Result: &denied}, 5},
		"both":          {audit.Filter{Action: &action, Result: &denied}, 0},
		"correlation":   {audit.Filter{CorrelationID: &corr}, 10},
		"target":        {audit.Filter{TargetKind: &other}, 0},
		"since":         {audit.Filter{Since: &later}, 0},
		"until":         {audit.Filter{Until: &later}, 10},
		"own tenant":    {audit.Filter{Orgs: []id.Org{own}}, 5},
		"no tenant":     {audit.Filter{Orgs: []id.Org{}}, 0},
		"actor unknown": {audit.Filter{ActorID: &other}, 0},
		"actor":         {audit.Filter{ActorID: &admin}, 10},
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
