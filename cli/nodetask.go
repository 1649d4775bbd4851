package cli

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/contract/apiclient"
)

func (a *app) taskColumns() []column[apiclient.AgenttaskView] {
	type task = apiclient.AgenttaskView
	detail := func(title string, text func(task) string) column[task] {
		return column[task]{title: title, text: text, detail: true}
	}
	return []column[task]{
		{title: "ID", text: func(v task) string { return v.TaskId.String() }},
		{title: "TYPE", text: func(v task) string { return v.Type }},
		{title: "STATUS", text: func(v task) string { return string(v.Status) }},
		{title: "ERROR", text: taskError},
		{title: "ATTEMPT", text: func(v task) string {
			return strconv.FormatInt(v.Attempt, 10) + "/" + strconv.FormatInt(v.MaxAttempts, 10)
		}},
		{title: "CREATED", text: func(v task) string { return a.when(v.CreatedAt) }},
		{title: "FINISHED", text: func(v task) string { return a.whenever(v.FinishedAt) }},
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
		detail("HANDED OUT", func(v task) string { return a.whenever(v.DispatchedAt) }),
		detail("EXPIRES", func(v task) string { return a.when(v.DeadlineAt) }),
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

func (a *app) taskStepColumns() []column[apiclient.AgenttaskStepView] {
	type step = apiclient.AgenttaskStepView
	return []column[step]{
		{title: "STEP", text: func(v step) string { return v.Name }},
		{title: "STATUS", text: func(v step) string { return string(v.Status) }},
		{title: "MESSAGE", text: func(v step) string { return text(v.Message) }},
		{title: "AT", text: func(v step) string { return a.when(v.At) }},
	}
}

func (a *app) nodeTaskCommand() *cobra.Command {
	return a.noun(noun{use: "task", short: "What nodes are asked to do: typed, signed, expiring"},
		a.nodeTaskRunCommand(), a.nodeTaskListCommand(),
		a.verb(verb{
			use: "get TASK", short: "Show a task with its steps and output", args: exactly("TASK"), operations: []string{"get-node-task"},
			run: func(s *session, args []string) error {
				id, err := s.idOf("a task", args[0])
				if err != nil {
					return err
				}
				raw, err := apiclient.Read(s.api.GetNodeTaskWithResponse(s.ctx, id))
				if err != nil {
					return err
				}
				return s.showTask(raw)
			},
		}),
		a.verb(verb{
			use: "cancel TASK", short: "Stop a task", args: exactly("TASK"), operations: []string{"cancel-node-task"},
			flags: func(cmd *cobra.Command) action {
				reason := cmd.Flags().String("reason", "", "why; it goes into the audit log")
				return func(s *session, args []string) error {
					if err := s.require("reason"); err != nil {
						return err
					}
					id, err := s.idOf("a task", args[0])
					if err != nil {
						return err
					}
					return show(s, a.taskColumns())(s.api.CancelNodeTaskWithResponse(s.ctx, id, &apiclient.CancelNodeTaskParams{}, apiclient.AgenttaskCancelBody{Reason: *reason}))
				}
			},
		}),
		a.verb(verb{
			use: "types", short: "List what nodes can be asked to do", operations: []string{"list-node-task-types"},
			run: func(s *session, _ []string) error {
				raws, _, err := collect(func(page) (apiclient.Answer, error) { return s.api.ListNodeTaskTypesWithResponse(s.ctx) }, 0)
				if err != nil {
					return err
				}
				return printList(s.app, taskTypeColumns(), raws)
			},
		}),
	)
}

func taskTypeColumns() []column[apiclient.AgenttaskTypeView] {
	type kind = apiclient.AgenttaskTypeView
	return []column[kind]{
		{title: "TYPE", text: func(v kind) string { return v.Type }},
		{title: "WHAT IT DOES", text: func(v kind) string { return v.Title }},
		{title: "BESIDE OTHERS", text: func(v kind) string { return string(v.ConcurrencyClass) }},
		{title: "ON REQUEST", text: func(v kind) string { return yesNo(v.OnRequest) }},
		{title: "DESTROYS", text: func(v kind) string { return text(v.Destroys) }},
	}
}

func (a *app) nodeTaskListCommand() *cobra.Command {
	return a.verb(verb{
		use: "list [NODE]", short: "List the tasks of a node, or of all, newest first", aliases: []string{"ls"}, args: cobra.MaximumNArgs(1),
		operations: []string{"list-node-tasks", "list-all-node-tasks"},
		flags: func(cmd *cobra.Command) action {
			status := cmd.Flags().String("status", "", "only those that are so: queued, dispatched, succeeded, failed, expired or cancelled")
			kind := cmd.Flags().String("type", "", "only those of this type")
			complete(cmd, "status", "queued", "dispatched", "succeeded", "failed", "expired", "cancelled")
			f := addListFlags(cmd, 50)
			return func(s *session, args []string) error {
				of := func(p page) (apiclient.Answer, error) {
					return s.api.ListAllNodeTasksWithResponse(s.ctx, &apiclient.ListAllNodeTasksParams{
						Cursor: p.cursor, PageSize: p.size, Type: given(s, "type", kind), Status: givenAs[apiclient.ListAllNodeTasksParamsStatus](s, "status", status),
					})
				}
				if len(args) == 1 {
					id, err := s.nodeID(args[0])
					if err != nil {
						return err
					}
					of = func(p page) (apiclient.Answer, error) {
						return s.api.ListNodeTasksWithResponse(s.ctx, id, &apiclient.ListNodeTasksParams{
							Cursor: p.cursor, PageSize: p.size, Type: given(s, "type", kind), Status: givenAs[apiclient.ListNodeTasksParamsStatus](s, "status", status),
						})
					}
				}
				return list(s, f, listing[apiclient.AgenttaskView]{columns: a.taskColumns(), fetch: of})
			}
		},
	})
}

func (a *app) nodeTaskRunCommand() *cobra.Command {
	return a.verb(verb{
		use: "run NODE TYPE", short: "Ask a node to do something", args: exactly("NODE", "TYPE"), operations: []string{"create-node-task", "get-node-task"},
		long: "The types are those of: gpuaas node task types. With --wait it returns when the task has ended, with exit\n" +
			"code 0 when it succeeded and 8 when it did not. What a type destroys is shown and asked about on a terminal.",
		example: "  gpuaas node task run c07u31 node.validate_clean --reason \"before the next tenant\" --wait\n" +
			"  gpuaas node task run c07u31 node.storage_cleanup --param scope=local --reason cleanup",
		flags: func(cmd *cobra.Command) action {
			params := cmd.Flags().StringArray("param", nil, "a parameter as NAME=VALUE, where VALUE is JSON or plain text; may be repeated")
			file := cmd.Flags().String("params-file", "", "file with the parameters as a JSON object")
			reason := cmd.Flags().String("reason", "", "why; it goes into the audit log")
			_ = cmd.MarkFlagFilename("params-file") // it was defined above
			w, yes := addWaitFlags(cmd), addYesFlag(cmd)
			return func(s *session, args []string) error {
				if err := s.require("reason"); err != nil {
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
	if !s.asks(yes) {
		return nil
	}
	raws, _, err := collect(func(page) (apiclient.Answer, error) { return s.api.ListNodeTaskTypesWithResponse(s.ctx) }, 0)
	if err != nil {
		return err
	}
	kinds, err := decodeAll[apiclient.AgenttaskTypeView](raws)
	if err != nil {
		return err
	}
	for _, k := range kinds {
		if harm := text(k.value.Destroys); k.value.Type == kind && harm != "" {
			return s.confirm(yes, "%s of %s: %s", kind, node, harm)
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
			return nil, fail(exitUsage, "params_unreadable", "name a file that you can read", "read parameters: %v", err)
		}
		if err := json.Unmarshal(b, &out); err != nil {
			return nil, fail(exitUsage, "params_malformed", "write one JSON object into the file", "%s does not hold a JSON object: %v", file, err)
		}
	}
	for _, p := range flags {
		name, value, ok := strings.Cut(p, "=")
		if !ok || name == "" {
			return nil, usage(s.cmd, "--param %q is not NAME=VALUE", p)
		}
		raw := json.RawMessage(value)
		if !json.Valid(raw) {
			quoted, err := json.Marshal(value)
			if err != nil {
				return nil, usage(s.cmd, "--param %q: %v", p, err)
			}
			raw = quoted
		}
		out[name] = raw
	}
	return out, nil
}

func (s *session) runTask(node types.UUID, body apiclient.AgenttaskNewBody, w waiting) error {
	raw, err := apiclient.Read(s.api.CreateNodeTaskWithResponse(s.ctx, node, &apiclient.CreateNodeTaskParams{}, body))
	if err != nil {
		return err
	}
	started, err := decode[apiclient.AgenttaskView](raw)
	if err != nil {
		return err
	}
	if !w.wait && !w.watch {
		return s.showTask(raw)
	}
	id := started.value.TaskId
	ended, err := await(s, w, awaited[apiclient.AgenttaskView]{
		what: "the task", seeIt: "gpuaas node task get " + id.String(), report: s.taskProgress,
		read:  func() (json.RawMessage, error) { return apiclient.Read(s.api.GetNodeTaskWithResponse(s.ctx, id)) },
		ended: func(t apiclient.AgenttaskView) bool { return t.FinishedAt != nil },
	})
	if err != nil {
		return err
	}
	if !w.watch {
		if err := s.showTask(ended.raw); err != nil {
			return err
		}
	}
	if status := ended.value.Status; status != apiclient.AgenttaskViewStatusSucceeded {
		return fail(exitUnsuccessful, "node_task_"+string(status), "see it: gpuaas node task get "+id.String(), "the task ended as %s %s", status, taskError(ended.value))
	}
	return nil
}

// taskProgress prints how a task stands, on one line.
func (s *session) taskProgress(o object[apiclient.AgenttaskView]) error {
	format, err := s.format()
	if err != nil {
		return err
	}
	if format != formatTable {
		return printLine(s.program.Out, format, o.raw)
	}
	line := string(o.value.Status)
	if o.value.Steps != nil && len(*o.value.Steps) > 0 {
		last := (*o.value.Steps)[len(*o.value.Steps)-1]
		line += ", " + last.Name + " " + string(last.Status) + " " + text(last.Message)
	}
	return write(s.program.Out, harmless(strings.TrimSpace(line+" "+taskError(o.value)))+"\n")
}

// showTask prints a task with its steps.
func (s *session) showTask(raw json.RawMessage) error {
	if err := printOne(s.app, s.taskColumns(), raw); err != nil {
		return err
	}
	t, err := decode[apiclient.AgenttaskView](raw)
	if err != nil || t.value.Steps == nil {
		return err
	}
	return printPart(s, s.taskStepColumns(), *t.value.Steps)
}
