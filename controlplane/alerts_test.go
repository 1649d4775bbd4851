package controlplane

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"gpuaas/controlplane/internal/engine/telemetry"
)

// alert is a rule of deploy/prometheus. That its expression is PromQL, and fits
// the labels of its metrics, is checked by tools/promcheck with the parsers of
// Prometheus.
type alert struct {
	Alert, Expr string
	Labels      map[string]string
	Annotations struct{ Summary, Action, Runbook string }
}

func alerts(t *testing.T) []alert {
	t.Helper()
	var rules struct{ Groups []struct{ Rules []alert } }
	raw, err := os.ReadFile("../deploy/prometheus/gpuaas.rules.yaml")
	if err == nil {
		err = yaml.Unmarshal(raw, &rules)
	}
	var all []alert
	for _, g := range rules.Groups {
		all = append(all, g.Rules...)
	}
	if err != nil || len(all) < 10 {
		t.Fatalf("%d alerts, %v", len(all), err)
	}
	return all
}

// series are the metrics of the product as expressions name them, and those of
// its libraries that the dashboard shows.
func series() map[string]bool {
	known := map[string]bool{}
	for _, s := range []string{"_bucket", "_sum", "_count"} {
		known["db_client_operation_duration_seconds"+s] = true
	}
	for _, m := range telemetry.Declared() {
		if m.Kind() != telemetry.KindHistogram {
			known[m.Exported()] = true
			continue
		}
		for _, s := range []string{"_bucket", "_sum", "_count"} {
			known[m.Exported()+s] = true
		}
	}
	return known
}

var named = regexp.MustCompile(`\b(?:gpuaas|http|db|temporal|go|process)_[a-z0-9_]+`)

func TestAlertsAndPanelsNameMetricsThatAreExported(t *testing.T) {
	exprs := map[string]string{}
	for _, a := range alerts(t) {
		exprs["alert "+a.Alert] = a.Expr
	}
	var board struct {
		Panels []struct {
			Title, Type, Description string
			Targets                  []struct{ Expr string }
		}
	}
	raw, err := os.ReadFile("../deploy/grafana/gpuaas.json")
	if err == nil {
		err = json.Unmarshal(raw, &board)
	}
	if err != nil || len(board.Panels) < 10 {
		t.Fatalf("%d panels, %v", len(board.Panels), err)
	}
	for _, p := range board.Panels {
		if p.Type != "row" && (p.Description == "" || len(p.Targets) == 0) {
			t.Errorf("panel %q has no description or shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			exprs["panel "+p.Title] += target.Expr + "\n"
		}
	}
	known := series()
	for where, expr := range exprs {
		names := named.FindAllString(expr, -1)
		if len(names) == 0 {
			t.Errorf("%s uses no metric: %s", where, expr)
		}
		for _, name := range names {
			if !known[name] {
				t.Errorf("%s uses %s, which the product does not export (docs/metrics.md lists what it does)", where, name)
			}
		}
	}
}

var commandIn = regexp.MustCompile("`gpuaas ([a-z {}$.-]+)")

func TestEveryAlertSaysWhatToDo(t *testing.T) {
	var families []string
	for _, k := range newHouse(t).jobs {
		families = append(families, k.Described().Noun)
	}
	for _, a := range alerts(t) {
		if a.Annotations.Summary == "" || a.Annotations.Action == "" || a.Labels["severity"] == "" {
			t.Errorf("alert %s has no summary, action or severity", a.Alert)
		}
		for _, family := range families {
			fill := strings.NewReplacer("{{ $labels.family }}", family)
			if _, err := os.Stat(filepath.Join("..", fill.Replace(a.Annotations.Runbook))); a.Annotations.Runbook == "" ||
				err != nil {
				t.Errorf("alert %s has no runbook for the jobs called %s: %v", a.Alert, family, err)
			}
			for _, m := range commandIn.FindAllStringSubmatch(fill.Replace(a.Annotations.Action), -1) {
				words := strings.Fields(strings.Split(m[1], " -")[0])
				if _, err := os.Stat("../cli/testdata/help/gpuaas-" + strings.Join(words, "-") + ".golden"); err != nil {
					t.Errorf("alert %s names a command that there is not: %v", a.Alert, words)
				}
			}
		}
	}
}
