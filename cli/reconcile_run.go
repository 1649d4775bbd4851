package cli

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

func (a *app) runColumns() []table.Column[apiclient.ReconciliationRunView] {
	type view = apiclient.ReconciliationRunView
	number := func(of func(apiclient.ReconciliationReport) int64) func(view) string {
		return func(v view) string { return strconv.FormatInt(of(v.Report), 10) }
	}
	type report = apiclient.ReconciliationReport
	return []table.Column[view]{
		{Title: "SITE", Text: func(v view) string { return v.SiteName }},
		{Title: "TRIGGER", Text: func(v view) string { return string(v.Trigger) }},
		{Title: "OUTCOME", Text: runOutcome},
		{Title: "REQUESTS", Wide: true, Text: number(func(r report) int64 { return r.Requests })},
		{Title: "LOOKED AT", Wide: true, Text: number(func(r report) int64 { return r.MachinesLookedAt })},
		{Title: "FOUND", Text: number(func(r report) int64 { return r.FindingsOpened })},
		{Title: "OVER", Text: number(func(r report) int64 { return r.FindingsClosed })},
		{Title: "ACTED", Text: number(func(r report) int64 { return r.ActionsTaken })},
		ago(a, "REQUESTED", func(v view) time.Time { return v.RequestedAt }),
		{Title: "ID", Text: func(v view) string { return v.RunId.String() }},
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

func intendedColumns() []table.Column[apiclient.ReconciliationIntended] {
	type view = apiclient.ReconciliationIntended
	return []table.Column[view]{
		{Title: "NODE", Text: func(v view) string { return v.Hostname }},
		{Title: "FINDING", Text: func(v view) string { return v.Finding }},
		{Title: "ACTION", Text: func(v view) string { return v.Action }},
		{Title: "DONE", Text: func(v view) string { return yesNo(v.Done) }},
		{Title: "WHY NOT", Long: true, Text: func(v view) string { return text(v.Withheld) }},
	}
}

func leftColumns(title string) []table.Column[apiclient.ReconciliationLeftTo] {
	type view = apiclient.ReconciliationLeftTo
	return []table.Column[view]{
		{Title: title, Text: func(v view) string { return v.Job }},
		{Title: "NODE", Text: func(v view) string { return v.Hostname }},
		{Title: "SEEN", Long: true, Text: func(v view) string { return v.Seen }},
	}
}

// showRun prints a run with what was done or would have been.
func (s *session) showRun(run output.Object[apiclient.ReconciliationRunView]) error {
	format, err := s.Format()
	if err != nil {
		return err
	}
	if format != output.Table {
		return output.Print(s.Program.Out, format, run.Raw)
	}
	if err := output.Write(s.Program.Out, s.app.runText(run.Value)); err != nil {
		return err
	}
	if err := frame.PrintPart(s.Session, intendedColumns(), run.Value.Report.IntendedActions); err != nil {
		return err
	}
	if err := frame.PrintPart(s.Session, leftColumns("LEFT TO"), run.Value.Report.LeftToJobs); err != nil {
		return err
	}
	return frame.PrintPart(s.Session, leftColumns("RECONCILED"), run.Value.Report.JobsReconciled)
}

// runText is a run for people: what was asked, found and done.
func (a *app) runText(v apiclient.ReconciliationRunView) string {
	var b strings.Builder
	line := func(title, format string, args ...any) {
		b.WriteString(output.Harmless(fmt.Sprintf("%-10s ", title)+fmt.Sprintf(format, args...)) + "\n")
	}
	what := "look at " + v.SiteName
	if v.Resolution != nil {
		what = fmt.Sprintf("%s of %s", *v.Resolution, text(v.Hostname))
	}
	line("run", "%s: %s, by %s%s", what, runOutcome(v), v.Trigger, prefixed(": ", text(v.Reason)))
	line("requested", "%s%s", a.When(v.RequestedAt), prefixed(", ended ", a.Whenever(v.EndedAt)))
	r := v.Report
	if v.BeganAt != nil {
		line("asked MAAS", "%s: %s, %s", plural(int(r.Requests), "request"), plural(int(r.MachineRecords), "machine record"),
			plural(int(r.Events), "event"))
		line("checked", "%s of nodes, %d of them in turn; %s", plural(int(r.MachinesLookedAt), "machine"),
			r.MachinesSwept, notNodes(int(r.UnmanagedMachines)))
		line("found", "%d new, %d confirmed, %d closed", r.FindingsOpened, r.FindingsConfirmed, r.FindingsClosed)
		line("done", "%s, %s written, %dms besides MAAS", plural(int(r.ActionsTaken), "action"),
			plural(int(r.RowsWritten), "row"), r.ControlPlaneMs)
	}
	line("id", "%s", v.RunId)
	return b.String()
}

// notNodes says how many machines of MAAS nobody onboarded.
func notNodes(n int) string {
	if n == 1 {
		return "1 MAAS machine is not a node"
	}
	return fmt.Sprintf("%d MAAS machines are not nodes", n)
}

// unsuccessful is why a run that has ended did not bring all that it should have.
func unsuccessful(v apiclient.ReconciliationRunView) error {
	outcome := text(v.Outcome)
	if v.EndedAt == nil || outcome == "informed" {
		return nil
	}
	code, remedy := "reconciliation_"+outcome, ""
	said := map[string]string{
		"partly":         "MAAS answered only some of what was asked",
		"no_information": "MAAS gave no information; nothing was changed", "skipped": "the site was not looked at",
		"breaker_open": "too many nodes would have been quarantined; none was", "refused": "that is not possible now",
	}[outcome]
	if v.Error != nil {
		code, remedy = v.Error.Code, text(v.Error.Remedy)
		said = cmp.Or(v.Error.Message, said)
	}
	if outcome == "breaker_open" && remedy == "" {
		remedy = "see the nodes, then decide: gpuaas reconcile status --site " + v.SiteName
	}
	return failure.New(failure.Unsuccessful, code, remedy, "%s", cmp.Or(said, "the run ended as "+outcome))
}
