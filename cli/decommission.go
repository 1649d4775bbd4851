package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/contract/apiclient"
)

// modes are what can be done to a node; the first three are asked for as
// decommissions, the others as steps of its life.
func modes() []string {
	return []string{"soft_reset", "reimage", "full_decommission", "storage_cleanup", "drain", "retire", "reactivate", "remove"}
}

func (a *app) decommissionColumns() []column[apiclient.DecommissionView] {
	type view = apiclient.DecommissionView
	return []column[view]{
		{title: "HOSTNAME", text: func(v view) string { return v.Hostname }},
		{title: "MODE", text: func(v view) string { return string(v.Mode) }},
		{title: "STATUS", text: func(v view) string { return string(v.Status) }},
		{title: "STAGE", text: func(v view) string { return placeOf(v.StageNumber, v.StageTotal, v.CurrentStage) }},
		{title: "FAILURE", text: func(v view) string { return decommissionFailure(v.Failure) }},
		{title: "NEXT", text: func(v view) string { return actionWord(text(v.RecommendedAction)) }},
		{title: "REQUESTED", text: func(v view) string { return a.when(v.RequestedAt) }},
		{title: "ID", text: func(v view) string { return v.DecommissionId.String() }},
		{title: "NODE", text: func(v view) string { return v.NodeId.String() }, detail: true},
		{title: "WAS", text: func(v view) string { return v.NodeStatusBefore }, detail: true},
		{title: "ERASE", text: func(v view) string { return string(v.Erase) }, detail: true},
		{title: "STORAGE CLEANUP", text: func(v view) string { return string(v.StorageCleanup) }, detail: true},
		{title: "BECAUSE", text: func(v view) string { return v.Reason }, detail: true},
		{title: "BATCH", text: func(v view) string { return idText(v.BatchId) }, detail: true},
		{title: "SITE", text: func(v view) string { return idText(v.SiteId) }, detail: true},
		{title: "IN MAAS", text: func(v view) string { return text(v.MaasSystemId) }, detail: true},
		{title: "ATTEMPT", text: func(v view) string { return strconv.FormatInt(v.CurrentAttempt, 10) }, detail: true},
		{title: "PENDING ACTION", text: func(v view) string { return actionWord(text(v.PendingAction)) }, detail: true},
		{title: "MAAS SHOWS", text: func(v view) string { return text(v.Observed.MaasStatus) }, detail: true},
		{title: "SINCE", text: func(v view) string { return a.whenever(v.Observed.Since) }, detail: true},
		{title: "WENT ON WITHOUT", text: overridesText, detail: true},
		{title: "STARTED", text: func(v view) string { return a.whenever(v.StartedAt) }, detail: true},
		{title: "PARKED", text: func(v view) string { return a.whenever(v.ParkedAt) }, detail: true},
		{title: "ENDED", text: func(v view) string { return a.whenever(v.CompletedAt) }, detail: true},
		{title: "PLAN", text: func(v view) string { return v.PlanHash }, detail: true},
		{title: "WORKFLOW", text: func(v view) string { return v.WorkflowId }, detail: true},
		{title: "CORRELATION ID", text: func(v view) string { return v.CorrelationId }, detail: true},
	}
}

// placeOf is a stage with its number among all.
func placeOf(number, total int64, stage string) string {
	if number == 0 {
		return stage
	}
	return fmt.Sprintf("%d/%d %s", number, total, stage)
}

func decommissionFailure(f *apiclient.DecommissionFailureView) string {
	if f == nil {
		return ""
	}
	return f.ErrorCode
}

func overridesText(v apiclient.DecommissionView) string {
	stages := make([]string, len(v.Overrides))
	for i, o := range v.Overrides {
		stages[i] = fmt.Sprintf("%s (risk left: %s)", o.Stage, o.ResidualRisk)
	}
	return strings.Join(stages, ", ")
}

func (a *app) followUpColumns() []column[apiclient.DecommissionFollowUp] {
	type todo = apiclient.DecommissionFollowUp
	return []column[todo]{
		{title: "LEFT TO BE DONE", text: func(v todo) string { return v.What }},
		{title: "BECAUSE", text: func(v todo) string { return v.Why }},
		{title: "COMMAND", text: func(v todo) string { return text(v.Command) }},
	}
}

func (a *app) decommissionNoun() jobNoun[apiclient.DecommissionView] {
	return jobNoun[apiclient.DecommissionView]{
		noun: "decommission", argument: "DECOMMISSION", columns: a.decommissionColumns(), resolve: (*session).decommissionID,
	}
}

func (a *app) decommissionCommand() *cobra.Command {
	jobs := a.decommissionNoun()
	commands := []*cobra.Command{
		a.decommissionStartCommand(), a.decommissionPlanCommand(), a.decommissionListCommand(), a.decommissionShowCommand(), a.decommissionEventsCommand(),
		a.decommissionEvidenceCommand(), a.decommissionStagesCommand(), a.decommissionWatchCommand(), a.decommissionOverrideCommand(), a.decommissionBatchCommand(),
		explainCommand(a, jobs, verb{
			short: "Say why a decommission stands where it does, and what to do", operations: []string{"get-decommission-explanation"},
		}, func(s *session, id types.UUID) (apiclient.Answer, error) {
			return s.api.GetDecommissionExplanationWithResponse(s.ctx, id)
		}),
	}
	for _, v := range decommissionRecoveries() {
		commands = append(commands, recoveryCommand(a, jobs, v))
	}
	return a.noun(noun{
		use: "decommission", short: "Nodes that are cleaned, put aside or taken out", group: groupMachines,
		long: "Decommissions are all operations that clean nodes, install them anew, put them aside or remove them,\n" +
			"those of gpuaas node drain, retire, reactivate, remove, reimage and reset among them. They are named by id,\n" +
			"or by the host name of the node: then the newest one is meant. One that failed is parked, keeps its node out\n" +
			"of scheduling and waits for you; gpuaas decommission explain says why and what to do.",
	}, commands...)
}

// decommissionID resolves a decommission named by id or by the host name of its node, of
// which the newest is meant.
func (s *session) decommissionID(name string) (types.UUID, error) {
	if id, ok := parseID(name); ok {
		return id, nil
	}
	hostname := strings.ToLower(name)
	v, ok, err := find(func(p page) (apiclient.Answer, error) {
		return s.api.ListDecommissionsWithResponse(s.ctx, &apiclient.ListDecommissionsParams{Cursor: p.cursor, PageSize: p.size, Hostname: &hostname})
	}, func(v apiclient.DecommissionView) bool { return v.Hostname == hostname })
	if err == nil && !ok {
		err = notFound("see which there are: gpuaas decommission list", "no node %q was ever decommissioned", name)
	}
	return v.DecommissionId, err
}

// decommissionModes are the modes with their stages, and how long those take at
// a site; nil: at all.
func (s *session) decommissionModes(at *types.UUID) ([]json.RawMessage, error) {
	raws, _, err := collect(func(page) (apiclient.Answer, error) {
		return s.api.ListDecommissionStagesWithResponse(s.ctx, &apiclient.ListDecommissionStagesParams{SiteId: at})
	}, 0)
	return raws, err
}

// decommissions is how decommissions are watched.
func decommissions() *jobKind {
	return &jobKind{
		noun: "decommission", idle: "nothing is being decommissioned",
		reached: func(n int) string { return plural(n, "decommission") + " reached the goal" },
		plans: func(s *session) (map[string]stagePlan, error) {
			raws, err := s.decommissionModes(nil)
			if err != nil {
				return nil, err
			}
			rows, err := decodeAll[struct {
				Mode   string         `json:"mode"`
				Stages []plannedStage `json:"stages"`
			}](raws)
			plans := map[string]stagePlan{}
			for _, r := range rows {
				plans[r.value.Mode] = planOf(r.value.Stages)
			}
			return plans, err
		},
		get: func(s *session, id types.UUID) (apiclient.Answer, error) {
			return s.api.GetDecommissionWithResponse(s.ctx, id)
		},
		list: func(s *session, q jobQuery) (apiclient.Answer, error) {
			return s.api.ListDecommissionsWithResponse(s.ctx, &apiclient.ListDecommissionsParams{Cursor: q.cursor, PageSize: q.size, BatchId: q.batch, Status: q.status})
		},
		halted: func(s *session, batch types.UUID) (bool, error) {
			b, err := fetch[apiclient.DecommissionBatchView](s.api.GetDecommissionBatchWithResponse(s.ctx, batch))
			return b.State == "halted", err
		},
		stream: func(ctx context.Context, s *session, q jobQuery, edit apiclient.RequestEditorFn) (*http.Response, error) {
			return s.api.StreamDecommissions(ctx, &apiclient.StreamDecommissionsParams{LastEventID: q.after, BatchId: q.batch, DecommissionId: q.job}, edit)
		},
	}
}

// watchingDecommissions are the operations of a command that can wait for what it began.
func watchingDecommissions(operation string) []string {
	return []string{operation, "get-decommission", "stream-decommissions", "list-decommission-stages"}
}

func (a *app) decommissionWatchCommand() *cobra.Command {
	return a.watchCommand(decommissions(), verb{
		short:      "Show live how decommissions are getting on",
		operations: append(watchingDecommissions("list-decommissions"), "get-decommission-batch"),
		long: "Follows one decommission, those of a batch, or all that are in progress, and returns when all of them\n" +
			"have ended or need an operator: exit code 0 when all reached their goal, otherwise 8; 130 when it was ended\n" +
			"with Ctrl-C before, which stops nothing but the watching. With -o json it prints each event on a line,\n" +
			"then how the decommissions stand, as gpuaas decommission show or list print it.",
	}, (*session).decommissionID)
}

func (a *app) decommissionListCommand() *cobra.Command {
	return a.verb(verb{
		use: "list", short: "List decommissions, newest first", aliases: []string{"ls"}, operations: []string{"list-decommissions"},
		flags: func(cmd *cobra.Command) action {
			f := cmd.Flags()
			status := f.StringSlice("status", nil, "only those of this status; may be repeated; failed for all that need an operator")
			mode := f.String("mode", "", "only those of this mode")
			hostname := f.String("hostname", "", "only nodes whose name starts so")
			node := f.String("node", "", "only those of this node, by hostname or id")
			site := f.String("site", "", "only those of this site, by name or id")
			batch := f.String("batch", "", "only those of this batch, by id")
			complete(cmd, "status", "pending", "running", "completed", "failed", "failed_retryable", "failed_manual_intervention", "cancelled", "compensating", "reconciled")
			complete(cmd, "mode", modes()...)
			l := addListFlags(cmd, 50)
			return func(s *session, _ []string) error {
				params := apiclient.ListDecommissionsParams{
					Status: given(s, "status", status), Hostname: given(s, "hostname", hostname), Mode: givenAs[apiclient.ListDecommissionsParamsMode](s, "mode", mode),
				}
				var err error
				if params.NodeId, err = optionalID(*node, s.nodeID); err != nil {
					return err
				}
				if params.SiteId, err = optionalID(*site, s.siteID); err != nil {
					return err
				}
				if params.BatchId, err = optionalID(*batch, func(b string) (types.UUID, error) { return s.idOf("a batch", b) }); err != nil {
					return err
				}
				return list(s, l, listing[apiclient.DecommissionView]{columns: a.decommissionColumns(), fetch: func(p page) (apiclient.Answer, error) {
					params.Cursor, params.PageSize = p.cursor, p.size
					return s.api.ListDecommissionsWithResponse(s.ctx, &params)
				}})
			}
		},
	})
}

func (a *app) decommissionShowCommand() *cobra.Command {
	return a.verb(verb{
		use: "show DECOMMISSION", short: "Show a decommission, what is left to be done, and its newest events", aliases: []string{"get"}, args: exactly("DECOMMISSION"),
		operations: []string{"get-decommission"},
		run: a.decommissionNoun().about(func(s *session, id types.UUID) error {
			raw, err := apiclient.Read(s.api.GetDecommissionWithResponse(s.ctx, id))
			if err != nil {
				return err
			}
			if err := printOne(s.app, a.decommissionColumns(), raw); err != nil {
				return err
			}
			v, err := decode[struct {
				jobDetail
				FollowUps []apiclient.DecommissionFollowUp `json:"follow_ups"`
			}](raw)
			if err != nil {
				return err
			}
			if err := printPart(s, a.followUpColumns(), v.value.FollowUps); err != nil {
				return err
			}
			if err := printPart(s, a.ledgerColumns(), v.value.Events); err != nil {
				return err
			}
			if v.value.Failure != nil {
				s.note("%s; see what to do: gpuaas decommission explain %s", v.value.Failure.ErrorMessage, id)
			}
			return nil
		}),
	})
}

func (a *app) decommissionEventsCommand() *cobra.Command {
	return a.verb(verb{
		use: "events DECOMMISSION", short: "Show everything that happened in a decommission, oldest first", args: exactly("DECOMMISSION"),
		operations: []string{"list-decommission-events"},
		flags: func(cmd *cobra.Command) action {
			f := addListFlags(cmd, 0)
			return a.decommissionNoun().about(func(s *session, id types.UUID) error {
				return list(s, f, listing[ledgerEntry]{columns: a.ledgerColumns(), fetch: func(p page) (apiclient.Answer, error) {
					return s.api.ListDecommissionEventsWithResponse(s.ctx, id, &apiclient.ListDecommissionEventsParams{Cursor: p.cursor, PageSize: p.size})
				}})
			})
		},
	})
}

// evidence is what a stage saw. Its value has other fields for each kind.
type evidence struct {
	apiclient.DecommissionEvidenceView
	Value json.RawMessage `json:"value"`
}

func (a *app) evidenceColumns() []column[evidence] {
	return []column[evidence]{
		{title: "#", text: func(v evidence) string { return strconv.FormatInt(v.Seq, 10) }},
		{title: "STAGE", text: func(v evidence) string { return v.Stage }},
		{title: "ATTEMPT", text: func(v evidence) string { return strconv.FormatInt(v.Attempt, 10) }},
		{title: "KIND", text: func(v evidence) string { return string(v.Kind) }},
		{title: "RECORDED", text: func(v evidence) string { return a.when(v.RecordedAt) }},
		{title: "SEEN", text: func(v evidence) string { return narrow(string(v.Value), 100) }},
	}
}

func (a *app) decommissionEvidenceCommand() *cobra.Command {
	return a.verb(verb{
		use: "evidence DECOMMISSION", short: "Show what the stages of a decommission saw", args: exactly("DECOMMISSION"),
		operations: []string{"list-decommission-evidence"},
		long:       "All of it, in full, with -o json. The signed certificate says what it supports: gpuaas certificate list",
		run: a.decommissionNoun().about(func(s *session, id types.UUID) error {
			raws, _, err := collect(func(page) (apiclient.Answer, error) { return s.api.ListDecommissionEvidenceWithResponse(s.ctx, id) }, 0)
			if err != nil {
				return err
			}
			return printList(s.app, a.evidenceColumns(), raws)
		}),
	})
}

// modeStage is a stage of a mode.
type modeStage struct {
	apiclient.DecommissionStageView
	mode string
}

func modeStageColumns() []column[modeStage] {
	return []column[modeStage]{
		{title: "MODE", text: func(v modeStage) string { return v.mode }},
		{title: "#", text: func(v modeStage) string { return strconv.FormatInt(v.Number, 10) }},
		{title: "STAGE", text: func(v modeStage) string { return v.Name }},
		{title: "WAITS UNTIL", text: func(v modeStage) string { return v.Expects }},
		{title: "ATTEMPTS", text: func(v modeStage) string { return strconv.FormatInt(v.Attempts, 10) }},
		{title: "TYPICALLY", text: func(v modeStage) string { return typically(v.TypicalSeconds) }},
		{title: "RESUMES AT", text: func(v modeStage) string { return v.Resume }},
		{title: "OVERRIDABLE", text: func(v modeStage) string { return yesNo(v.Overridable) }},
	}
}

func (a *app) decommissionStagesCommand() *cobra.Command {
	return a.verb(verb{
		use: "stages [MODE]", short: "List the stages of each mode, what they wait for and how long that takes", args: cobra.MaximumNArgs(1), operations: []string{"list-decommission-stages"},
		flags: func(cmd *cobra.Command) action {
			site := addStagesSite(cmd)
			return func(s *session, args []string) error {
				if len(args) > 0 && !slices.Contains(modes(), args[0]) {
					return usage(s.cmd, "there is no mode %q; there are %s", args[0], strings.Join(modes(), ", "))
				}
				at, err := optionalID(*site, s.siteID)
				if err != nil {
					return err
				}
				raws, err := s.decommissionModes(at)
				if err != nil {
					return err
				}
				return s.printModes(raws, args)
			}
		},
	})
}

// printModes prints the stages of all modes, or of one.
func (s *session) printModes(raws []json.RawMessage, only []string) error {
	all, err := decodeAll[apiclient.DecommissionModeView](raws)
	if err != nil {
		return err
	}
	wanted, rows := []json.RawMessage{}, []object[modeStage]{}
	for i, m := range all {
		if len(only) > 0 && !slices.Contains(only, string(m.value.Mode)) {
			continue
		}
		wanted = append(wanted, raws[i])
		for _, stage := range m.value.Stages {
			rows = append(rows, object[modeStage]{value: modeStage{stage, string(m.value.Mode)}})
		}
	}
	format, err := s.format()
	if err != nil {
		return err
	}
	if format != formatTable {
		return printRaw(s.program.Out, format, array(wanted))
	}
	return printTable(s.program.Out, modeStageColumns(), rows, !s.flags.noHeaders)
}
