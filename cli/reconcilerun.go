package cli

import (
	"fmt"
	"strconv"
	"strings"

	"gpuaas/contract/apiclient"
)

func (a *app) runColumns() []column[apiclient.ReconciliationRunView] {
	type view = apiclient.ReconciliationRunView
	number := func(of func(apiclient.ReconciliationReport) int64) func(view) string {
		return func(v view) string { return strconv.FormatInt(of(v.Report), 10) }
	}
	type report = apiclient.ReconciliationReport
	return []column[view]{
		{title: "SITE", text: func(v view) string { return v.SiteName }},
		{title: "TRIGGER", text: func(v view) string { return string(v.Trigger) }},
		{title: "OUTCOME", text: runOutcome},
		{title: "REQUESTS", text: number(func(r report) int64 { return r.Requests })},
		{title: "LOOKED AT", text: number(func(r report) int64 { return r.MachinesLookedAt })},
		{title: "FOUND", text: number(func(r report) int64 { return r.FindingsOpened })},
		{title: "OVER", text: number(func(r report) int64 { return r.FindingsClosed })},
		{title: "ACTED", text: number(func(r report) int64 { return r.ActionsTaken })},
		{title: "REQUESTED", text: func(v view) string { return a.when(v.RequestedAt) }},
		{title: "ID", text: func(v view) string { return v.RunId.String() }},
	}
}

// runOutcome is how a run ended; one that has not ended goes on, whatever it knows so far.
func runOutcome(v apiclient.ReconciliationRunView) string {
	outcome := text(v.Outcome)
	if v.EndedAt == nil {
		outcome = "under way"
	}
	if v.DryRun {
		outcome += ", dry run"
	}
	return outcome
}

func intendedColumns() []column[apiclient.ReconciliationIntended] {
	type view = apiclient.ReconciliationIntended
	return []column[view]{
		{title: "NODE", text: func(v view) string { return v.Hostname }},
		{title: "FINDING", text: func(v view) string { return v.Finding }},
		{title: "ACTION", text: func(v view) string { return v.Action }},
		{title: "DONE", text: func(v view) string { return yesNo(v.Done) }},
		{title: "WHY NOT", text: func(v view) string { return text(v.Withheld) }},
	}
}

func leftColumns(title string) []column[apiclient.ReconciliationLeftTo] {
	type view = apiclient.ReconciliationLeftTo
	return []column[view]{
		{title: title, text: func(v view) string { return v.Job }},
		{title: "NODE", text: func(v view) string { return v.Hostname }},
		{title: "SEEN", text: func(v view) string { return v.Seen }},
	}
}

// showRun prints a run with what was done or would have been.
func (s *session) showRun(run object[apiclient.ReconciliationRunView]) error {
	format, err := s.format()
	if err != nil {
		return err
	}
	if format != formatTable {
		return printRaw(s.program.Out, format, run.raw)
	}
	if err := write(s.program.Out, s.runText(run.value)); err != nil {
		return err
	}
	if err := printPart(s, intendedColumns(), run.value.Report.IntendedActions); err != nil {
		return err
	}
	if err := printPart(s, leftColumns("LEFT TO"), run.value.Report.LeftToJobs); err != nil {
		return err
	}
	return printPart(s, leftColumns("RECONCILED"), run.value.Report.JobsReconciled)
}

// runText is a run for people: what was asked, found and done.
func (a *app) runText(v apiclient.ReconciliationRunView) string {
	var b strings.Builder
	line := func(title, format string, args ...any) {
		b.WriteString(harmless(fmt.Sprintf("%-10s ", title)+fmt.Sprintf(format, args...)) + "\n")
	}
	what := "look at " + v.SiteName
	if v.Resolution != nil {
		what = fmt.Sprintf("%s of %s", *v.Resolution, text(v.Hostname))
	}
	line("run", "%s: %s, by %s%s", what, runOutcome(v), v.Trigger, prefixed(": ", text(v.Reason)))
	line("requested", "%s%s", a.when(v.RequestedAt), prefixed(", ended ", a.whenever(v.EndedAt)))
	r := v.Report
	if v.BeganAt != nil {
		line("asked MAAS", "%s: %s, %s", plural(int(r.Requests), "request"), plural(int(r.MachineRecords), "machine record"), plural(int(r.Events), "event"))
		line("looked at", "%s of nodes, %d of them in turn; %d in MAAS are no nodes", plural(int(r.MachinesLookedAt), "machine"), r.MachinesSwept, r.UnmanagedMachines)
		line("found", "%d new, %d confirmed, %d over", r.FindingsOpened, r.FindingsConfirmed, r.FindingsClosed)
		line("done", "%s, %s written, %dms besides MAAS", plural(int(r.ActionsTaken), "action"), plural(int(r.RowsWritten), "row"), r.ControlPlaneMs)
	}
	line("id", "%s", v.RunId)
	return b.String()
}

// unsuccessful is why a run that has ended did not bring all that it should have.
func unsuccessful(v apiclient.ReconciliationRunView) error {
	outcome := text(v.Outcome)
	if v.EndedAt == nil || outcome == "informed" {
		return nil
	}
	code, remedy := "reconciliation_"+outcome, ""
	said := map[string]string{
		"partly": "MAAS answered only some of what was asked", "no_information": "MAAS gave no information; nothing was changed", "skipped": "the site was not looked at",
		"breaker_open": "too many nodes would have been quarantined; none was", "refused": "that is not possible now",
	}[outcome]
	if v.Error != nil {
		code, remedy = v.Error.Code, text(v.Error.Remedy)
		said = or(v.Error.Message, said)
	}
	if outcome == "breaker_open" && remedy == "" {
		remedy = "see the nodes, then decide: gpuaas reconcile status --site " + v.SiteName
	}
	return fail(exitUnsuccessful, code, remedy, "%s", or(said, "the run ended as "+outcome))
}
