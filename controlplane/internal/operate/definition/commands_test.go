package definition

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
)

func newService(tb testing.TB) (context.Context, *Service) {
	tb.Helper()
	ctx := auth.With(tb.Context(), &auth.Principal{Kind: auth.KindUser, ID: "ann", Platform: auth.PlatformAdmin})
	return ctx, New(postgrestest.New(tb))
}

func TestAVersionIsADraftUntilItIsActivatedAndNeverChangesAfterwards(t *testing.T) {
	ctx, s := newService(t)
	made, err := s.Register(ctx, sound, false)
	if err != nil || made.Status != Draft || made.ActivatedAt != nil || made.CreatedBy != "ann" {
		t.Fatalf("%+v, %v", made, err)
	}
	name := made.Ref()
	changed := strings.Replace(sound, "Prepare a web server", "Prepare it", 1)
	if _, err := s.Replace(ctx, name, 7, changed); fault.KindOf(err) != fault.Stale {
		t.Errorf("another revision: %v", err)
	}
	after, err := s.Replace(ctx, name, made.Revision, changed)
	if err != nil || after.Title != "Prepare it" || after.Digest == made.Digest || after.Revision != 2 {
		t.Fatalf("%+v, %v", after, err)
	}
	other := strings.Replace(sound, "version: v1", "version: v2", 1)
	if _, err := s.Replace(ctx, name, after.Revision, other); fault.CodeOf(err) != "operation_definition_name" {
		t.Errorf("another version: %v", err)
	}
	if _, err := s.Register(ctx, changed, true); fault.CodeOf(err) != "operation_definition_exists" {
		t.Errorf("twice: %v", err)
	}
	active, err := s.Move(ctx, name, Activate, "")
	if err != nil || active.Status != Active || active.ActivatedAt == nil {
		t.Fatalf("%+v, %v", active, err)
	}
	if _, err := s.Replace(ctx, name, active.Revision, sound); fault.CodeOf(err) != "operation_definition_frozen" {
		t.Errorf("a change of an active version: %v", err)
	}
	for _, change := range []string{`document = '{}'`, `digest = 'x'`, `activated_at = NULL`, `version = 'v9'`} {
		_, err := s.db.Exec(ctx, `UPDATE operation_definition_versions SET `+change)
		if err == nil || !strings.Contains(err.Error(), "was active and cannot change") {
			t.Errorf("the database accepted %s: %v", change, err)
		}
	}
	found, err := s.Get(ctx, name)
	if err != nil || found.Digest != after.Digest || found.Title != "Prepare it" {
		t.Errorf("%+v, %v", found, err)
	}
}

func TestOnlyActiveAndDeprecatedVersionsRun(t *testing.T) {
	ctx, s := newService(t)
	for _, version := range []string{"v1", "v2", "v3", "v10"} {
		if _, err := s.Register(ctx, strings.Replace(sound, "version: v1", "version: "+version, 1),
			version != "v10"); err != nil {
			t.Fatal(fields(err))
		}
	}
	run := func(version string) (Version, error) {
		var found Version
		err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
			found, err = ForRun(ctx, tx, Ref{"web.prepare", version})
			return err
		})
		return found, err
	}
	newest := func(want string) {
		t.Helper()
		if v, err := run(""); err != nil || v.Version != want {
			t.Errorf("the newest is %s, %v, want %s", v.Version, err, want)
		}
	}
	newest("v3")
	if _, err := run("v10"); fault.CodeOf(err) != "operation_definition_not_runnable" {
		t.Errorf("a draft: %v", err)
	}
	if v, err := s.Move(ctx, Ref{"web.prepare", "v3"}, Deprecate, "use v2"); err != nil || v.StatusReason != "use v2" {
		t.Errorf("%+v, %v", v, err)
	}
	newest("v2")
	if _, err := run("v3"); err != nil {
		t.Errorf("a deprecated one: %v", err)
	}
	for _, version := range []string{"v2", "v1"} {
		if _, err := s.Move(ctx, Ref{"web.prepare", version}, Retire, ""); err != nil {
			t.Fatal(err)
		}
	}
	newest("v3")
	if _, err := run("v1"); fault.CodeOf(err) != "operation_definition_not_runnable" {
		t.Errorf("a retired one: %v", err)
	}
	if _, err := s.Move(ctx, Ref{"web.prepare", "v1"}, Activate, ""); fault.KindOf(err) != fault.Conflict {
		t.Errorf("a retired one came back: %v", err)
	}
	if _, err := run("v4"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("one that does not exist: %v", err)
	}
	rows, err := s.List(ctx, filter{}, postgres.Slice[position]{Limit: 2})
	if err != nil || len(rows) != 2 || rows[0].Version != "v10" || rows[1].Version != "v3" {
		t.Fatalf("%+v, %v", rows, err)
	}
	rows, err = s.List(ctx, filter{}, postgres.Slice[position]{Limit: 9, After: position{"web.prepare", 3}})
	if err != nil || len(rows) != 2 || rows[0].Version != "v2" {
		t.Errorf("%+v, %v", rows, err)
	}
	if rows, err = s.List(ctx, filter{runnable: true}, postgres.Slice[position]{Limit: 9}); err != nil || len(rows) != 1 {
		t.Errorf("%+v, %v", rows, err)
	}
}

func TestWhatNothingCarriesOutStaysADraft(t *testing.T) {
	ctx, s := newService(t)
	source := strings.Replace(sound, "risk: medium", "risk: medium\nbackend: k8s_adapter", 1)
	if _, err := s.Register(ctx, source, true); fault.CodeOf(err) != "operation_backend_unavailable" {
		t.Errorf("registered active: %v", err)
	}
	made, err := s.Register(ctx, source, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Move(ctx, made.Ref(), Activate, ""); fault.CodeOf(err) != "operation_backend_unavailable" {
		t.Errorf("activated: %v", err)
	}
}

func TestWhatIsShippedIsInstalledOnce(t *testing.T) {
	ctx, s := newService(t)
	all, err := BuiltIns()
	if err != nil {
		t.Fatal(err)
	}
	installed, differ, err := s.Install(ctx)
	if err != nil || len(installed) != len(all) || len(differ) != 0 {
		t.Fatalf("%v, %v, %v", installed, differ, err)
	}
	if _, err := s.Move(ctx, all[0].Ref(), Retire, "not here"); err != nil {
		t.Fatal(err)
	}
	if installed, differ, err = s.Install(ctx); err != nil || len(installed)+len(differ) != 0 {
		t.Errorf("again: %v, %v, %v", installed, differ, err)
	}
	if v, err := s.Get(ctx, all[0].Ref()); err != nil || v.Status != Retired || v.Origin != BuiltIn {
		t.Errorf("what was retired came back: %+v, %v", v, err)
	}
}

func TestADefinitionThatDiffersFromTheShippedOneIsLeftAlone(t *testing.T) {
	ctx, s := newService(t)
	all, err := BuiltIns()
	if err != nil {
		t.Fatal(err)
	}
	mine := all[0]
	mine.Title = "Mine"
	document, err := mine.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Register(ctx, string(document), true); err != nil {
		t.Fatal(fields(err))
	}
	_, differ, err := s.Install(ctx)
	if err != nil || len(differ) != 1 || differ[0].Ref != mine.Ref() {
		t.Fatalf("%v, %v", differ, err)
	}
	if v, err := s.Get(ctx, mine.Ref()); err != nil || v.Title != "Mine" {
		t.Errorf("%s, %v", v.Title, err)
	}
}

func TestChangesAreAuditedAndTold(t *testing.T) {
	ctx, s := newService(t)
	if _, err := s.Register(ctx, sound, true); err != nil {
		t.Fatal(fields(err))
	}
	if _, err := s.Move(ctx, Ref{"web.prepare", "v1"}, Deprecate, "old"); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]int{
		`SELECT count(*) FROM audit_logs WHERE action = 'operation_definition.register' AND target_id = 'web.prepare@v1'`:  1,
		`SELECT count(*) FROM audit_logs WHERE action = 'operation_definition.deprecate' AND target_id = 'web.prepare@v1'`: 1,
		`SELECT count(*) FROM outbox_events WHERE event_type = 'operation_definition.changed'`:                             2,
	} {
		var got int
		if err := s.db.QueryRow(ctx, query).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %d, %v", query, got, err)
		}
	}
}
