// Command promcheck reads Prometheus rules and a Grafana dashboard with the
// parsers of Prometheus itself, and compares the metrics and labels they use with
// those that the product declares (docs/metrics.md).
//
// It is a module of its own because the parsers bring Kubernetes along.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: promcheck RULES DASHBOARD METRICS")
		os.Exit(2)
	}
	exprs, err := check(os.Args[1], os.Args[2], os.Args[3])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%d expressions of alerts and panels fit the metrics of the product\n", exprs)
}

func check(rules, dashboard, metrics string) (int, error) {
	known, err := readMetrics(metrics)
	if err != nil {
		return 0, err
	}
	exprs := map[string]string{}
	if err := errors.Join(readRules(rules, exprs), readDashboard(dashboard, exprs)); err != nil {
		return 0, err
	}
	var wrong []error
	for where, expr := range exprs {
		for _, w := range known.judge(expr) {
			wrong = append(wrong, fmt.Errorf("%s: %w\n\t%s", where, w, expr))
		}
	}
	return len(exprs), errors.Join(wrong...)
}

var promql = parser.NewParser(parser.Options{})

// readRules has the rules checked as Prometheus does when it loads them, their
// templates included.
func readRules(file string, exprs map[string]string) error {
	groups, wrong := rulefmt.ParseFile(file, false, model.UTF8Validation, promql, slog.Default())
	if len(wrong) > 0 {
		return fmt.Errorf("%s: %w", file, errors.Join(wrong...))
	}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			exprs["alert "+r.Alert+r.Record] = r.Expr
		}
	}
	return nil
}

func readDashboard(file string, exprs map[string]string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ RefID, Expr string }
		}
	}
	if err := json.Unmarshal(raw, &board); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, p := range board.Panels {
		for _, t := range p.Targets {
			exprs["panel "+p.Title+" "+t.RefID] = strings.ReplaceAll(t.Expr, "$__rate_interval", "5m")
		}
	}
	return nil
}

// metric is a line of the page of metrics.
type metric struct {
	kind   string
	labels []string
}

type metrics map[string]metric

// foreign are metrics that libraries export, or Prometheus itself.
var foreign = metrics{
	"db_client_operation_duration_seconds": {kind: "histogram"},
	"up":                                   {kind: "gauge", labels: []string{"job", "instance"}},
}

var (
	line = regexp.MustCompile("^\\| `([a-z0-9_]+)` \\| ([a-z ]+) \\| (.*?) \\|")
	word = regexp.MustCompile("`([a-z_]+)`")
)

func readMetrics(file string) (metrics, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	known := metrics{}
	for name, m := range foreign {
		known.add(name, m)
	}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if found := line.FindStringSubmatch(lines.Text()); found != nil {
			m := metric{kind: found[2]}
			for _, l := range word.FindAllStringSubmatch(found[3], -1) {
				m.labels = append(m.labels, l[1])
			}
			known.add(found[1], m)
		}
	}
	if len(known) < 20 {
		return nil, fmt.Errorf("%s lists only %d series: it is not the page of metrics", file, len(known))
	}
	return known, lines.Err()
}

// add enters the series of a metric.
func (k metrics) add(name string, m metric) {
	if m.kind != "histogram" {
		k[name] = m
		return
	}
	k[name+"_sum"], k[name+"_count"] = m, m
	k[name+"_bucket"] = metric{kind: m.kind, labels: append(slices.Clone(m.labels), "le")}
}

// judge says what is wrong with an expression.
func (k metrics) judge(expr string) (wrong []error) {
	tree, err := promql.ParseExpr(expr)
	if err != nil {
		return []error{err}
	}
	parser.Inspect(tree, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			wrong = append(wrong, k.selector(n)...)
		case *parser.AggregateExpr:
			wrong = append(wrong, k.aggregate(n)...)
		}
		return nil
	})
	return wrong
}

func (k metrics) selector(s *parser.VectorSelector) (wrong []error) {
	m, ok := k[s.Name]
	if !ok {
		return []error{fmt.Errorf("the product exports no %s", s.Name)}
	}
	for _, l := range s.LabelMatchers {
		if l.Name != labels.MetricName && !slices.Contains(m.labels, l.Name) {
			wrong = append(wrong, fmt.Errorf("%s has no label %s", s.Name, l.Name))
		}
	}
	return wrong
}

// aggregate knows the labels of what is aggregated when that is one series, and
// wants max of what all workers say alike.
func (k metrics) aggregate(a *parser.AggregateExpr) (wrong []error) {
	var of []*parser.VectorSelector
	inner := false
	parser.Inspect(a.Expr, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			of = append(of, n)
		case *parser.AggregateExpr:
			inner = true
		}
		return nil
	})
	for _, s := range of {
		m := k[s.Name]
		if m.kind == "gauge of rows" && !inner && a.Op != parser.MAX {
			wrong = append(wrong, fmt.Errorf("%s of %s counts every worker: every one says the same, use max", a.Op, s.Name))
		}
		for _, l := range a.Grouping {
			if !a.Without && !slices.Contains(m.labels, l) {
				wrong = append(wrong, fmt.Errorf("%s has no label %s to group by", s.Name, l))
			}
		}
	}
	return wrong
}
