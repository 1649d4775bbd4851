package cli

import (
	"cmp"
	"encoding/json"
	"strconv"
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

func (a *app) selfCheckColumns() []table.Column[apiclient.SelfCheck] {
	type check = apiclient.SelfCheck
	return []table.Column[check]{
		{Title: "ID", Text: func(c check) string { return c.Id.String() }},
		{Title: "STATUS", Text: func(c check) string { return string(c.Status) }},
		{Title: "WAITING FOR", Long: true, Text: func(c check) string { return text(c.WaitingFor) }},
		{Title: "REQUESTED BY", Long: true, Text: func(c check) string { return c.RequestedBy }},
		ago(a, "CREATED", func(c check) time.Time { return c.CreatedAt }),
		ago(a, "FINISHED", func(c check) *time.Time { return c.FinishedAt }),
		{Title: "CORRELATION ID", Text: func(c check) string { return c.CorrelationId }, Detail: true},
	}
}

func stepColumns() []table.Column[apiclient.SelfcheckStep] {
	type step = apiclient.SelfcheckStep
	return []table.Column[step]{
		{Title: "STEP", Text: func(t step) string { return string(t.Name) }},
		{Title: "WENT THROUGH", Long: true, Text: func(t step) string { return text(t.Components) }},
		{Title: "OK", Text: func(t step) string { return yesNo(t.Ok) }},
		{Title: "TOOK", Text: func(t step) string { return strconv.FormatInt(t.DurationMs, 10) + "ms" }},
		{Title: "MESSAGE", Long: true, Text: func(t step) string { return text(t.Message) }},
		{Title: "WHAT TO DO", Long: true, Text: func(t step) string { return text(t.Remedy) }},
	}
}

func (a *app) selfCheckCommand() *cobra.Command {
	return a.noun(noun{
		use: "self-check", short: "Send a harmless errand through the whole control plane", group: groupWatching,
	},
		a.selfCheckRunCommand(),
		a.verb(verb{
			use: "list", short: "List self-checks, newest first", aliases: []string{"ls"},
			operations: []string{"list-self-checks"},
			flags: func(cmd *cobra.Command) action {
				status := cmd.Flags().String("status", "", "only those with this status: pending, running, passed, failed or cancelled")
				frame.Complete(cmd, "status", apiclient.Words("list-self-checks.status")...)
				f := listing.AddFlags(cmd, 50)
				return func(s *session, _ []string) error {
					return listing.Print(s.Session, f, listing.Listing[apiclient.SelfCheck]{
						Columns: a.selfCheckColumns(),
						Fetch: func(p listing.Page) (apiclient.Answer, error) {
							return s.API.ListSelfChecksWithResponse(s.Ctx, &apiclient.ListSelfChecksParams{
								Cursor: p.Cursor, PageSize: p.Size, Status: frame.GivenAs[apiclient.ListSelfChecksParamsStatus](s.Session,
									"status", status),
							})
						},
					})
				}
			},
		}),
		a.verb(verb{
			use: "get ID", short: "Show a self-check and its steps", args: frame.Exactly("ID"),
			operations: []string{"get-self-check"},
			run: func(s *session, args []string) error {
				id, err := s.IDOf("a self-check", args[0])
				if err != nil {
					return err
				}
				raw, err := apiclient.Read(s.API.GetSelfCheckWithResponse(s.Ctx, id))
				if err != nil {
					return err
				}
				return s.showSelfCheck(raw)
			},
		}),
		a.verb(verb{
			use: "cancel ID", short: "Stop a self-check", args: frame.Exactly("ID"), operations: []string{"cancel-self-check"},
			flags: func(cmd *cobra.Command) action {
				reason := cmd.Flags().String("reason", "", "the reason, kept in the audit log")
				return func(s *session, args []string) error {
					if err := s.Require("reason"); err != nil {
						return err
					}
					id, err := s.IDOf("a self-check", args[0])
					if err != nil {
						return err
					}
					return frame.Show(s.Session, a.selfCheckColumns())(
						s.API.CancelSelfCheckWithResponse(s.Ctx, id, &apiclient.CancelSelfCheckParams{},
							apiclient.SelfcheckCancellation{Reason: *reason}))
				}
			},
		}),
	)
}

func (a *app) selfCheckRunCommand() *cobra.Command {
	return a.verb(verb{
		use: "run", short: "Start a self-check", operations: []string{"create-self-check", "get-self-check"},
		long: "Starts a self-check and prints it. With --wait it returns when the check has ended, with exit code 0\n" +
			"when it passed and 8 when it did not; --watch does the same and shows how it goes on.",
		flags: func(cmd *cobra.Command) action {
			w := watch.AddWaitFlags(cmd)
			return func(s *session, _ []string) error { return s.runSelfCheck(*w) }
		},
	})
}

func (s *session) runSelfCheck(w watch.Waiting) error {
	raw, err := apiclient.Read(s.API.CreateSelfCheckWithResponse(s.Ctx, &apiclient.CreateSelfCheckParams{}))
	if err != nil {
		return err
	}
	started, err := output.Decode[apiclient.SelfCheck](raw)
	if err != nil {
		return err
	}
	if !w.Wait && !w.Watch {
		return s.showSelfCheck(raw)
	}
	id := started.Value.Id
	ended, err := watch.Await(s.Session, w, watch.Awaited[apiclient.SelfCheck]{
		What: "the self-check", SeeIt: "gpuaas self-check get " + id.String(), Report: s.progress,
		Read:  func() (json.RawMessage, error) { return apiclient.Read(s.API.GetSelfCheckWithResponse(s.Ctx, id)) },
		Ended: func(c apiclient.SelfCheck) bool { return c.FinishedAt != nil },
	})
	if err != nil {
		return err
	}
	if !w.Watch {
		if err := s.showSelfCheck(ended.Raw); err != nil {
			return err
		}
	}
	if status := ended.Value.Status; status != apiclient.SelfCheckStatusPassed {
		return failure.New(failure.Unsuccessful, "self_check_"+string(status), "see its steps: gpuaas self-check get "+
			id.String(),
			"the self-check ended as %s", status)
	}
	return nil
}

// progress prints how a check stands, on one line.
func (s *session) progress(o output.Object[apiclient.SelfCheck]) error {
	format, err := s.Format()
	if err != nil {
		return err
	}
	if format != output.Table {
		return output.PrintLine(s.Program.Out, format, o.Raw)
	}
	parts := []string{string(o.Value.Status)}
	if at := text(o.Value.WaitingFor); at != "" {
		parts[0] += ", at " + at
	}
	for _, step := range o.Value.Steps {
		outcome := "ok after " + strconv.FormatInt(step.DurationMs, 10) + "ms"
		if !step.Ok {
			outcome = cmp.Or(text(step.Message), "failed")
		}
		parts = append(parts, string(step.Name)+": "+outcome)
	}
	return output.Write(s.Program.Out, output.Harmless(strings.Join(parts, "; "))+"\n")
}

// showSelfCheck prints a check with its steps.
func (s *session) showSelfCheck(raw json.RawMessage) error {
	if err := frame.PrintOne(s.App, s.app.selfCheckColumns(), raw); err != nil {
		return err
	}
	check, err := output.Decode[apiclient.SelfCheck](raw)
	if err != nil {
		return err
	}
	return frame.PrintPart(s.Session, stepColumns(), check.Value.Steps)
}
