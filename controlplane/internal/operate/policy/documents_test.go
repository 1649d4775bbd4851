package policy_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/operate/policy"
)

// plenty is more than any evaluation of these tests needs on a busy machine.
const plenty = time.Minute

func fridays() policy.Document {
	return policy.Document{
		Title: "No disruption on Fridays",
		Rego: `package gpuaas.operations
deny contains "nothing that disrupts on a Friday" if {
	input.request.impact == "disrupt"
	time.weekday(time.parse_rfc3339_ns(input.request.at)) == "Friday"
}
deny contains sprintf("%d nodes at a time, of %d", [input.request.concurrency, input.policy.max_concurrency]) if {
	input.policy.max_concurrency > 0
	input.request.concurrency > 5
}`,
		Examples: []policy.Example{
			{Name: "Friday", Denied: true, Because: "Friday", Request: policy.Request{
				Type: "web.prepare", Impact: "disrupt", At: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC),
			}},
			{Name: "Monday", Request: policy.Request{Type: "web.prepare", Impact: "disrupt"}},
			{
				Name: "many", Denied: true, Because: "6 nodes at a time, of 9", Chain: policy.Values{MaxConcurrency: new(int64(9))},
				Request: policy.Request{Type: "web.prepare", Concurrency: 6},
			},
		},
	}
}

type documents struct {
	*policy.Service
	db  *postgres.DB
	ctx context.Context
}

func newDocuments(t *testing.T, db *postgres.DB, most time.Duration) documents {
	t.Helper()
	ctx := auth.With(t.Context(), &auth.Principal{
		Kind: auth.KindUser, ID: "ann", Name: "Ann", Platform: auth.PlatformAdmin,
	})
	return documents{Service: policy.New(db, policy.EvaluateWithin(most)), db: db, ctx: ctx}
}

// check asks for a run on a Friday that disrupts.
func (d documents) check(t *testing.T) (v policy.Verdict, code string) {
	t.Helper()
	err := d.db.InTx(d.ctx, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		v, err = policy.Check(ctx, tx, resolve(), policy.Request{
			Operation: "web.prepare@v1", Type: "web.prepare", Impact: "disrupt", TargetKind: "node",
			At: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC),
		}, d.Service)
		return err
	})
	if err == nil {
		return v, ""
	}
	if f, ok := fault.As(err); !ok || f.Remedy == "" || f.Kind != fault.Forbidden {
		t.Errorf("the refusal is %+v", err)
	}
	return v, fault.CodeOf(err)
}

func TestADocumentDecidesOnceItIsActivatedForEveryReplica(t *testing.T) {
	db := postgrestest.New(t)
	one, other := newDocuments(t, db, plenty), newDocuments(t, db, plenty)
	if v, code := one.check(t); code != "" || v.Document != "" {
		t.Errorf("without a document: %+v %s", v, code)
	}
	first, err := one.AddDocument(one.ctx, fridays())
	if err != nil || first.Name() != "v1" || first.Active != nil {
		t.Fatalf("%+v, %v", first, err)
	}
	if same, err := other.AddDocument(other.ctx, fridays()); err != nil || same.Name() != "v1" {
		t.Errorf("the same document again: %s, %v", same.Name(), err)
	}
	if v, code := other.check(t); code != "" {
		t.Errorf("a document that was not activated decides: %+v %s", v, code)
	}
	active, err := one.ActivateDocument(one.ctx, "v1", "safer")
	if err != nil || active.Active == nil || active.Active.By != "ann" || active.Active.Reason != "safer" {
		t.Fatalf("%+v, %v", active, err)
	}
	for _, replica := range []documents{one, other} {
		v, code := replica.check(t)
		if code != "operation_denied_by_policy" || v.Document != "v1" || v.Digest != first.Digest || v.Input == "" ||
			len(v.Denied) != 1 {
			t.Errorf("%+v %s", v, code)
		}
	}
	open := fridays()
	open.Title, open.Rego = "Nothing against anything but many", strings.ReplaceAll(open.Rego, `"Friday"`, `"Doomsday"`)
	open.Examples = open.Examples[1:]
	if _, err := other.AddDocument(other.ctx, open); err != nil {
		t.Fatal(err)
	}
	if _, err := other.ActivateDocument(other.ctx, "v2", ""); err != nil {
		t.Fatal(err)
	}
	if v, code := one.check(t); code != "" || v.Document != "v2" {
		t.Errorf("after the next activation: %+v %s", v, code)
	}
	_, e, err := one.Of(one.ctx, policy.Owner{}, policy.AllTypes)
	if err != nil || e.Document == nil || e.Document.Version != 2 {
		t.Errorf("who asks what counts does not see the document: %+v, %v", e.Document, err)
	}
	if err := one.DeactivateDocument(one.ctx, "emergency"); err != nil {
		t.Fatal(err)
	}
	if v, code := other.check(t); code != "" || v.Document != "" {
		t.Errorf("after it was taken back: %+v %s", v, code)
	}
	if err := one.DeactivateDocument(one.ctx, ""); fault.CodeOf(err) != "operation_policy_document_inactive" {
		t.Errorf("taken back twice: %v", err)
	}
	if _, err := one.ActivateDocument(one.ctx, "v9", ""); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a version that does not exist: %v", err)
	}
	var entries int
	if err := db.QueryRow(one.ctx, `SELECT count(*) FROM audit_logs WHERE target_kind = 'operation_policy_document'`).
		Scan(&entries); err != nil || entries != 5 {
		t.Errorf("%d entries in the audit log, %v", entries, err)
	}
	for _, change := range []string{
		`UPDATE operation_policy_documents SET document = '{}'`, `DELETE FROM operation_policy_documents WHERE version = 2`,
		`UPDATE operation_policy_activations SET version = 1`, `DELETE FROM operation_policy_activations`,
	} {
		if _, err := db.Exec(one.ctx, change); err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("%s: %v", change, err)
		}
	}
}

func TestADocumentThatIsBrokenOrReachesOutIsNotKept(t *testing.T) {
	d := newDocuments(t, postgrestest.New(t), plenty)
	for name, row := range map[string]struct {
		change func(*policy.Document)
		path   string
	}{
		"syntax": {func(d *policy.Document) { d.Rego += "\ndeny contains" }, "body.rego:10"},
		"http.send": {func(d *policy.Document) {
			d.Rego += "\nx := http.send({\"method\": \"get\", \"url\": \"http://[::1]/\"})"
		}, "body.rego:10"},
		"runtime":          {func(d *policy.Document) { d.Rego += "\nx := opa.runtime().env" }, "body.rego:10"},
		"now":              {func(d *policy.Document) { d.Rego += "\nx := time.now_ns()" }, "body.rego:10"},
		"a misspelled key": {func(d *policy.Document) { d.Rego += "\nx if input.request.target > 1" }, "body.rego:10"},
		"no title":         {func(d *policy.Document) { d.Title = " " }, "body.title"},
		"only denials":     {func(d *policy.Document) { d.Examples = d.Examples[:1] }, "body.examples"},
		"a name twice":     {func(d *policy.Document) { d.Examples[1].Name = "Friday" }, "body.examples.1.name"},
		"a wrong chain": {
			func(d *policy.Document) { d.Examples[2].Chain.MaxConcurrency = new(int64(0)) },
			"body.examples.2.chain.max_concurrency",
		},
	} {
		document := fridays()
		row.change(&document)
		_, err := d.AddDocument(d.ctx, document)
		f, ok := fault.As(err)
		if !ok || f.Code != "operation_policy_document_invalid" || len(f.Fields) == 0 || f.Fields[0].Path != row.path {
			t.Errorf("%s: %v %+v", name, err, f)
		}
		if _, err := d.Try(d.ctx, document); fault.CodeOf(err) != "operation_policy_document_invalid" {
			t.Errorf("%s is tried: %v", name, err)
		}
	}
	if all, err := d.Documents(d.ctx, postgres.Slice[policy.DocumentPosition]{Limit: 10}); err != nil || len(all) != 0 {
		t.Errorf("%d are kept, %v", len(all), err)
	}
}

func TestADocumentThatFailsItsExamplesIsNotActivated(t *testing.T) {
	d := newDocuments(t, postgrestest.New(t), plenty)
	document := fridays()
	document.Examples[0].Because = "Saturday"
	document.Examples[1].Request.At = document.Examples[0].Request.At
	if _, err := d.AddDocument(d.ctx, document); err != nil {
		t.Fatal(err)
	}
	trials, err := d.Try(d.ctx, document)
	if err != nil || len(trials) != 3 || trials[0].Passed || trials[1].Passed || !trials[2].Passed ||
		!strings.Contains(trials[0].Message, "Saturday") || !strings.Contains(trials[1].Message, "must not be denied") {
		t.Errorf("%+v, %v", trials, err)
	}
	_, err = d.ActivateDocument(d.ctx, "v1", "")
	f, ok := fault.As(err)
	if !ok || f.Code != "operation_policy_examples_failed" || len(f.Fields) != 2 || f.Remedy == "" {
		t.Errorf("%v", err)
	}
	if v, code := d.check(t); code != "" || v.Document != "" {
		t.Errorf("it decides: %+v %s", v, code)
	}
}

// A document whose evaluation does not end fails its examples. Should one count that
// cannot decide, everything is denied, with a way out.
func TestADocumentThatCannotDecideDenies(t *testing.T) {
	db := postgrestest.New(t)
	d := newDocuments(t, db, plenty)
	loop, breaks := fridays(), fridays()
	loop.Rego += `
deny contains "never" if {
	some a in numbers.range(1, 100000)
	some b in numbers.range(1, 100000)
	some c in numbers.range(1, 100000)
	a + b + c == -1
}`
	breaks.Rego += "\ndeny contains \"never\" if { to_number(input.request.type) > 1 }"
	for i, row := range []struct {
		document policy.Document
		most     time.Duration
		says     string
	}{{loop, 100 * time.Millisecond, "longer than 100ms"}, {breaks, plenty, "evaluate"}} {
		d := newDocuments(t, db, row.most)
		v, err := d.AddDocument(d.ctx, row.document)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.ActivateDocument(d.ctx, v.Name(), ""); fault.CodeOf(err) != "operation_policy_examples_failed" ||
			!strings.Contains(err.Error(), row.says) {
			t.Errorf("%d: %v", i, err)
		}
		if _, err := db.Exec(d.ctx, `INSERT INTO operation_policy_activations (version, created_by)
			VALUES ($1, 'x')`, v.Number); err != nil {
			t.Fatal(err)
		}
		if got, code := d.check(t); code != "operation_policy_undecided" || !strings.Contains(got.Undecided, row.says) {
			t.Errorf("%d: %+v %s", i, got, code)
		}
	}
	if err := d.DeactivateDocument(d.ctx, "it cannot decide"); err != nil {
		t.Error(err)
	}
	if v, code := d.check(t); code != "" || v.Document != "" {
		t.Errorf("after it was taken back: %+v %s", v, code)
	}
}
