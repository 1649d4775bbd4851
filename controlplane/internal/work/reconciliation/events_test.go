package reconciliation

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/fleet/site"
)

func TestAdviceNamesTheNodeAndTheSite(t *testing.T) {
	for text, want := range map[string]Advice{
		"gpuaas drift show NODE: what MAAS showed": {"gpuaas drift show c07u43", "what MAAS showed"},
		"gpuaas site doctor SITE":                  {"gpuaas site doctor dc1", ""},
		"Look at NODE on site: it may be off":      {"", "Look at c07u43 on site: it may be off"},
		"gpuaas node update NODE --host ADDRESS: NODES, SITES, $1": {
			"gpuaas node update c07u43 --host ADDRESS",
			"NODES, SITES, $1",
		},
	} {
		if got := adviceOf(fillIn(text, "c07u43", "dc1")); got != want {
			t.Errorf("%q is %+v, want %+v", text, got, want)
		}
	}
	if got := fillIn("gpuaas drift show NODE --site SITE", "", ""); got != "gpuaas drift show NODE --site SITE" {
		t.Errorf("without names it is %q", got)
	}
}

// Every advice of every rule becomes something that can be shown.
func TestAdviceOfAllRulesIsComplete(t *testing.T) {
	for _, r := range Rules {
		f := FindingShown{Finding: Finding{Type: r.Type, Status: Confirmed, Hostname: "c07u43"}, SiteName: "dc1"}
		advice := f.Advised()
		if len(advice) != len(r.Advice) || len(advice) == 0 {
			t.Errorf("%s: %d of %d are shown", r.Type, len(advice), len(r.Advice))
		}
		for _, a := range advice {
			if a == (Advice{}) || nodeWord.MatchString(a.Command) || siteWord.MatchString(a.Command) {
				t.Errorf("%s: %+v", r.Type, a)
			}
		}
	}
}

// Whoever follows the list from its top destroys nothing that something safer would have settled.
func TestAdviceThatDestroysComesLast(t *testing.T) {
	for _, r := range Rules {
		destroying := ""
		for _, a := range r.Advice {
			switch {
			case strings.Contains(a, "DESTROYS"):
				destroying = a
			case destroying != "":
				t.Errorf("%s: %q comes before %q", r.Type, destroying, a)
			}
		}
	}
}

// What others are told names the finding, and a command that works as it stands.
func TestWhatIsToldAboutFindings(t *testing.T) {
	db := postgrestest.New(t)
	n, at := id.New[id.Node](), site.Site{ID: id.New[id.Site](), Name: "dc1"}
	f := Finding{
		ID: id.New[id.Finding](), Site: at.ID, Node: n, Type: TypeReleased, Severity: Critical, Status: Confirmed,
		SystemID: "4y3h7n", Expected: "Deployed", Observed: "Ready",
		Message: "it was released", Action: Quarantine, Withheld: "dry run", Occurrence: 2, Details: json.RawMessage(`{}`),
	}
	over := f
	over.Status, over.ClosedBecause = Closed, "a look showed that it is over"
	setting := Finding{
		ID: id.New[id.Finding](), Site: at.ID, Type: TypeUnusedPowerOverride, Severity: Info,
		Status: Confirmed,
	}
	since := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	err := db.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		for _, say := range []func() error{
			func() error { return announce(ctx, tx, eventwire.NodeDriftDetected, f) },
			func() error { return announce(ctx, tx, eventwire.NodeDriftResolved, over) },
			func() error { return announce(ctx, tx, eventwire.NodeDriftActed, setting) },
			func() error {
				return announceBreaker(ctx, tx, eventwire.ReconciliationBreakerOpened, at, since, []id.Node{n}, "too many")
			},
			func() error {
				return announceHearing(ctx, tx, eventwire.ReconciliationSiteUnheard, at, since, "silence")
			},
			func() error {
				return announceHearing(ctx, tx, eventwire.ReconciliationSiteHeard, at, since, "it answers")
			},
		} {
			if err := say(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	payload := func(of eventwire.Type, into any) {
		t.Helper()
		var raw []byte
		err := db.QueryRow(t.Context(), `SELECT envelope -> 'payload' FROM outbox_events WHERE event_type = $1`,
			of).Scan(&raw)
		if err == nil {
			err = json.Unmarshal(raw, into)
		}
		if err != nil {
			t.Fatalf("%s: %v", of, err)
		}
	}
	var found, resolved, about eventwire.Drift
	payload(eventwire.NodeDriftDetected, &found)
	if found.NodeID != n.String() || found.Finding != "released" || found.Severity != "critical" ||
		found.Observed != "Ready" || found.Withheld != "dry run" || found.Occurrence != 2 ||
		// it has no name: the id stands for it
		!strings.HasPrefix(found.Remedy, "gpuaas ") || !strings.Contains(found.Remedy, n.String()) {
		t.Errorf("found: %+v", found)
	}
	payload(eventwire.NodeDriftResolved, &resolved)
	if resolved.Status != "closed" || resolved.ClosedBecause == "" || resolved.Remedy != "" {
		t.Errorf("resolved: %+v", resolved)
	}
	payload(eventwire.NodeDriftActed, &about)
	if about.NodeID != "" || !strings.Contains(about.Remedy, at.ID.String()) {
		t.Errorf("about a setting: %+v", about)
	}
	var open, unheard, heard eventwire.SiteReconciliation
	payload(eventwire.ReconciliationBreakerOpened, &open)
	if open.Severity != "critical" || len(open.NodeIDs) != 1 || open.NodeIDs[0] != n.String() ||
		open.Remedy != "gpuaas reconcile status --site dc1" || !open.Since.Equal(since) {
		t.Errorf("opened: %+v", open)
	}
	payload(eventwire.ReconciliationSiteUnheard, &unheard)
	payload(eventwire.ReconciliationSiteHeard, &heard)
	if unheard.Severity != "warning" || unheard.Remedy != "gpuaas site doctor dc1" || heard.Severity != "info" ||
		heard.Remedy != "" {
		t.Errorf("unheard: %+v, heard: %+v", unheard, heard)
	}
}
