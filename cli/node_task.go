package cli

import (
	"encoding/json"
	"os"
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
	"gpuaas/cli/internal/watch"
	"gpuaas/contract/apiclient"
)

func (a *app) taskColumns() []table.Column[apiclient.AgenttaskView] {
	type task = apiclient.AgenttaskView
	detail := func(title string, text func(task) string) table.Column[task] {
		return table.Column[task]{Title: title, Text: text, Detail: true}
	}
	return []table.Column[task]{
		{Title: "ID", Text: func(v task) string { return v.TaskId.String() }},
		{Title: "TYPE", Text: func(v task) string { return v.Type }},
		{Title: "STATUS", Text: taskStatus},
		{Title: "ERROR", Long: true, Text: taskError},
		{Title: "ATTEMPT", Wide: true, Text: func(v task) string {
			return strconv.FormatInt(v.Attempt, 10) + "/" + strconv.FormatInt(v.MaxAttempts, 10)
		}},
		ago(a, "CREATED", func(v task) time.Time { return v.CreatedAt }),
		wide(ago(a, "FINISHED", func(v task) *time.Time { return v.FinishedAt })),
		detail("NODE", func(v task) string { return v.NodeId.String() }),
		detail("WHAT TO DO", func(v task) string {
			if v.Error == nil {
				return ""
			}
			return text(v.Error.Remedy)
		}),
		detail("PARAMETERS", func(v task) string { return compact(v.Params) }),
		detail("OUTPUT", func(v task) string { return compact(v.Output) }),
		detail("REASON", func(v task) string { return v.Reason }),
		detail("REQUESTED BY", func(v task) string { return v.RequestedBy }),
		detail("STOP REQUESTED", func(v task) string { return yesNo(v.CancelRequested) }),
		detail("HANDED OUT", func(v task) string { return a.Whenever(v.DispatchedAt) }),
		detail("EXPIRES", func(v task) string { return a.When(v.DeadlineAt) }),
		detail("SIGNER", func(v task) string { return text(v.SignerVersion) }),
		detail("AGENT", func(v task) string { return text(v.AgentVersion) }),
		detail("CORRELATION ID", func(v task) string { return v.CorrelationId }),
	}
}

func taskError(v apiclient.AgenttaskView) string {
	if v.Error == nil {
		return ""
	}
	return v.Error.Code + ": " + v.Error.Message
}

func (a *app) taskStepColumns() []table.Column[apiclient.AgenttaskStepView] {
	type step = apiclient.AgenttaskStepView
	return []table.Column[step]{
		{Title: "STEP", Text: func(v step) string { return v.Name }},
		{Title: "STATUS", Text: func(v step) string { return string(v.Status) }},
		{Title: "MESSAGE", Long: true, Text: func(v step) string { return text(v.Message) }},
		{Title: "AT", Text: func(v step) string { return a.When(v.At) }},
	}
}

func (a *app) nodeTaskCommand() *cobra.Command {
	return a.noun(noun{use: "task", short: "What nodes are asked to do: typed, signed, expiring"},
		a.nodeTaskRunCommand(), a.nodeTaskListCommand(),
		a.verb(verb{
			use: "get TASK", short: "Show a task with its steps and output", args: frame.Exactly("TASK"),
			operations: []string{"get-node-task"},
			run: func(s *session, args []string) error {
				id, err := s.IDOf("a task", args[0])
				if err != nil {
					return err
				}
				raw, err := apiclient.Read(s.API.GetNodeTaskWithResponse(s.Ctx, id))
				if err != nil {
					return err
				}
				return s.showTask(raw)
			},
		}),
		a.verb(verb{
			use: "cancel TASK", short: "Stop a task", args: frame.Exactly("TASK"), operations: []string{"cancel-node-task"},
			flags: func(cmd *cobra.Command) action {
				reason := cmd.Flags().String("reason", "", "the reason, kept in the audit log")
				return func(s *session, args []string) error {
					if err := s.Require("reason"); err != nil {
						return err
					}
					id, err := s.IDOf("a task", args[0])
					if err != nil {
						return err
					}
					return frame.Show(s.Session, a.taskColumns())(
						s.API.CancelNodeTaskWithResponse(s.Ctx, id, &apiclient.CancelNodeTaskParams{},
							apiclient.AgenttaskCancelBody{Reason: *reason}))
				}
			},
		}),
		a.verb(verb{
			use: "types", short: "List what nodes can be asked to do", operations: []string{"list-node-task-types"},
			run: func(s *session, _ []string) error {
				raws, _, err := listing.Collect(func(listing.Page) (
					apiclient.Answer, error,
				) {
					return s.API.ListNodeTaskTypesWithResponse(s.Ctx)
				}, 0)
				if err != nil {
					return err
				}
				return frame.PrintList(s.App, taskTypeColumns(), raws)
			},
		}),
	)
}

func taskTypeColumns() []table.Column[apiclient.AgenttaskTypeView] {
	type kind = apiclient.AgenttaskTypeView
	return []table.Column[kind]{
		{Title: "TYPE", Text: func(v kind) string { return v.Type }},
		{Title: "WHAT IT DOES", Long: true, Text: func(v kind) string { return v.Title }},
		{Title: "BESIDE OTHERS", Text: func(v kind) string { return string(v.ConcurrencyClass) }},
		{Title: "ON REQUEST", Text: func(v kind) string { return yesNo(v.OnRequest) }},
		{Title: "DESTROYS", Long: true, Text: func(v kind) string { return text(v.Destroys) }},
	}
}

func (a *app) nodeTaskListCommand() *cobra.Command {
	return a.verb(verb{
		use: "list [NODE]", short: "List the tasks of a node, or of all, newest first", aliases: []string{"ls"},
		args:       cobra.MaximumNArgs(1),
		operations: []string{"list-node-tasks", "list-all-node-tasks"},
		flags: func(cmd *cobra.Command) action {
			status := cmd.Flags().String("status", "",
				"only those with this status: queued, dispatched, succeeded, failed, expired or cancelled")
			kind := cmd.Flags().String("type", "", "only those of this type")
			frame.Complete(cmd, "status", apiclient.Words("list-node-tasks.status")...)
			f := listing.AddFlags(cmd, 50)
			return func(s *session, args []string) error {
				of := func(p listing.Page) (apiclient.Answer, error) {
					return s.API.ListAllNodeTasksWithResponse(s.Ctx, &apiclient.ListAllNodeTasksParams{
						Cursor: p.Cursor, PageSize: p.Size, Type: frame.Given(s.Session, "type", kind),
						Status: frame.GivenAs[apiclient.ListAllNodeTasksParamsStatus](s.Session, "status", status),
					})
				}
				if len(args) == 1 {
					id, err := s.nodeID(args[0])
					if err != nil {
						return err
					}
					of = func(p listing.Page) (apiclient.Answer, error) {
						return s.API.ListNodeTasksWithResponse(s.Ctx, id, &apiclient.ListNodeTasksParams{
							Cursor: p.Cursor, PageSize: p.Size, Type: frame.Given(s.Session, "type", kind),
							Status: frame.GivenAs[apiclient.ListNodeTasksParamsStatus](s.Session, "status", status),
						})
					}
				}
				return listing.Print(s.Session, f, listing.Listing[apiclient.AgenttaskView]{Columns: a.taskColumns(), Fetch: of})
			}
		},
	})
}

func (a *app) nodeTaskRunCommand() *cobra.Command {
	return a.verb(verb{
		use: "run NODE TYPE", short: "Ask a node to do something", args: frame.Exactly("NODE", "TYPE"),
		operations: []string{"create-node-task", "get-node-task", "list-node-task-types"},
		long: "The types are those of: gpuaas node task types. With --wait it returns when the task has ended, with exit\n" +
			"code 0 when it succeeded and 8 when it did not. What a type destroys is shown and asked about;\n" +
			"without a terminal it needs --yes.",
		example: "  gpuaas node task run c07u31 node.validate_clean --reason \"before the next tenant\" --wait\n" +
			"  gpuaas node task run c07u31 node.storage_cleanup --param scope=local --reason cleanup",
		flags: func(cmd *cobra.Command) action {
			params := cmd.Flags().StringArray("param", nil,
				"a parameter as NAME=VALUE, where VALUE is JSON or plain text; may be repeated")
			file := cmd.Flags().String("params-file", "", "file with the parameters as a JSON object")
			reason := cmd.Flags().String("reason", "", "the reason, kept in the audit log")
			_ = cmd.MarkFlagFilename("params-file") // it was defined above
			w, yes := watch.AddWaitFlags(cmd), frame.AddYesFlag(cmd)
			return func(s *session, args []string) error {
				if err := s.Require("reason"); err != nil {
					return err
				}
				node, err := s.nodeID(args[0])
				if err != nil {
					return err
				}
				body := apiclient.AgenttaskNewBody{Type: args[1], Reason: *reason}
				given, err := s.taskParams(*file, *params)
				if err != nil {
					return err
				}
				if len(given) > 0 {
					body.Params = given
				}
				if err := s.confirmTask(*yes, args[0], args[1]); err != nil {
					return err
				}
				return s.runTask(node, body, *w)
			}
		},
	})
}

// confirmTask asks whether what a type of task destroys is meant.
func (s *session) confirmTask(yes bool, node, kind string) error {
	if yes {
		return nil
	}
	raws, _, err := listing.Collect(func(listing.Page) (
		apiclient.Answer, error,
	) {
		return s.API.ListNodeTaskTypesWithResponse(s.Ctx)
	}, 0)
	if err != nil {
		return err
	}
	kinds, err := output.DecodeAll[apiclient.AgenttaskTypeView](raws)
	if err != nil {
		return err
	}
	for _, k := range kinds {
		if harm := text(k.Value.Destroys); k.Value.Type == kind && harm != "" {
			return s.Confirm(yes, "%s of %s: %s", kind, node, harm)
		}
	}
	return nil
}

// taskParams gathers parameters from a file and from flags; flags win.
func (s *session) taskParams(file string, flags []string) (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	if file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, failure.New(failure.Usage, "params_unreadable", "name a file that you can read", "read parameters: %v",
				err)
		}
		if err := json.Unmarshal(b, &out); err != nil {
			return nil, failure.New(failure.Usage, "params_malformed", "write one JSON object into the file",
				"%s does not hold a JSON object: %v", file, err)
		}
	}
	for _, p := range flags {
		name, value, ok := strings.Cut(p, "=")
		if !ok || name == "" {
			return nil, failure.Misuse(s.Cmd, "--param %q is not NAME=VALUE", p)
		}
		raw := json.RawMessage(value)
		if !json.Valid(raw) {
			quoted, err := json.Marshal(value)
			if err != nil {
				return nil, failure.Misuse(s.Cmd, "--param %q: %v", p, err)
			}
			raw = quoted
		}
		out[name] = raw
	}
	return out, nil
}

func (s *session) runTask(node types.UUID, body apiclient.AgenttaskNewBody, w watch.Waiting) error {
	raw, err := apiclient.Read(s.API.CreateNodeTaskWithResponse(s.Ctx, node, &apiclient.CreateNodeTaskParams{}, body))
	if err != nil {
		return err
	}
	started, err := output.Decode[apiclient.AgenttaskView](raw)
	if err != nil {
		return err
	}
	if !w.Wait && !w.Watch {
		return s.showTask(raw)
	}
	id := started.Value.TaskId
	ended, err := watch.Await(s.Session, w, watch.Awaited[apiclient.AgenttaskView]{
		What: "the task", SeeIt: "gpuaas node task get " + id.String(), Report: s.taskProgress,
		Read:  func() (json.RawMessage, error) { return apiclient.Read(s.API.GetNodeTaskWithResponse(s.Ctx, id)) },
		Ended: func(t apiclient.AgenttaskView) bool { return t.FinishedAt != nil },
	})
	if err != nil {
		return err
	}
	if !w.Watch {
		if err := s.showTask(ended.Raw); err != nil {
			return err
		}
	}
	if status := ended.Value.Status; status != apiclient.AgenttaskViewStatusSucceeded {
		return failure.New(failure.Unsuccessful, "node_task_"+string(status), "see it: gpuaas node task get "+id.String(),
			"the task ended as %s %s", status, taskError(ended.Value))
	}
	return nil
}

// taskProgress prints how a task stands, on one line.
func (s *session) taskProgress(o output.Object[apiclient.AgenttaskView]) error {
	format, err := s.Format()
	if err != nil {
		return err
	}
	if format != output.Table {
		return output.PrintLine(s.Program.Out, format, o.Raw)
	}
	line := string(o.Value.Status)
	if o.Value.Steps != nil && len(*o.Value.Steps) > 0 {
		last := (*o.Value.Steps)[len(*o.Value.Steps)-1]
		line += ", " + last.Name + " " + string(last.Status) + " " + text(last.Message)
	}
	return output.Write(s.Program.Out, output.Harmless(strings.TrimSpace(line+" "+taskError(o.Value)))+"\n")
}

// showTask prints a task with its steps.
func (s *session) showTask(raw json.RawMessage) error {
	if err := frame.PrintOne(s.App, s.app.taskColumns(), raw); err != nil {
		return err
	}
	t, err := output.Decode[apiclient.AgenttaskView](raw)
	if err != nil || t.Value.Steps == nil {
		return err
	}
	return frame.PrintPart(s.Session, s.app.taskStepColumns(), *t.Value.Steps)
}

// taskStatus is how a task stands. One that had nothing to do did not do it.
func taskStatus(v apiclient.AgenttaskView) string {
	if text(v.Outcome) == "not_applicable" {
		return "not applicable"
	}
	return string(v.Status)
}
