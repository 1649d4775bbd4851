package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/table"
	"gpuaas/cli/internal/watch"
	"gpuaas/contract/apiclient"
)

func (a *app) operationColumns() []table.Column[apiclient.OperationView] {
	type operation = apiclient.OperationView
	return []table.Column[operation]{
		{Title: "ID", Text: func(o operation) string { return o.OperationId.String() }},
		{Title: "OPERATION", Text: func(o operation) string { return o.OperationType + "@" + o.Version }},
		{Title: "STATUS", Long: true, Text: func(o operation) string {
			switch {
			case o.Paused:
				return string(o.Status) + ", paused"
			case o.Approval != nil && o.Approval.Awaited:
				return string(o.Status) + ", to be approved"
			}
			return string(o.Status)
		}},
		{Title: "TARGETS", Text: func(o operation) string {
			return fmt.Sprintf("%d of %d done", o.Targets.Succeeded, o.Targets.Total)
		}},
		{Title: "FAILED", Text: func(o operation) string { return strconv.Itoa(int(o.Targets.Failed)) }},
		{Title: "SKIPPED", Wide: true, Text: func(o operation) string { return strconv.Itoa(int(o.Targets.Skipped)) }},
		{Title: "BY", Wide: true, Text: func(o operation) string { return text(o.RequestedByName) }},
		ago(a, "ASKED", func(o operation) time.Time { return o.CreatedAt }),
		{Title: "WAITS FOR", Text: func(o operation) string { return text(o.WaitingFor) }, Detail: true},
		{Title: "ERROR", Text: func(o operation) string { return text(o.ErrorMessage) }, Detail: true},
		{Title: "REASON", Text: func(o operation) string { return text(o.Reason) }, Detail: true},
		{Title: "AT A TIME", Text: func(o operation) string { return strconv.Itoa(int(o.MaxConcurrency)) }, Detail: true},
		{
			Title: "PAUSES AFTER FAILURES", Text: func(o operation) string { return strconv.Itoa(int(o.MaxFailures)) },
			Detail: true,
		},
		{Title: "POLICY DOCUMENT", Text: func(o operation) string { return decisionsText(o.PolicyDecisions) }, Detail: true},
		{Title: "AGAIN OF", Text: func(o operation) string {
			if o.AgainOf == nil {
				return ""
			}
			return o.AgainOf.String()
		}, Detail: true},
		{Title: "CORRELATION ID", Text: func(o operation) string { return o.CorrelationId }, Detail: true},
	}
}

// decisionsText says what the policy document decided about a run.
func decisionsText(of []apiclient.OperationVerdictView) string {
	lines := make([]string, len(of))
	for i, v := range of {
		switch {
		case text(v.Undecided) != "":
			lines[i] = v.Document + " could not decide: " + text(v.Undecided)
		case len(v.Denied) > 0:
			lines[i] = v.Document + " denied it: " + strings.Join(v.Denied, "; ")
		default:
			lines[i] = v.Document + " did not deny it"
		}
	}
	return strings.Join(lines, ", then ")
}

func (a *app) operationTargetColumns() []table.Column[apiclient.OperationTargetView] {
	type target = apiclient.OperationTargetView
	trouble := func(part func(apiclient.OperationTroubleView) string) func(target) string {
		return func(t target) string {
			if t.Error == nil {
				return ""
			}
			return part(*t.Error)
		}
	}
	return []table.Column[target]{
		{Title: "NODE", Text: func(t target) string { return t.Hostname }},
		{Title: "STATUS", Text: func(t target) string { return string(t.Status) }},
		{Title: "ATTEMPT", Wide: true, Text: func(t target) string { return strconv.Itoa(int(t.Attempt)) }},
		{Title: "AT STEP", Text: func(t target) string {
			switch at := text(t.CurrentStep); {
			case at != "":
				return at
			case t.Error != nil && t.Attempt > 0:
				return fmt.Sprintf("no. %d", t.StepIndex+1)
			}
			return ""
		}},
		{Title: "CHANGED", Wide: true, Text: func(t target) string { return yesNo(t.Changed) }},
		{Title: "ERROR", Long: true, Text: trouble(func(e apiclient.OperationTroubleView) string { return e.Message })},
		{Title: "CODE", Text: trouble(func(e apiclient.OperationTroubleView) string { return e.Code })},
		{Title: "CLASS", Wide: true, Text: trouble(func(e apiclient.OperationTroubleView) string { return text(e.Class) })},
		{
			Title: "WHAT TO DO", Wide: true,
			Text: trouble(func(e apiclient.OperationTroubleView) string { return text(e.Remedy) }),
		},
		{Title: "TARGET ID", Text: func(t target) string { return t.TargetId.String() }},
	}
}

func (a *app) operationStepColumns() []table.Column[apiclient.OperationStepView] {
	type step = apiclient.OperationStepView
	return []table.Column[step]{
		{Title: "NODE", Text: func(v step) string { return v.Hostname }},
		{Title: "ATTEMPT", Wide: true, Text: func(v step) string { return strconv.Itoa(int(v.AttemptNumber)) }},
		{Title: "STEP", Text: func(v step) string { return v.StepId }},
		{Title: "KIND", Text: func(v step) string { return v.StepKind }},
		{Title: "STATUS", Text: func(v step) string { return string(v.Status) }},
		{Title: "CHANGED", Wide: true, Text: func(v step) string { return yesNo(v.Changed) }},
		{Title: "BEGAN", Text: func(v step) string {
			if v.StartedAt == nil {
				return ""
			}
			return v.StartedAt.In(a.Zone).Format(time.DateTime)
		}},
		{Title: "TOOK", Text: func(v step) string { return fmt.Sprintf("%d ms", v.DurationMs) }},
		{Title: "SUMMARY", Long: true, Text: func(v step) string {
			if v.Error != nil {
				return v.Error.Message
			}
			return text(v.Summary)
		}},
	}
}

func (a *app) operationCommand() *cobra.Command {
	return a.noun(noun{
		use: "operation", short: "Versioned work on nodes, without a shell", group: groupMachines,
		long: "An operation does typed steps on nodes, never a free command. Its definition says which steps; policies say\n" +
			"what the platform, a tenant and a project allow of it.\n\n" +
			"A run carries out a definition on nodes. With --project it runs on what the project rents; without it on\n" +
			"nodes of the fleet, for operators. A run that failed is resumed where it stopped (retry); again begins a\n" +
			"new one.",
	}, a.operationDefinitionCommand(), a.operationPolicyCommand(), a.operationRunCommand(), a.operationListCommand(),
		a.operationShowCommand(), a.operationTargetsCommand(),
		a.operationStepsCommand(), a.operationArtifactsCommand(), a.operationLogsCommand(), a.operationRetryCommand(),
		a.operationActCommand("again", "Run the same again from the start, as a new run",
			func(s *session, p *types.UUID, id types.UUID, b apiclient.OperationActBody) (apiclient.Answer, error) {
				if p != nil {
					return s.API.AgainOperationWithResponse(s.Ctx, *p, id, &apiclient.AgainOperationParams{}, b)
				}
				return s.API.AgainFleetOperationWithResponse(s.Ctx, id, &apiclient.AgainFleetOperationParams{}, b)
			}),
		a.operationActCommand("cancel", "Stop a run at a safe point",
			func(s *session, p *types.UUID, id types.UUID, b apiclient.OperationActBody) (apiclient.Answer, error) {
				if p != nil {
					return s.API.CancelOperationWithResponse(s.Ctx, *p, id, &apiclient.CancelOperationParams{}, b)
				}
				return s.API.CancelFleetOperationWithResponse(s.Ctx, id, &apiclient.CancelFleetOperationParams{}, b)
			}),
		a.operationActCommand("pause", "Pause a run: no further node starts; running nodes finish",
			func(s *session, p *types.UUID, id types.UUID, b apiclient.OperationActBody) (apiclient.Answer, error) {
				if p != nil {
					return s.API.PauseOperationWithResponse(s.Ctx, *p, id, &apiclient.PauseOperationParams{}, b)
				}
				return s.API.PauseFleetOperationWithResponse(s.Ctx, id, &apiclient.PauseFleetOperationParams{}, b)
			}),
		a.operationActCommand("unpause", "Continue a paused run",
			func(s *session, p *types.UUID, id types.UUID, b apiclient.OperationActBody) (apiclient.Answer, error) {
				if p != nil {
					return s.API.UnpauseOperationWithResponse(s.Ctx, *p, id, &apiclient.UnpauseOperationParams{}, b)
				}
				return s.API.UnpauseFleetOperationWithResponse(s.Ctx, id, &apiclient.UnpauseFleetOperationParams{}, b)
			}),
		a.operationActCommand("approve", "Approve a run that must be approved",
			func(s *session, p *types.UUID, id types.UUID, b apiclient.OperationActBody) (apiclient.Answer, error) {
				if p != nil {
					return s.API.ApproveOperationWithResponse(s.Ctx, *p, id, &apiclient.ApproveOperationParams{}, b)
				}
				return s.API.ApproveFleetOperationWithResponse(s.Ctx, id, &apiclient.ApproveFleetOperationParams{}, b)
			}))
}

// side is the project that a command is about; nil: the fleet.
func (s *session) side(c scope) (*types.UUID, error) {
	if c.project == "" {
		return nil, nil //nolint:nilnil // the fleet
	}
	project, err := s.projectID(c)
	return &project, err
}

// operation is the run that a command is about, and the project that it belongs to; nil: the fleet.
func (s *session) operation(c scope, text string) (project *types.UUID, id types.UUID, err error) {
	if id, err = s.IDOf("an operation", text); err != nil {
		return nil, id, err
	}
	project, err = s.side(c)
	return project, id, err
}

// operationActCommand does something to a run, with a reason and nothing else.
func (a *app) operationActCommand(word, short string,
	call func(s *session, project *types.UUID, id types.UUID, b apiclient.OperationActBody) (apiclient.Answer, error),
) *cobra.Command {
	return a.verb(verb{
		use: word + " OPERATION", short: short, args: frame.Exactly("OPERATION"),
		operations: []string{word + "-operation", word + "-fleet-operation"},
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			reason := cmd.Flags().String("reason", "", "the reason, kept in the audit log")
			return func(s *session, args []string) error {
				project, id, err := s.operation(*c, args[0])
				if err != nil {
					return err
				}
				return frame.Show(s.Session, a.operationColumns())(call(s, project, id, apiclient.OperationActBody{
					Reason: frame.Given(s.Session, "reason", reason),
				}))
			}
		},
	})
}

func (a *app) operationRetryCommand() *cobra.Command {
	return a.verb(verb{
		use: "retry OPERATION", short: "Resume a run where it stopped", args: frame.Exactly("OPERATION"),
		operations: []string{
			"retry-operation", "retry-fleet-operation", "list-operation-targets", "list-fleet-operation-targets",
			"get-operation", "get-fleet-operation",
		},
		long: "Targets that failed, were stopped, skipped or never reached go on, each at its failed step. What succeeded\n" +
			"is not done again. With --only only these targets go on. With --watch it follows the run to its end.",
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			only := cmd.Flags().StringSlice("only", nil, "node that shall go on, by hostname or id of the target; may be repeated")
			reason := cmd.Flags().String("reason", "", "the reason, kept in the audit log")
			w := watch.AddWaitFlags(cmd)
			return func(s *session, args []string) error {
				project, id, err := s.operation(*c, args[0])
				if err != nil {
					return err
				}
				b := apiclient.OperationRetryBody{Reason: frame.Given(s.Session, "reason", reason)}
				for _, name := range *only {
					target, err := s.runTarget(project, id, name)
					if err != nil {
						return err
					}
					b.Targets = appended(b.Targets, *target)
				}
				raw, err := s.retry(project, id, b)
				if err != nil {
					return err
				}
				if !w.Watch && !w.Wait {
					return frame.PrintOne(s.App, a.operationColumns(), raw)
				}
				return a.followRun(s, *c, project, id, *w)
			}
		},
	})
}

func (s *session) retry(project *types.UUID, id types.UUID, b apiclient.OperationRetryBody) (json.RawMessage, error) {
	if project != nil {
		return apiclient.Read(s.API.RetryOperationWithResponse(s.Ctx, *project, id, &apiclient.RetryOperationParams{}, b))
	}
	return apiclient.Read(s.API.RetryFleetOperationWithResponse(s.Ctx, id, &apiclient.RetryFleetOperationParams{}, b))
}

func (a *app) operationListCommand() *cobra.Command {
	return a.verb(verb{
		use: "list", short: "List runs, newest first", aliases: []string{"ls"},
		operations: []string{"list-operations", "list-fleet-operations"},
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			statuses := cmd.Flags().StringSlice("status", nil, "only runs with this status; may be repeated")
			frame.Complete(cmd, "status", apiclient.Words("list-operations.status")...)
			kind := cmd.Flags().String("type", "", "only of this type")
			f := listing.AddFlags(cmd, 50)
			return func(s *session, _ []string) error {
				given := frame.Given(s.Session, "status", statuses)
				of := frame.Given(s.Session, "type", kind)
				project, err := s.side(*c)
				if err != nil {
					return err
				}
				return listing.Print(s.Session, f, listing.Listing[apiclient.OperationView]{
					Columns: a.operationColumns(),
					Fetch: func(p listing.Page) (apiclient.Answer, error) {
						if project != nil {
							return s.API.ListOperationsWithResponse(s.Ctx, *project, &apiclient.ListOperationsParams{
								Cursor: p.Cursor, PageSize: p.Size, Type: of,
								Status: asStatuses[apiclient.ListOperationsParamsStatus](given),
							})
						}
						return s.API.ListFleetOperationsWithResponse(s.Ctx, &apiclient.ListFleetOperationsParams{
							Cursor: p.Cursor, PageSize: p.Size, Type: of,
							Status: asStatuses[apiclient.ListFleetOperationsParamsStatus](given),
						})
					},
				})
			}
		},
	})
}

func (a *app) operationShowCommand() *cobra.Command {
	return a.verb(verb{
		use: "show OPERATION", short: "Show a run", aliases: []string{"get"}, args: frame.Exactly("OPERATION"),
		operations: []string{"get-operation", "get-fleet-operation"},
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			return func(s *session, args []string) error {
				project, id, err := s.operation(*c, args[0])
				if err != nil {
					return err
				}
				return frame.Show(s.Session, a.operationColumns())(s.readOperation(project, id))
			}
		},
	})
}

func (s *session) readOperation(project *types.UUID, id types.UUID) (apiclient.Answer, error) {
	if project != nil {
		return s.API.GetOperationWithResponse(s.Ctx, *project, id)
	}
	return s.API.GetFleetOperationWithResponse(s.Ctx, id)
}

func (a *app) operationTargetsCommand() *cobra.Command {
	return a.verb(verb{
		use: "targets OPERATION", short: "List what a run does on each node", args: frame.Exactly("OPERATION"),
		operations: []string{"list-operation-targets", "list-fleet-operation-targets"},
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			f := listing.AddFlags(cmd, 0)
			return func(s *session, args []string) error {
				project, id, err := s.operation(*c, args[0])
				if err != nil {
					return err
				}
				return listing.Print(s.Session, f, listing.Listing[apiclient.OperationTargetView]{
					Columns: a.operationTargetColumns(),
					Fetch:   s.runTargets(project, id),
				})
			}
		},
	})
}

func (a *app) operationStepsCommand() *cobra.Command {
	return a.verb(verb{
		use: "steps OPERATION", short: "List what became of the steps of a run", args: frame.Exactly("OPERATION"),
		operations: []string{
			"list-operation-steps", "list-fleet-operation-steps", "list-operation-targets", "list-fleet-operation-targets",
		},
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			target := cmd.Flags().String("target", "", "only of this node, by its hostname or the id of the target")
			status := cmd.Flags().String("status", "", "only steps whose newest attempt has this status")
			frame.Complete(cmd, "status", apiclient.Words("list-operation-steps.status")...)
			f := listing.AddFlags(cmd, 0)
			return func(s *session, args []string) error {
				project, id, err := s.operation(*c, args[0])
				if err != nil {
					return err
				}
				at, err := s.runTarget(project, id, *target)
				if err != nil {
					return err
				}
				given := frame.Given(s.Session, "status", status)
				return listing.Print(s.Session, f, listing.Listing[apiclient.OperationStepView]{
					Columns: a.operationStepColumns(),
					Fetch: func(p listing.Page) (apiclient.Answer, error) {
						if project != nil {
							return s.API.ListOperationStepsWithResponse(s.Ctx, *project, id, &apiclient.ListOperationStepsParams{
								Cursor: p.Cursor, PageSize: p.Size, Target: at,
								Status: (*apiclient.ListOperationStepsParamsStatus)(given),
							})
						}
						return s.API.ListFleetOperationStepsWithResponse(s.Ctx, id, &apiclient.ListFleetOperationStepsParams{
							Cursor: p.Cursor, PageSize: p.Size, Target: at,
							Status: (*apiclient.ListFleetOperationStepsParamsStatus)(given),
						})
					},
				})
			}
		},
	})
}
