package cli

import (
	"cmp"
	"encoding/json"
	"maps"
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
		{Title: "WHAT HAPPENED", Long: true, Text: func(e entry) string { return e.Sentence }},
		{Title: "REASON", Long: true, Text: func(e entry) string { return text(e.Reason) }},
		{Title: "ACTOR", Wide: true, Text: func(e entry) string { return cmp.Or(e.ActorName, e.ActorId) }},
		{Title: "ROLE", Wide: true, Text: func(e entry) string { return e.ActorRole }},
		{Title: "ACTION", Wide: true, Text: func(e entry) string { return e.Action }},
		{Title: "RESULT", Wide: true, Text: func(e entry) string { return string(e.Result) }},
		{Title: "TARGET", Wide: true, Text: func(e entry) string {
			return strings.TrimSpace(e.TargetKind + " " + e.TargetId)
		}},
		{Title: "CORRELATION ID", Wide: true, Text: func(e entry) string { return e.CorrelationId }},
	}
}

type auditFilter struct {
	action, actor, by, targetKind, target, result, correlation, since, until string
}

// actors are whose entries --by shows; none means all.
func actors() map[string][]apiclient.ListAuditLogsParamsActorKinds {
	return map[string][]apiclient.ListAuditLogsParamsActorKinds{
		"people":   {apiclient.ListAuditLogsParamsActorKindsUser, apiclient.ListAuditLogsParamsActorKindsAnonymous},
		"programs": {apiclient.ListAuditLogsParamsActorKindsServiceAccount},
		"platform": {apiclient.ListAuditLogsParamsActorKindsSystem, apiclient.ListAuditLogsParamsActorKindsNode},
		"all":      nil,
	}
}

func (f *auditFilter) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.action, "action", "", "only this action, such as tenant.create")
	fs.StringVar(&f.by, "by", "people", "whose entries: people, programs (service accounts), platform (the control plane\n"+
		"and nodes) or all; all if --action, --actor, --target or --correlation-id is given")
	fs.StringVar(&f.actor, "actor", "", "only what this actor did: part of a name, or the id")
	fs.StringVar(&f.targetKind, "target-kind", "", "only targets of this kind, such as tenant")
	fs.StringVar(&f.target, "target", "", "only this target: a host name, a slug, a name, an e-mail address or an id")
	fs.StringVar(&f.result, "result", "", "only attempts with this result: success, failure or denied")
	fs.StringVar(&f.correlation, "correlation-id", "", "only what one request caused")
	fs.StringVar(&f.since, "since", "", "at or after this time: 2006-01-02T15:04:05Z, or so long ago: 90m, 12h, 7d")
	fs.StringVar(&f.until, "until", "", "before this time")
	frame.Complete(cmd, "result", apiclient.Words("list-audit-logs.result")...)
	frame.Complete(cmd, "by", slices.Sorted(maps.Keys(actors()))...)
}

func (f *auditFilter) params(s *session) (apiclient.ListAuditLogsParams, error) {
	p := apiclient.ListAuditLogsParams{
		Action: frame.Given(s.Session, "action", &f.action), Actor: frame.Given(s.Session, "actor", &f.actor),
		TargetKind:    frame.Given(s.Session, "target-kind", &f.targetKind),
		Target:        frame.Given(s.Session, "target", &f.target),
		CorrelationId: frame.Given(s.Session, "correlation-id", &f.correlation),
		Result:        frame.GivenAs[apiclient.ListAuditLogsParamsResult](s.Session, "result", &f.result),
	}
	about := p.Action != nil || p.Actor != nil || p.Target != nil || p.CorrelationId != nil
	if kinds, known := actors()[f.by]; !known {
		return p, failure.Misuse(s.Cmd, "--by must be one of %s, not %q",
			strings.Join(slices.Sorted(maps.Keys(actors())), ", "), f.by)
	} else if len(kinds) > 0 && (!about || s.Cmd.Flags().Changed("by")) {
		p.ActorKinds = &kinds
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
			return p, s.ofFlag(bound.flag, err)
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
			long: "Lists what people did, newest first; with --by all, also what service accounts, nodes and the\n" +
				"control plane did. With --watch it shows the newest entries and then each new one below the others\n" +
				"until Ctrl-C. Ids, roles and actions are shown with -o wide.",
			example: "  gpuaas audit list --since 24h --result denied\n  gpuaas audit list --target c07u31\n" +
				"  gpuaas audit list --actor ada --action tenant.create -o json",
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
