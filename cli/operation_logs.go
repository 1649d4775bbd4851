package cli

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

func (a *app) operationLineColumns() []table.Column[apiclient.OperationLineView] {
	type line = apiclient.OperationLineView
	return []table.Column[line]{
		{Title: "TIME", Text: func(l line) string { return l.At.In(a.Zone).Format(time.TimeOnly) }},
		{Title: "NODE", Text: func(l line) string { return l.Hostname }},
		{Title: "STEP", Text: func(l line) string { return l.StepId }},
		{Title: "STREAM", Text: func(l line) string { return l.Stream }},
		{Title: "TEXT", Text: func(l line) string { return l.Text }},
	}
}

// logFlags say which lines are wanted.
type logFlags struct {
	step, target, search string
}

func (a *app) operationLogsCommand() *cobra.Command {
	return a.verb(verb{
		use: "logs OPERATION", short: "Show, search or follow what the steps of a run print",
		args: frame.Exactly("OPERATION"),
		operations: []string{
			"get-operation-logs", "get-fleet-operation-logs", "list-operation-targets", "list-fleet-operation-targets",
		},
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			l := &logFlags{}
			cmd.Flags().StringVar(&l.step, "step", "", "only lines of this step")
			cmd.Flags().StringVar(&l.target, "target", "", "only lines of this node, by its hostname or the id of the target")
			cmd.Flags().StringVar(&l.search, "search", "", "only lines that hold this text")
			follow := cmd.Flags().BoolP("follow", "f", false, "go on until the run has ended")
			f := listing.AddFlags(cmd, 0)
			return func(s *session, args []string) error {
				project, id, err := s.operation(*c, args[0])
				if err != nil {
					return err
				}
				target, err := s.runTarget(project, id, l.target)
				if err != nil {
					return err
				}
				if *follow {
					return s.followLogs(project, id, l, target)
				}
				return listing.Print(s.Session, f, listing.Listing[apiclient.OperationLineView]{
					Columns: a.operationLineColumns(),
					Fetch: func(p listing.Page) (apiclient.Answer, error) {
						if project != nil {
							return s.API.GetOperationLogsWithResponse(s.Ctx, *project, id, &apiclient.GetOperationLogsParams{
								Cursor: p.Cursor, PageSize: p.Size, StepId: frame.Given(s.Session, "step", &l.step), Target: target,
								Q: frame.Given(s.Session, "search", &l.search),
							})
						}
						return s.API.GetFleetOperationLogsWithResponse(s.Ctx, id, &apiclient.GetFleetOperationLogsParams{
							Cursor: p.Cursor, PageSize: p.Size, StepId: frame.Given(s.Session, "step", &l.step), Target: target,
							Q: frame.Given(s.Session, "search", &l.search),
						})
					},
				})
			}
		},
	})
}

// followLogs prints lines as they come. A connection that breaks is opened again where
// it broke.
func (s *session) followLogs(project *types.UUID, id types.UUID, l *logFlags, target *types.UUID) error {
	follow, last, ended := true, "", false
	for !ended && s.Ctx.Err() == nil {
		var after *string
		if last != "" {
			after = &last
		}
		resp, err := s.openLogs(project, id, l, target, &follow, after)
		if err != nil {
			return err
		}
		err = apiclient.Messages(resp.Body, func(at, name string, data []byte) error {
			if at != "" {
				last = at
			}
			ended = ended || name == "end"
			return s.printLogEvent(name, data)
		})
		_ = resp.Body.Close() // nothing was written
		if ended || s.Ctx.Err() != nil {
			break
		}
		s.Note("the log broke off (%v); connecting again", err)
		if err := s.Wait(s.Ctx, time.Second); err != nil {
			return err
		}
	}
	return s.Ctx.Err()
}

func (s *session) openLogs(project *types.UUID, id types.UUID, l *logFlags, target *types.UUID, follow *bool,
	after *string,
) (*http.Response, error) {
	step, search := frame.Given(s.Session, "step", &l.step), frame.Given(s.Session, "search", &l.search)
	if project != nil {
		return s.API.GetOperationLogs(s.Ctx, *project, id, &apiclient.GetOperationLogsParams{
			Follow: follow, StepId: step, Target: target, Q: search, LastEventID: after,
		}, apiclient.AsStream)
	}
	return s.API.GetFleetOperationLogs(s.Ctx, id, &apiclient.GetFleetOperationLogsParams{
		Follow: follow, StepId: step, Target: target, Q: search, LastEventID: after,
	}, apiclient.AsStream)
}

func (s *session) printLogEvent(name string, data []byte) error {
	format, err := s.Format()
	if err != nil {
		return err
	}
	if format != output.Table {
		return output.PrintLine(s.Program.Out, format, json.RawMessage(data))
	}
	if name != "line" {
		return nil
	}
	l, err := output.Decode[apiclient.OperationLineView](data)
	if err != nil {
		return err
	}
	v := l.Value
	return output.Write(s.Program.Out, v.At.In(s.Zone).Format(time.TimeOnly)+"  "+output.Harmless(v.Hostname)+"  "+
		output.Harmless(v.StepId)+"  "+output.Harmless(v.Text)+"\n")
}
