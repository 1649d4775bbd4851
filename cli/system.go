package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/moment"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
	"gpuaas/cli/internal/watch"
	"gpuaas/contract/apiclient"
)

func systemColumns() []table.Column[apiclient.SystemStatus] {
	type status = apiclient.SystemStatus
	return []table.Column[status]{
		{Title: "VERSION", Text: func(v status) string { return v.Version }},
		{Title: "READY", Text: func(v status) string { return yesNo(v.Ready) }},
		{Title: "ROLES", Text: func(v status) string { return strings.Join(items(v.Roles), ", ") }},
		{Title: "WITHOUT TLS", Text: func(v status) string { return strings.Join(items(v.Insecure), ", ") }},
		{Title: "TEMPORAL UI", Text: func(v status) string { return text(v.Links.TemporalUi) }},
	}
}

func (a *app) dependencyColumns() []table.Column[apiclient.HealthState] {
	type state = apiclient.HealthState
	return []table.Column[state]{
		{Title: "DEPENDENCY", Text: func(h state) string { return h.Name }},
		{Title: "UP", Text: func(h state) string { return yesNo(h.Up) }},
		{Title: "TOOK", Text: func(h state) string { return strconv.FormatInt(h.TookMs, 10) + "ms" }},
		ago(a, "CHECKED", func(h state) time.Time { return h.CheckedAt }),
		{Title: "MESSAGE", Long: true, Text: func(h state) string { return text(h.Message) }},
		{Title: "WHAT TO DO", Long: true, Text: func(h state) string { return text(h.Remedy) }},
	}
}

func backlogColumns() []table.Column[apiclient.SystemBacklog] {
	type backlog = apiclient.SystemBacklog
	return []table.Column[backlog]{
		{Title: "OUTBOX TO", Text: func(b backlog) string { return string(b.Destination) }},
		{Title: "PENDING", Text: func(b backlog) string { return strconv.FormatInt(b.Pending, 10) }},
		{Title: "FAILED", Text: func(b backlog) string { return strconv.FormatInt(b.Failed, 10) }},
		{Title: "OLDEST PENDING", Text: func(b backlog) string {
			return moment.Short(time.Duration(b.OldestAgeSeconds * float64(time.Second)))
		}},
	}
}

func workerColumns() []table.Column[apiclient.SystemWorkers] {
	type workers = apiclient.SystemWorkers
	return []table.Column[workers]{
		{Title: "QUEUE", Text: func(w workers) string { return w.TaskQueue + " " + string(w.Kind) }},
		{Title: "WORKERS", Text: func(w workers) string { return strconv.FormatInt(w.Pollers, 10) }},
		{Title: "WAITING", Text: func(w workers) string { return strconv.FormatInt(w.Backlog, 10) }},
		{Title: "OLDEST WAITING", Text: func(w workers) string {
			return moment.Short(time.Duration(w.OldestAgeSeconds * float64(time.Second)))
		}},
	}
}

func (a *app) systemCommand() *cobra.Command {
	return a.noun(noun{use: "system", short: "State of the control plane", group: groupWatching},
		a.verb(verb{
			use: "status", short: "Show the control plane and what it depends on", operations: []string{"get-system-status"},
			flags: func(cmd *cobra.Command) action {
				var live bool
				var interval time.Duration
				watch.AddFlags(cmd, &live, &interval)
				return func(s *session, _ []string) error {
					if live {
						return a.watchSystem(s, interval)
					}
					raw, err := s.systemStatus()
					if err != nil {
						return err
					}
					return a.showSystem(s, raw)
				}
			},
		}),
		a.verb(verb{
			use: "metrics", short: "Print the metrics of the replica that answers, in the text format of Prometheus",
			operations: []string{"get-metrics"},
			run: func(s *session, _ []string) error {
				resp, err := s.API.GetMetricsWithResponse(s.Ctx)
				if err != nil {
					return err
				}
				return output.Write(s.Program.Out, output.HarmlessLines(string(resp.GetBody())))
			},
		}),
	)
}

func (s *session) systemStatus() (json.RawMessage, error) {
	return apiclient.Read(s.API.GetSystemStatusWithResponse(s.Ctx))
}

func (a *app) showSystem(s *session, raw json.RawMessage) error {
	if err := frame.PrintOne(a.App, systemColumns(), raw); err != nil {
		return err
	}
	status, err := output.Decode[apiclient.SystemStatus](raw)
	if err != nil {
		return err
	}
	if err := frame.PrintPart(s.Session, a.dependencyColumns(), items(status.Value.Dependencies)); err != nil {
		return err
	}
	if err := frame.PrintPart(s.Session, backlogColumns(), items(status.Value.Outbox)); err != nil {
		return err
	}
	if insecure := items(status.Value.Insecure); len(insecure) > 0 {
		s.Note("the setting insecure lets %s do without TLS; gpuaas config check says what that risks",
			strings.Join(insecure, ", "))
	}
	for _, n := range status.Value.Notices {
		s.Note("%s; %s", n.Message, n.Remedy)
	}
	if problem := text(status.Value.WorkersError); problem != "" {
		s.Note("what waits for workers is not known: %s", problem)
	}
	return frame.PrintPart(s.Session, workerColumns(), status.Value.Workers)
}

// watchSystem redraws the status on a terminal; elsewhere it prints what has changed, as one
// line for people.
func (a *app) watchSystem(s *session, interval time.Duration) error {
	format, err := s.Format()
	if err != nil {
		return err
	}
	if format == output.Table && s.Terminal(s.Program.Out) {
		return s.Again(interval, func() (bool, error) {
			raw, err := s.systemStatus()
			if err != nil {
				return false, err
			}
			return false, s.DrawWhat(func() error { return a.showSystem(s, raw) })
		})
	}
	last := ""
	return watch.One(s.Session, interval, s.systemStatus, func(o output.Object[apiclient.SystemStatus]) error {
		if format != output.Table {
			return output.PrintLine(s.Program.Out, format, o.Raw)
		}
		line := systemLine(o.Value)
		if line == last {
			return nil // only when it was checked has changed
		}
		last = line
		return output.Write(s.Program.Out, s.Now().In(s.Zone).Format("2006-01-02 15:04:05")+"  "+line+"\n")
	}, func(apiclient.SystemStatus) bool { return false })
}

func systemLine(status apiclient.SystemStatus) string {
	parts := []string{"ready: " + yesNo(status.Ready)}
	for _, d := range items(status.Dependencies) {
		up := "up"
		if !d.Up {
			up = "down (" + cmp.Or(text(d.Code), "unknown") + ")"
		}
		parts = append(parts, d.Name+": "+up)
	}
	for _, b := range items(status.Outbox) {
		if b.Pending+b.Failed > 0 {
			parts = append(parts, fmt.Sprintf("outbox to %s: %d pending, %d failed", b.Destination, b.Pending, b.Failed))
		}
	}
	return output.Harmless(strings.Join(parts, "; "))
}
