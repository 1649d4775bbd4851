package statement

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"

	"gpuaas/contract/currency"
)

// amount writes minor units as a decimal, without the currency.
func amount(minor int64, code string) string {
	text, _, _ := strings.Cut(currency.Format(minor, code), " ")
	return text
}

// cell keeps a spreadsheet from taking somebody's words for a formula.
func cell(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}

func moment(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.999999Z") }

func momentOf(t *time.Time) string {
	if t == nil {
		return ""
	}
	return moment(*t)
}

func late(is bool) string {
	if is {
		return "late"
	}
	return ""
}

var csvHead = []string{
	"statement", "kind", "project", "allocation", "name", "sku", "node", "user", "from", "to", "seconds", "units",
	"unit_hour", "paid_share", "amount", "currency", "reference", "reason", "entry", "late",
}

// CSV is the statement as comma-separated values: one line for each movement, whose
// amounts sum from the opening to the closing balance.
func (d Document) CSV() ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	rows := [][]string{csvHead}
	add := func(values map[string]string) {
		values["statement"], values["currency"] = d.Label, d.Currency
		row := make([]string, len(csvHead))
		for i, h := range csvHead {
			row[i] = values[h]
		}
		rows = append(rows, row)
	}
	money := func(minor int64) string { return amount(minor, d.Currency) }
	add(map[string]string{"kind": "opening", "to": moment(d.PeriodStart), "amount": money(d.OpeningMinor)})
	for _, l := range d.Lines {
		add(map[string]string{
			"kind": "usage", "project": l.Project, "allocation": l.AllocationID.String(), "name": cell(l.Name), "sku": l.SKU,
			"node": cell(l.Hostname), "user": cell(l.RequestedByName), "from": moment(l.From), "to": moment(l.To),
			"seconds": strconv.FormatInt(l.Seconds, 10), "units": strconv.Itoa(int(l.Units)), "unit_hour": money(l.PriceMinor),
			"paid_share": strconv.Itoa(int(l.PaidShare)), "amount": money(-l.UsageMinor), "reason": cell(l.FreeBecause),
			"late": late(l.Late),
		})
	}
	for _, l := range d.Reserved {
		add(map[string]string{
			"kind": "reserved", "project": l.Project, "sku": l.SKU, "from": moment(l.From), "to": moment(l.To),
			"seconds": strconv.FormatInt(l.NodeSeconds, 10), "units": strconv.Itoa(int(l.Units)),
			"unit_hour": money(l.PriceMinor), "paid_share": strconv.Itoa(int(l.PaidShare)), "amount": money(-l.UsageMinor),
			"late": late(l.Late), "reference": l.ReservationID.String(), "reason": "nodes that are reserved and not used",
		})
	}
	for _, r := range d.Reliefs {
		add(map[string]string{
			"kind": "relief", "allocation": r.AllocationID.String(), "from": moment(r.From), "to": moment(r.To),
			"amount": money(r.AmountMinor), "reason": cell(r.Reason), "entry": r.EntryID.String(), "late": late(r.Late),
		})
	}
	for _, m := range d.Corrections {
		values := map[string]string{
			"kind": "correction", "from": momentOf(m.From), "to": momentOf(m.To), "amount": money(m.AmountMinor),
			"reference": m.CorrectsID.String(), "reason": cell(m.Reason), "entry": m.EntryID.String(),
		}
		if m.AllocationID != nil {
			values["allocation"] = m.AllocationID.String()
		}
		add(values)
	}
	for _, m := range d.MoneyIn {
		add(map[string]string{
			"kind": m.Kind, "to": moment(m.BookedAt), "amount": money(m.AmountMinor), "reference": cell(m.Reference),
			"reason": cell(m.Reason), "entry": m.EntryID.String(), "late": late(m.Late),
		})
	}
	add(map[string]string{"kind": "closing", "to": moment(d.PeriodEnd), "amount": money(d.ClosingMinor)})
	if err := w.WriteAll(rows); err != nil {
		return nil, fmt.Errorf("write CSV: %w", err)
	}
	return b.Bytes(), nil
}

const style = `body{font:14px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;color:#111}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem}table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.25rem .5rem;border-bottom:1px solid #ddd;vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}.late{color:#8a4b00}
@media print{body{margin:0;max-width:none}}`

// pagePolicy lets a browser show the page: its own style, and nothing else.
var pagePolicy = func() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; frame-ancestors 'none'"
}()

var page = template.Must(template.New("statement").Funcs(template.FuncMap{
	"style": func() template.CSS { return template.CSS(style) }, //nolint:gosec // a constant
	"date":  func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") },
	"day":   func(t time.Time) string { return t.UTC().Format(time.DateOnly) },
	"last":  func(t time.Time) string { return t.UTC().AddDate(0, 0, -1).Format(time.DateOnly) },
	"money": currency.Format,
	"minus": func(minor int64) int64 { return -minor },
	"hours": func(seconds int64) string { return fmt.Sprintf("%d.%02d", seconds/3600, seconds%3600/36) },
}).Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{{if .Draft}}Draft{{else}}Statement{{end}} {{.Label}}</title><style>{{style}}</style></head><body>
<h1>{{if .Draft}}Draft{{else}}Statement{{end}} {{.Label}}</h1>
<p>{{.Issuer}} for {{.TenantName}} ({{.Tenant}}), {{day .PeriodStart}} to {{last .PeriodEnd}} in UTC, {{if .Draft}}read{{else}}issued{{end}} {{date .IssuedAt}} UTC.{{if .Draft}} The month is open: this is what was booked until then.{{end}}</p>
<table>
<tr><td>Left before</td><td class="n">{{money .OpeningMinor .Currency}}</td></tr>
<tr><td>Usage</td><td class="n">{{money (minus .UsageMinor) .Currency}}</td></tr>
<tr><td>Given back</td><td class="n">{{money .ReliefMinor .Currency}}</td></tr>
<tr><td>Corrections</td><td class="n">{{money .MendedMinor .Currency}}</td></tr>
<tr><td>Money that came in</td><td class="n">{{money .MoneyInMinor .Currency}}</td></tr>
<tr><th>Left</th><th class="n">{{money .ClosingMinor .Currency}}</th></tr>
</table>
{{- if .LateEntries}}
<p class="late">{{.LateEntries}} of {{.Entries}} entries belong to a time before {{day .PeriodStart}} and were booked after its statement. They are marked as late.</p>
{{- end}}
{{- if .Projects}}
<h2>Projects</h2>
<table><tr><th>Project</th><th class="n">Unit-hours</th><th class="n">Usage</th><th class="n">Given back</th></tr>
{{- range .Projects}}
<tr><td>{{.Project}}</td><td class="n">{{hours .Seconds}}</td><td class="n">{{money .UsageMinor $.Currency}}</td><td class="n">{{money .ReliefMinor $.Currency}}</td></tr>
{{- end}}
</table>
{{- end}}
{{- if .Lines}}
<h2>Usage</h2>
<table><tr><th>Project</th><th>Allocation</th><th>SKU</th><th>Node</th><th>From (UTC)</th><th>To (UTC)</th><th class="n">Hours</th><th class="n">Units</th><th class="n">Unit-hour</th><th class="n">Cost</th></tr>
{{- range .Lines}}
<tr><td>{{.Project}}</td><td>{{if .Name}}{{.Name}}<br>{{end}}{{.AllocationID}}{{if .Late}} <span class="late">late</span>{{end}}</td><td>{{.SKU}}</td><td>{{.Hostname}}</td><td>{{date .From}}</td><td>{{date .To}}</td><td class="n">{{hours .Seconds}}</td><td class="n">{{.Units}}</td><td class="n">{{money .PriceMinor $.Currency}}</td><td class="n">{{money .UsageMinor $.Currency}}{{if .FreeBecause}}<br>free: {{.FreeBecause}}{{end}}</td></tr>
{{- end}}
</table>
{{- end}}
{{- if .Reserved}}
<h2>Reserved and not used</h2>
<table><tr><th>Project</th><th>Reservation</th><th>SKU</th><th>From (UTC)</th><th>To (UTC)</th><th class="n">Nodes</th><th class="n">Node-hours not used</th><th class="n">Units</th><th class="n">Unit-hour</th><th class="n">Cost</th></tr>
{{- range .Reserved}}
<tr><td>{{if .Project}}{{.Project}}{{else}}all{{end}}</td><td>{{.ReservationID}}{{if .Late}} <span class="late">late</span>{{end}}</td><td>{{.SKU}}</td><td>{{date .From}}</td><td>{{date .To}}</td><td class="n">{{.Nodes}}</td><td class="n">{{hours .NodeSeconds}}</td><td class="n">{{.Units}}</td><td class="n">{{money .PriceMinor $.Currency}}</td><td class="n">{{money .UsageMinor $.Currency}}</td></tr>
{{- end}}
</table>
{{- end}}
{{- if .Reliefs}}
<h2>Given back</h2>
<table><tr><th>Allocation</th><th>From (UTC)</th><th>To (UTC)</th><th>Reason</th><th class="n">Amount</th></tr>
{{- range .Reliefs}}
<tr><td>{{.AllocationID}}{{if .Late}} <span class="late">late</span>{{end}}</td><td>{{date .From}}</td><td>{{date .To}}</td><td>{{.Reason}}</td><td class="n">{{money .AmountMinor $.Currency}}</td></tr>
{{- end}}
</table>
{{- end}}
{{- if .Corrections}}
<h2>Corrections</h2>
<table><tr><th>Booked (UTC)</th><th>Entry</th><th>Corrects</th><th>Reason</th><th class="n">Amount</th></tr>
{{- range .Corrections}}
<tr><td>{{date .BookedAt}}</td><td>{{.EntryID}}</td><td>{{.CorrectsID}}</td><td>{{.Reason}}</td><td class="n">{{money .AmountMinor $.Currency}}</td></tr>
{{- end}}
</table>
{{- end}}
{{- if .MoneyIn}}
<h2>Money that came in</h2>
<table><tr><th>Booked (UTC)</th><th>Kind</th><th>Reference</th><th>Reason</th><th class="n">Amount</th></tr>
{{- range .MoneyIn}}
<tr><td>{{date .BookedAt}}{{if .Late}} <span class="late">late</span>{{end}}</td><td>{{.Kind}}</td><td>{{.Reference}}</td><td>{{.Reason}}</td><td class="n">{{money .AmountMinor $.Currency}}</td></tr>
{{- end}}
</table>
{{- end}}
</body></html>
`))

// HTML is the statement as a page.
func (d Document) HTML() ([]byte, error) {
	var b bytes.Buffer
	if err := page.Execute(&b, d); err != nil {
		return nil, fmt.Errorf("write page: %w", err)
	}
	return b.Bytes(), nil
}
