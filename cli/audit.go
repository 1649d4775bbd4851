package cli

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
	"gpuaas/cli/internal/watch"
	"gpuaas/contract/apiclient"
)

func (a *app) auditColumns() []table.Column[apiclient.AuditLogEntry] {
	type entry = apiclient.AuditLogEntry
	return []table.Column[entry]{
		{Title: "TIME", Text: func(e entry) string { return a.When(e.OccurredAt) }},
		{Title: "ACTOR", Text: func(e entry) string { return cmp.Or(e.ActorName, e.ActorId) }},
		{Title: "ROLE", Text: func(e entry) string { return e.ActorRole }},
		{Title: "ACTION", Text: func(e entry) string { return e.Action }},
		{Title: "RESULT", Text: func(e entry) string { return string(e.Result) }},
		{Title: "TARGET", Text: func(e entry) string { return strings.TrimSpace(e.TargetKind + " " + e.TargetId) }},
		{Title: "CORRELATION ID", Text: func(e entry) string { return e.CorrelationId }},
		{Title: "REASON", Text: func(e entry) string { return text(e.Reason) }},
	}
}

type auditFilter struct {
	action, actor, targetKind, target, result, correlation, since, until string
}

func (f *auditFilter) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.action, "action", "", "only this action, such as tenant.create")
	fs.StringVar(&f.actor, "actor", "", "only what this actor did, by id")
	fs.StringVar(&f.targetKind, "target-kind", "", "only targets of this kind, such as tenant")
	fs.StringVar(&f.target, "target", "", "only this target, by id")
	fs.StringVar(&f.result, "result", "", "only attempts with this result: success, failure or denied")
	fs.StringVar(&f.correlation, "correlation-id", "", "only what one request caused")
	fs.StringVar(&f.since, "since", "", "at or after this time: 2006-01-02T15:04:05Z, or so long ago: 90m, 12h, 7d")
	fs.StringVar(&f.until, "until", "", "before this time")
	frame.Complete(cmd, "result", apiclient.Words("list-audit-logs.result")...)
}

func (f *auditFilter) params(s *session) (apiclient.ListAuditLogsParams, error) {
	p := apiclient.ListAuditLogsParams{
		Action: frame.Given(s.Session, "action", &f.action), ActorId: frame.Given(s.Session, "actor", &f.actor),
		TargetKind:    frame.Given(s.Session, "target-kind", &f.targetKind),
		TargetId:      frame.Given(s.Session, "target", &f.target),
		CorrelationId: frame.Given(s.Session, "correlation-id", &f.correlation),
		Result:        frame.GivenAs[apiclient.ListAuditLogsParamsResult](s.Session, "result", &f.result),
	}
	for _, bound := range []struct {
		flag, text string
		into       **time.Time
	}{{"since", f.since, &p.Since}, {"until", f.until, &p.Until}} {
		if !s.Cmd.Flags().Changed(bound.flag) {
			continue
		}
		t, err := s.Moment(bound.text)
		if err != nil {
			return p, failure.Misuse(s.Cmd, "--%s: %v", bound.flag, err)
		}
		*bound.into = &t
	}
	return p, nil
}

func (a *app) auditCommand() *cobra.Command {
	return a.noun(noun{use: "audit", short: "Who did what, and who was refused", group: groupWatching},
		a.verb(verb{
			use: "list", short: "List the audit log, newest first", aliases: []string{"ls"},
			operations: []string{"list-audit-logs"},
			long: "Lists the audit log, newest first. With --watch it shows the newest entries and then each new\n" +
				"one below the others until Ctrl-C.",
			example: "  gpuaas audit list --since 24h --result denied\n  gpuaas audit list --action tenant.create -o json",
			flags: func(cmd *cobra.Command) action {
				filter := &auditFilter{}
				filter.add(cmd)
				f := listing.AddFlags(cmd, 50)
				return func(s *session, _ []string) error {
					params, err := filter.params(s)
					if err != nil {
						return err
					}
					if f.Watch {
						return a.watchAudit(s, f, params)
					}
					return listing.Print(s.Session, f, listing.Listing[apiclient.AuditLogEntry]{
						Columns: a.auditColumns(),
						Fetch:   s.auditLogs(params),
					})
				}
			},
		}))
}

func (s *session) auditLogs(params apiclient.ListAuditLogsParams) func(listing.Page) (apiclient.Answer, error) {
	return func(p listing.Page) (apiclient.Answer, error) {
		params.Cursor, params.PageSize = p.Cursor, p.Size
		return s.API.ListAuditLogsWithResponse(s.Ctx, &params)
	}
}

// lateEntries is how long a transaction may take from the time that its entry bears until the
// entry can be seen.
const lateEntries = time.Minute

// watchAudit shows new entries below the others. It looks back a little each time, because an
// entry becomes visible only after the time that it bears.
func (a *app) watchAudit(s *session, f *listing.Flags, params apiclient.ListAuditLogsParams) error {
	format, err := s.Format()
	if err != nil {
		return err
	}
	shown := map[string]time.Time{}
	newest := time.Time{}
	headers := !s.Flags.NoHeaders
	limit := f.Limit
	return s.Again(f.Interval, func() (bool, error) {
		raws, _, err := listing.Collect(s.auditLogs(params), limit)
		if err != nil {
			return false, err
		}
		slices.Reverse(raws)
		var fresh []json.RawMessage
		for _, raw := range raws {
			o, err := output.Decode[apiclient.AuditLogEntry](raw)
			if err != nil {
				return false, err
			}
			id := o.Value.Id.String()
			if _, ok := shown[id]; ok {
				continue
			}
			shown[id] = o.Value.OccurredAt
			if o.Value.OccurredAt.After(newest) {
				newest = o.Value.OccurredAt
			}
			fresh = append(fresh, raw)
		}
		if !newest.IsZero() {
			since := newest.Add(-lateEntries)
			for id, at := range shown {
				if at.Before(since) {
					delete(shown, id)
				}
			}
			if len(shown) > 0 && (params.Since == nil || params.Since.Before(since)) {
				params.Since = &since
			}
			limit = 0 // from now on everything that is new
		}
		err = watch.AppendRows(s.Session, format, a.auditColumns(), fresh, headers)
		headers = false
		return false, err
	})
}
