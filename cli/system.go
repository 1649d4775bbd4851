package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/contract/apiclient"
)

func systemColumns() []column[apiclient.SystemStatus] {
	type status = apiclient.SystemStatus
	return []column[status]{
		{title: "VERSION", text: func(v status) string { return v.Version }},
		{title: "READY", text: func(v status) string { return yesNo(v.Ready) }},
		{title: "ROLES", text: func(v status) string { return strings.Join(items(v.Roles), ", ") }},
		{title: "WITHOUT TLS", text: func(v status) string { return strings.Join(items(v.Insecure), ", ") }},
		{title: "TEMPORAL UI", text: func(v status) string { return text(v.Links.TemporalUi) }},
	}
}

func (a *app) dependencyColumns() []column[apiclient.HealthState] {
	type state = apiclient.HealthState
	return []column[state]{
		{title: "DEPENDENCY", text: func(h state) string { return h.Name }},
		{title: "UP", text: func(h state) string { return yesNo(h.Up) }},
		{title: "TOOK", text: func(h state) string { return strconv.FormatInt(h.TookMs, 10) + "ms" }},
		{title: "CHECKED", text: func(h state) string { return a.when(h.CheckedAt) }},
		{title: "MESSAGE", text: func(h state) string { return text(h.Message) }},
		{title: "WHAT TO DO", text: func(h state) string { return text(h.Remedy) }},
	}
}

func backlogColumns() []column[apiclient.SystemBacklog] {
	type backlog = apiclient.SystemBacklog
	return []column[backlog]{
		{title: "OUTBOX TO", text: func(b backlog) string { return string(b.Destination) }},
		{title: "PENDING", text: func(b backlog) string { return strconv.FormatInt(b.Pending, 10) }},
		{title: "FAILED", text: func(b backlog) string { return strconv.FormatInt(b.Failed, 10) }},
		{title: "OLDEST PENDING", text: func(b backlog) string {
			return short(time.Duration(b.OldestAgeSeconds * float64(time.Second)))
		}},
	}
}

func workerColumns() []column[apiclient.SystemWorkers] {
	type workers = apiclient.SystemWorkers
	return []column[workers]{
		{title: "QUEUE", text: func(w workers) string { return w.TaskQueue + " " + string(w.Kind) }},
		{title: "WORKERS", text: func(w workers) string { return strconv.FormatInt(w.Pollers, 10) }},
		{title: "WAITING", text: func(w workers) string { return strconv.FormatInt(w.Backlog, 10) }},
		{title: "OLDEST WAITING", text: func(w workers) string {
			return short(time.Duration(w.OldestAgeSeconds * float64(time.Second)))
		}},
	}
}

// items is what an optional list holds.
func items[T any](list *[]T) []T {
	if list == nil {
		return nil
	}
	return *list
}

func (a *app) systemCommand() *cobra.Command {
	return a.noun(noun{use: "system", short: "How the control plane itself is", group: groupWatching},
		a.verb(verb{
			use: "status", short: "Show the control plane and what it depends on", operations: []string{"get-system-status"},
			flags: func(cmd *cobra.Command) action {
				var watch bool
				var interval time.Duration
				addWatchFlags(cmd, &watch, &interval)
				return func(s *session, _ []string) error {
					if watch {
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
			use: "metrics", short: "Print the metrics of the replica that answers, in the text format of Prometheus", operations: []string{"get-metrics"},
			run: func(s *session, _ []string) error {
				resp, err := s.api.GetMetricsWithResponse(s.ctx)
				if err != nil {
					return err
				}
				return write(s.program.Out, harmlessLines(string(resp.GetBody())))
			},
		}),
	)
}

func (s *session) systemStatus() (json.RawMessage, error) {
	return apiclient.Read(s.api.GetSystemStatusWithResponse(s.ctx))
}

func (a *app) showSystem(s *session, raw json.RawMessage) error {
	if err := printOne(a, systemColumns(), raw); err != nil {
		return err
	}
	status, err := decode[apiclient.SystemStatus](raw)
	if err != nil {
		return err
	}
	if err := printPart(s, a.dependencyColumns(), items(status.value.Dependencies)); err != nil {
		return err
	}
	if err := printPart(s, backlogColumns(), items(status.value.Outbox)); err != nil {
		return err
	}
	if insecure := items(status.value.Insecure); len(insecure) > 0 {
		s.note("the setting insecure lets %s do without TLS; gpuaas config check says what that risks", strings.Join(insecure, ", "))
	}
	for _, n := range status.value.Notices {
		s.note("%s; %s", n.Message, n.Remedy)
	}
	if problem := text(status.value.WorkersError); problem != "" {
		s.note("what waits for workers is not known: %s", problem)
	}
	return printPart(s, workerColumns(), status.value.Workers)
}

// printPart prints, for people only, a table that belongs to an object.
func printPart[T any](s *session, columns []column[T], values []T) error {
	if format, err := s.format(); err != nil || format != formatTable || len(values) == 0 {
		return err
	}
	objects := make([]object[T], len(values))
	for i, v := range values {
		objects[i].value = v
	}
	if err := write(s.program.Out, "\n"); err != nil {
		return err
	}
	return printTable(s.program.Out, columns, objects, !s.flags.noHeaders)
}

// watchSystem redraws the status on a terminal; elsewhere it prints what has changed, as one
// line for people.
func (a *app) watchSystem(s *session, interval time.Duration) error {
	format, err := s.format()
	if err != nil {
		return err
	}
	if format == formatTable && s.terminal(s.program.Out) {
		return s.again(interval, func() (bool, error) {
			raw, err := s.systemStatus()
			if err != nil {
				return false, err
			}
			if err := write(s.program.Out, clearScreen); err != nil {
				return false, err
			}
			return false, a.showSystem(s, raw)
		})
	}
	last := ""
	return watchOne(s, interval, s.systemStatus, func(o object[apiclient.SystemStatus]) error {
		if format != formatTable {
			return printLine(s.program.Out, format, o.raw)
		}
		line := systemLine(o.value)
		if line == last {
			return nil // only when it was checked has changed
		}
		last = line
		return write(s.program.Out, s.now().In(s.zone).Format("2006-01-02 15:04:05")+"  "+line+"\n")
	}, func(apiclient.SystemStatus) bool { return false })
}

func systemLine(status apiclient.SystemStatus) string {
	parts := []string{"ready: " + yesNo(status.Ready)}
	for _, d := range items(status.Dependencies) {
		up := "up"
		if !d.Up {
			up = "down (" + or(text(d.Code), "unknown") + ")"
		}
		parts = append(parts, d.Name+": "+up)
	}
	for _, b := range items(status.Outbox) {
		if b.Pending+b.Failed > 0 {
			parts = append(parts, fmt.Sprintf("outbox to %s: %d pending, %d failed", b.Destination, b.Pending, b.Failed))
		}
	}
	return harmless(strings.Join(parts, "; "))
}
