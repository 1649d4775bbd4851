package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

// modes are what can be done to a node; the first three are asked for as
// decommissions, the others as steps of its life.
func modes() []string {
	return apiclient.Words("DecommissionNewBatchBody.mode")
}

func (a *app) decommissionColumns() []table.Column[apiclient.DecommissionView] {
	type view = apiclient.DecommissionView
	return []table.Column[view]{
		{Title: "HOSTNAME", Text: func(v view) string { return v.Hostname }},
		{Title: "MODE", Text: func(v view) string { return string(v.Mode) }},
		{Title: "STATUS", Text: func(v view) string { return string(v.Status) }},
		{Title: "OUTCOME", Text: func(v view) string { return text(v.Outcome) }},
		{Title: "STAGE", Text: func(v view) string { return placeOf(v.StageNumber, v.StageTotal, v.CurrentStage) }},
		{Title: "FAILURE", Long: true, Text: func(v view) string { return decommissionFailure(v.Failure) }},
		{Title: "NEXT", Long: true, Text: func(v view) string { return actionWord(text(v.RecommendedAction)) }},
		ago(a, "REQUESTED", func(v view) time.Time { return v.RequestedAt }),
		{Title: "ID", Wide: true, Text: func(v view) string { return v.DecommissionId.String() }},
		{Title: "NODE", Text: func(v view) string { return v.NodeId.String() }, Detail: true},
		{Title: "WAS", Text: func(v view) string { return string(v.NodeStatusBefore) }, Detail: true},
		{Title: "ERASE", Text: func(v view) string { return string(v.Erase) }, Detail: true},
		{Title: "STORAGE CLEANUP", Text: func(v view) string { return string(v.StorageCleanup) }, Detail: true},
		{Title: "BECAUSE", Text: func(v view) string { return v.Reason }, Detail: true},
		{Title: "BATCH", Text: func(v view) string { return idText(v.BatchId) }, Detail: true},
		{Title: "SITE", Text: func(v view) string { return idText(v.SiteId) }, Detail: true},
		{Title: "IN MAAS", Text: func(v view) string { return text(v.MaasSystemId) }, Detail: true},
		{Title: "ATTEMPT", Text: func(v view) string { return strconv.FormatInt(v.CurrentAttempt, 10) }, Detail: true},
		{Title: "PENDING ACTION", Text: func(v view) string { return actionWord(text(v.PendingAction)) }, Detail: true},
		{Title: "MAAS SHOWS", Text: func(v view) string { return text(v.Observed.MaasStatus) }, Detail: true},
		{Title: "SINCE", Text: func(v view) string { return a.Whenever(v.Observed.Since) }, Detail: true},
		{Title: "OVERRIDDEN", Text: overridesText, Detail: true},
		{Title: "STARTED", Text: func(v view) string { return a.Whenever(v.StartedAt) }, Detail: true},
		{Title: "PARKED", Text: func(v view) string { return a.Whenever(v.ParkedAt) }, Detail: true},
		{Title: "ENDED", Text: func(v view) string { return a.Whenever(v.CompletedAt) }, Detail: true},
		{Title: "PLAN", Text: func(v view) string { return v.PlanHash }, Detail: true},
		{Title: "WORKFLOW", Text: func(v view) string { return v.WorkflowId }, Detail: true},
		{Title: "CORRELATION ID", Text: func(v view) string { return v.CorrelationId }, Detail: true},
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
		stages[i] = fmt.Sprintf("%s (remaining risk: %s)", o.Stage, o.ResidualRisk)
	}
	return strings.Join(stages, ", ")
}

func (a *app) followUpColumns() []table.Column[apiclient.DecommissionFollowUp] {
	type todo = apiclient.DecommissionFollowUp
	return []table.Column[todo]{
		{Title: "FOLLOW-UPS", Long: true, Text: func(v todo) string { return v.What }},
		{Title: "BECAUSE", Long: true, Text: func(v todo) string { return v.Why }},
		{Title: "COMMAND", Text: func(v todo) string { return text(v.Command) }},
	}
}

func (a *app) decommissionNoun() jobNoun[apiclient.DecommissionView] {
	return jobNoun[apiclient.DecommissionView]{
		noun: "decommission", argument: "DECOMMISSION", columns: a.decommissionColumns(), resolve: (*session).decommissionID,
		many: manyJobs{
			operation: "act-on-decommissions", get: "get-decommission", kind: decommissions,
			call: func(s *session, body apiclient.JobManyBody) (apiclient.Answer, error) {
				return s.API.ActOnDecommissionsWithResponse(s.Ctx, &apiclient.ActOnDecommissionsParams{}, body)
			},
		},
	}
}

func (a *app) decommissionCommand() *cobra.Command {
	jobs := a.decommissionNoun()
	commands := []*cobra.Command{
		a.decommissionStartCommand(), a.decommissionPlanCommand(), a.decommissionListCommand(), a.decommissionShowCommand(),
		a.decommissionEventsCommand(),
		a.decommissionEvidenceCommand(), a.decommissionStagesCommand(), a.decommissionWatchCommand(),
		a.decommissionOverrideCommand(), a.batchCommand(decommissionBatches(), a.decommissionBatchStartCommand()),
		explainCommand(a, jobs, verb{
			short:      "Say why a decommission stands where it does, and what to do",
			operations: []string{"get-decommission-explanation"},
		}, func(s *session, id types.UUID) (apiclient.Answer, error) {
			return s.API.GetDecommissionExplanationWithResponse(s.Ctx, id)
		}),
	}
	for _, v := range decommissionRecoveries() {
		commands = append(commands, recoveryCommand(a, jobs, v))
	}
	return a.noun(noun{
		use: "decommission", short: "Clean, retire or remove nodes", group: groupMachines,
		long: "Decommissions are all operations that clean nodes, reinstall them, take them out of service or remove them,\n" +
			"those of gpuaas node drain, retire, reactivate, remove, reimage and reset among them. They are named by id,\n" +
			"or by the host name of the node: then the newest one is meant. One that failed is parked, keeps its node out\n" +
			"of scheduling and waits for you; gpuaas decommission explain says why and what to do.",
	}, commands...)
}

// decommissionID resolves a decommission named by id or by the host name of its node, of
// which the newest is meant.
func (s *session) decommissionID(name string) (types.UUID, error) {
	if id, ok := frame.ParseID(name); ok {
		return id, nil
	}
	hostname := strings.ToLower(name)
	v, ok, err := listing.Find(func(p listing.Page) (apiclient.Answer, error) {
		return s.API.ListDecommissionsWithResponse(s.Ctx,
			&apiclient.ListDecommissionsParams{Cursor: p.Cursor, PageSize: p.Size, Hostname: &hostname})
	}, func(v apiclient.DecommissionView) bool { return v.Hostname == hostname })
	if err == nil && !ok {
		err = failure.Missing("list them: gpuaas decommission list", "no node %q was ever decommissioned", name)
	}
	return v.DecommissionId, err
}

// decommissionModes are the modes with their stages, and how long those take at
// a site; nil: at all.
func (s *session) decommissionModes(at *types.UUID) ([]json.RawMessage, error) {
	raws, _, err := listing.Collect(func(listing.Page) (apiclient.Answer, error) {
		return s.API.ListDecommissionStagesWithResponse(s.Ctx, &apiclient.ListDecommissionStagesParams{SiteId: at})
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
			rows, err := output.DecodeAll[struct {
				Mode   string         `json:"mode"`
				Stages []plannedStage `json:"stages"`
			}](raws)
			plans := map[string]stagePlan{}
			for _, r := range rows {
				plans[r.Value.Mode] = planOf(r.Value.Stages)
			}
			return plans, err
		},
		get: func(s *session, id types.UUID) (apiclient.Answer, error) {
			return s.API.GetDecommissionWithResponse(s.Ctx, id)
		},
		list: func(s *session, q jobQuery) (apiclient.Answer, error) {
			return s.API.ListDecommissionsWithResponse(s.Ctx,
				&apiclient.ListDecommissionsParams{Cursor: q.Cursor, PageSize: q.Size, BatchId: q.batch, Status: q.status})
		},
		halted: func(s *session, batch types.UUID) (bool, error) {
			b, err := frame.Fetch[apiclient.DecommissionBatchView](s.API.GetDecommissionBatchWithResponse(s.Ctx, batch))
			return b.State == "halted", err
		},
		stream: func(ctx context.Context, s *session, q jobQuery, edit apiclient.RequestEditorFn) (*http.Response, error) {
			return s.API.StreamDecommissions(ctx, &apiclient.StreamDecommissionsParams{
				LastEventID: q.after, BatchId: q.batch,
				DecommissionId: q.job,
			}, edit)
		},
	}
}

// watchingDecommissions are the operations of a command that can wait for what it began.
func watchingDecommissions(operation string) []string {
	return []string{operation, "get-decommission", "stream-decommissions", "list-decommission-stages"}
}

func (a *app) decommissionWatchCommand() *cobra.Command {
	return a.watchCommand(decommissions(), verb{
		short:      "Follow decommissions live",
		operations: append(watchingDecommissions("list-decommissions"), "get-decommission-batch"),
		long: "Follows one decommission, those of a batch, or all that are in progress, and returns when all of them\n" +
			"have ended or need an operator: exit code 0 when all reached their goal, otherwise 8; 130 when it was ended\n" +
			"with Ctrl-C before, which stops nothing but the watching. With -o json it prints each event on a line,\n" +
			"then how the decommissions stand, as gpuaas decommission show or list print it.",
	}, (*session).decommissionID)
}

func (a *app) decommissionListCommand() *cobra.Command {
	return a.verb(verb{
		use: "list", short: "List decommissions, newest first", aliases: []string{"ls"},
		operations: []string{"list-decommissions"},
		flags: func(cmd *cobra.Command) action {
			f := cmd.Flags()
			status := f.StringSlice("status", nil,
				"only those of this status; may be repeated; failed for all that need an operator")
			mode := f.String("mode", "", "only those of this mode")
			outcome := f.String("outcome", "", "only those with this outcome: clean or with_gaps")
			hostname := f.String("hostname", "", "only nodes whose name starts with this")
			node := f.String("node", "", "only those of this node, by hostname or id")
			site := f.String("site", "", "only those of this site, by name or id")
			batch := f.String("batch", "", "only those of this batch, by id")
			// failed: parked, one way or the other
			frame.Complete(cmd, "status", append([]string{"failed"}, apiclient.JobStates...)...)
			frame.Complete(cmd, "mode", modes()...)
			frame.Complete(cmd, "outcome", apiclient.Words("DecommissionView.outcome")...)
			l := listing.AddFlags(cmd, 50)
			return func(s *session, _ []string) error {
				params := apiclient.ListDecommissionsParams{
					Status: frame.Given(s.Session, "status", status), Hostname: frame.Given(s.Session, "hostname", hostname),
					Mode:    frame.GivenAs[apiclient.ListDecommissionsParamsMode](s.Session, "mode", mode),
					Outcome: frame.GivenAs[apiclient.ListDecommissionsParamsOutcome](s.Session, "outcome", outcome),
				}
				var err error
				if params.NodeId, err = optionalID(*node, s.nodeID); err != nil {
					return err
				}
				if params.SiteId, err = optionalID(*site, s.siteID); err != nil {
					return err
				}
				if params.BatchId, err = optionalID(*batch,
					func(b string) (types.UUID, error) { return s.IDOf("a batch", b) }); err != nil {
					return err
				}
				return listing.Print(s.Session, l, listing.Listing[apiclient.DecommissionView]{
					Columns: a.decommissionColumns(),
					Fetch: func(p listing.Page) (apiclient.Answer, error) {
						params.Cursor, params.PageSize = p.Cursor, p.Size
						return s.API.ListDecommissionsWithResponse(s.Ctx, &params)
					},
				})
			}
		},
	})
}

func (a *app) decommissionShowCommand() *cobra.Command {
	return a.verb(verb{
		use: "show DECOMMISSION", short: "Show a decommission, what is left to be done, and its newest events",
		aliases: []string{"get"}, args: frame.Exactly("DECOMMISSION"),
		operations: []string{"get-decommission"},
		run: a.decommissionNoun().about(func(s *session, id types.UUID) error {
			raw, err := apiclient.Read(s.API.GetDecommissionWithResponse(s.Ctx, id))
			if err != nil {
				return err
			}
			if err := frame.PrintOne(s.App, a.decommissionColumns(), raw); err != nil {
				return err
			}
			v, err := output.Decode[struct {
				jobDetail
				FollowUps []apiclient.DecommissionFollowUp `json:"follow_ups"`
			}](raw)
			if err != nil {
				return err
			}
			if err := frame.PrintPart(s.Session, a.followUpColumns(), v.Value.FollowUps); err != nil {
				return err
			}
			if err := frame.PrintPart(s.Session, a.ledgerColumns(), v.Value.Events); err != nil {
				return err
			}
			if v.Value.Failure != nil {
				s.Note("%s; see what to do: gpuaas decommission explain %s", v.Value.Failure.ErrorMessage, id)
			}
			return nil
		}),
	})
}

func (a *app) decommissionEventsCommand() *cobra.Command {
	return a.verb(verb{
		use: "events DECOMMISSION", short: "Show everything that happened in a decommission, oldest first",
		args:       frame.Exactly("DECOMMISSION"),
		operations: []string{"list-decommission-events"},
		flags: func(cmd *cobra.Command) action {
			f := listing.AddFlags(cmd, 0)
			return a.decommissionNoun().about(func(s *session, id types.UUID) error {
				return listing.Print(s.Session, f, listing.Listing[ledgerEntry]{
					Columns: a.ledgerColumns(),
					Fetch: func(p listing.Page) (apiclient.Answer, error) {
						return s.API.ListDecommissionEventsWithResponse(s.Ctx, id,
							&apiclient.ListDecommissionEventsParams{Cursor: p.Cursor, PageSize: p.Size})
					},
				})
			})
		},
	})
}

// evidence is what a stage saw. Its value has other fields for each kind.
type evidence struct {
	apiclient.DecommissionEvidenceView
	Value json.RawMessage `json:"value"`
}

func (a *app) evidenceColumns() []table.Column[evidence] {
	return []table.Column[evidence]{
		{Title: "#", Text: func(v evidence) string { return strconv.FormatInt(v.Seq, 10) }},
		{Title: "STAGE", Text: func(v evidence) string { return v.Stage }},
		{Title: "ATTEMPT", Wide: true, Text: func(v evidence) string { return strconv.FormatInt(v.Attempt, 10) }},
		{Title: "KIND", Text: func(v evidence) string { return string(v.Kind) }},
		ago(a, "RECORDED", func(v evidence) time.Time { return v.RecordedAt }),
		{Title: "SEEN", Long: true, Text: func(v evidence) string { return frame.Shorten(string(v.Value), 100) }},
	}
}

func (a *app) decommissionEvidenceCommand() *cobra.Command {
	return a.verb(verb{
		use: "evidence DECOMMISSION", short: "Show what the stages of a decommission saw",
		args:       frame.Exactly("DECOMMISSION"),
		operations: []string{"list-decommission-evidence"},
		long:       "All of it, in full, with -o json. The signed certificate says what it supports: gpuaas certificate list",
		run: a.decommissionNoun().about(func(s *session, id types.UUID) error {
			raws, _, err := listing.Collect(func(listing.Page) (apiclient.Answer, error) {
				return s.API.ListDecommissionEvidenceWithResponse(s.Ctx, id)
			}, 0)
			if err != nil {
				return err
			}
			return frame.PrintList(s.App, a.evidenceColumns(), raws)
		}),
	})
}

// modeStage is a stage of a mode.
type modeStage struct {
	apiclient.DecommissionStageView
	mode string
}

func modeStageColumns() []table.Column[modeStage] {
	return []table.Column[modeStage]{
		{Title: "MODE", Text: func(v modeStage) string { return v.mode }},
		{Title: "#", Text: func(v modeStage) string { return strconv.FormatInt(v.Number, 10) }},
		{Title: "STAGE", Text: func(v modeStage) string { return v.Name }},
		{Title: "WAITS UNTIL", Long: true, Text: func(v modeStage) string { return v.Expects }},
		{Title: "ATTEMPTS", Text: func(v modeStage) string { return strconv.FormatInt(v.Attempts, 10) }},
		{Title: "TYPICALLY", Text: func(v modeStage) string { return typically(v.TypicalSeconds) }},
		{Title: "RESUMES AT", Text: func(v modeStage) string { return v.Resume }},
		{Title: "OVERRIDABLE", Text: func(v modeStage) string { return yesNo(v.Overridable) }},
	}
}

func (a *app) decommissionStagesCommand() *cobra.Command {
	return a.verb(verb{
		use: "stages [MODE]", short: "List the stages of each mode, what they wait for and how long that takes",
		args: cobra.MaximumNArgs(1), operations: []string{"list-decommission-stages"},
		flags: func(cmd *cobra.Command) action {
			site := addStagesSite(cmd)
			return func(s *session, args []string) error {
				if len(args) > 0 && !slices.Contains(modes(), args[0]) {
					return failure.Misuse(s.Cmd, "there is no mode %q; there are %s", args[0], strings.Join(modes(), ", "))
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
	all, err := output.DecodeAll[apiclient.DecommissionModeView](raws)
	if err != nil {
		return err
	}
	wanted, rows := []json.RawMessage{}, []output.Object[modeStage]{}
	for i, m := range all {
		if len(only) > 0 && !slices.Contains(only, string(m.Value.Mode)) {
			continue
		}
		wanted = append(wanted, raws[i])
		for _, stage := range m.Value.Stages {
			rows = append(rows, output.Object[modeStage]{Value: modeStage{stage, string(m.Value.Mode)}})
		}
	}
	format, err := s.Format()
	if err != nil {
		return err
	}
	if format != output.Table {
		return output.Print(s.Program.Out, format, output.Array(wanted))
	}
	return table.Print(s.Program.Out, modeStageColumns(), rows, !s.Flags.NoHeaders, s.Wide())
}
