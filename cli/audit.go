package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/contract/apiclient"
)

func (a *app) auditColumns() []column[apiclient.AuditLogEntry] {
	type entry = apiclient.AuditLogEntry
	return []column[entry]{
		{title: "TIME", text: func(e entry) string { return a.when(e.OccurredAt) }},
		{title: "ACTOR", text: func(e entry) string { return or(e.ActorName, e.ActorId) }},
		{title: "ROLE", text: func(e entry) string { return e.ActorRole }},
		{title: "ACTION", text: func(e entry) string { return e.Action }},
		{title: "RESULT", text: func(e entry) string { return string(e.Result) }},
		{title: "TARGET", text: func(e entry) string { return strings.TrimSpace(e.TargetKind + " " + e.TargetId) }},
		{title: "CORRELATION ID", text: func(e entry) string { return e.CorrelationId }},
		{title: "REASON", text: func(e entry) string { return text(e.Reason) }},
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
	fs.StringVar(&f.result, "result", "", "only attempts that ended so: success, failure or denied")
	fs.StringVar(&f.correlation, "correlation-id", "", "only what one request caused")
	fs.StringVar(&f.since, "since", "", "at or after this time: 2006-01-02T15:04:05Z, or so long ago: 90m, 12h, 7d")
	fs.StringVar(&f.until, "until", "", "before this time")
	complete(cmd, "result", "success", "failure", "denied")
}

func (f *auditFilter) params(s *session) (apiclient.ListAuditLogsParams, error) {
	p := apiclient.ListAuditLogsParams{
		Action: given(s, "action", &f.action), ActorId: given(s, "actor", &f.actor), TargetKind: given(s, "target-kind", &f.targetKind),
		TargetId: given(s, "target", &f.target), CorrelationId: given(s, "correlation-id", &f.correlation),
		Result: givenAs[apiclient.ListAuditLogsParamsResult](s, "result", &f.result),
	}
	for _, bound := range []struct {
		flag, text string
		into       **time.Time
	}{{"since", f.since, &p.Since}, {"until", f.until, &p.Until}} {
		if !s.cmd.Flags().Changed(bound.flag) {
			continue
		}
		t, err := s.moment(bound.text)
		if err != nil {
			return p, usage(s.cmd, "--%s: %v", bound.flag, err)
		}
		*bound.into = &t
	}
	return p, nil
}

func (a *app) auditCommand() *cobra.Command {
	return a.noun(noun{use: "audit", short: "Who did what, and who was refused", group: groupWatching},
		a.verb(verb{
			use: "list", short: "List the audit log, newest first", aliases: []string{"ls"}, operations: []string{"list-audit-logs"},
			long: "Lists the audit log, newest first. With --watch it shows the newest entries and then each new\n" +
				"one below the others until Ctrl-C.",
			example: "  gpuaas audit list --since 24h --result denied\n  gpuaas audit list --action tenant.create -o json",
			flags: func(cmd *cobra.Command) action {
				filter := &auditFilter{}
				filter.add(cmd)
				f := addListFlags(cmd, 50)
				return func(s *session, _ []string) error {
					params, err := filter.params(s)
					if err != nil {
						return err
					}
					if f.watch {
						return a.watchAudit(s, f, params)
					}
					return list(s, f, listing[apiclient.AuditLogEntry]{columns: a.auditColumns(), fetch: s.auditLogs(params)})
				}
			},
		}))
}

func (s *session) auditLogs(params apiclient.ListAuditLogsParams) func(page) (apiclient.Answer, error) {
	return func(p page) (apiclient.Answer, error) {
		params.Cursor, params.PageSize = p.cursor, p.size
		return s.api.ListAuditLogsWithResponse(s.ctx, &params)
	}
}

// lateEntries is how long a transaction may take from the time that its entry bears until the
// entry can be seen.
const lateEntries = time.Minute

// watchAudit shows new entries below the others. It looks back a little each time, because an
// entry becomes visible only after the time that it bears.
func (a *app) watchAudit(s *session, f *listFlags, params apiclient.ListAuditLogsParams) error {
	format, err := s.format()
	if err != nil {
		return err
	}
	shown := map[string]time.Time{}
	newest := time.Time{}
	headers := !s.flags.noHeaders
	limit := f.limit
	return s.again(f.interval, func() (bool, error) {
		raws, _, err := collect(s.auditLogs(params), limit)
		if err != nil {
			return false, err
		}
		slices.Reverse(raws)
		var fresh []json.RawMessage
		for _, raw := range raws {
			o, err := decode[apiclient.AuditLogEntry](raw)
			if err != nil {
				return false, err
			}
			id := o.value.Id.String()
			if _, ok := shown[id]; ok {
				continue
			}
			shown[id] = o.value.OccurredAt
			if o.value.OccurredAt.After(newest) {
				newest = o.value.OccurredAt
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
		err = appendRows(s, format, a.auditColumns(), fresh, headers)
		headers = false
		return false, err
	})
}
