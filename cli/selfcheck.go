package cli

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gpuaas/contract/apiclient"
)

func (a *app) selfCheckColumns() []column[apiclient.SelfCheck] {
	type check = apiclient.SelfCheck
	return []column[check]{
		{title: "ID", text: func(c check) string { return c.Id.String() }},
		{title: "STATUS", text: func(c check) string { return string(c.Status) }},
		{title: "WAITING FOR", text: func(c check) string { return text(c.WaitingFor) }},
		{title: "REQUESTED BY", text: func(c check) string { return c.RequestedBy }},
		{title: "CREATED", text: func(c check) string { return a.when(c.CreatedAt) }},
		{title: "FINISHED", text: func(c check) string { return a.whenever(c.FinishedAt) }},
		{title: "CORRELATION ID", text: func(c check) string { return c.CorrelationId }, detail: true},
	}
}

func stepColumns() []column[apiclient.SelfcheckStep] {
	type step = apiclient.SelfcheckStep
	return []column[step]{
		{title: "STEP", text: func(t step) string { return string(t.Name) }},
		{title: "OK", text: func(t step) string { return yesNo(t.Ok) }},
		{title: "TOOK", text: func(t step) string { return strconv.FormatInt(t.DurationMs, 10) + "ms" }},
		{title: "MESSAGE", text: func(t step) string { return text(t.Message) }},
		{title: "WHAT TO DO", text: func(t step) string { return text(t.Remedy) }},
	}
}

func (a *app) selfCheckCommand() *cobra.Command {
	return a.noun(noun{
		use: "self-check", short: "Send a harmless errand through the whole control plane", group: groupWatching,
	},
		a.selfCheckRunCommand(),
		a.verb(verb{
			use: "list", short: "List self-checks, newest first", aliases: []string{"ls"}, operations: []string{"list-self-checks"},
			flags: func(cmd *cobra.Command) action {
				status := cmd.Flags().String("status", "", "only those that are so: pending, running, passed, failed or cancelled")
				complete(cmd, "status", "pending", "running", "passed", "failed", "cancelled")
				f := addListFlags(cmd, 50)
				return func(s *session, _ []string) error {
					return list(s, f, listing[apiclient.SelfCheck]{columns: a.selfCheckColumns(), fetch: func(p page) (apiclient.Answer, error) {
						return s.api.ListSelfChecksWithResponse(s.ctx, &apiclient.ListSelfChecksParams{
							Cursor: p.cursor, PageSize: p.size, Status: givenAs[apiclient.ListSelfChecksParamsStatus](s, "status", status),
						})
					}})
				}
			},
		}),
		a.verb(verb{
			use: "get ID", short: "Show a self-check and its steps", args: exactly("ID"), operations: []string{"get-self-check"},
			run: func(s *session, args []string) error {
				id, err := s.idOf("a self-check", args[0])
				if err != nil {
					return err
				}
				raw, err := apiclient.Read(s.api.GetSelfCheckWithResponse(s.ctx, id))
				if err != nil {
					return err
				}
				return s.showSelfCheck(raw)
			},
		}),
		a.verb(verb{
			use: "cancel ID", short: "Stop a self-check", args: exactly("ID"), operations: []string{"cancel-self-check"},
			flags: func(cmd *cobra.Command) action {
				reason := cmd.Flags().String("reason", "", "why; it goes into the audit log")
				return func(s *session, args []string) error {
					if err := s.require("reason"); err != nil {
						return err
					}
					id, err := s.idOf("a self-check", args[0])
					if err != nil {
						return err
					}
					return show(s, a.selfCheckColumns())(s.api.CancelSelfCheckWithResponse(s.ctx, id, &apiclient.CancelSelfCheckParams{},
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
			w := addWaitFlags(cmd)
			return func(s *session, _ []string) error { return s.runSelfCheck(*w) }
		},
	})
}

func (s *session) runSelfCheck(w waiting) error {
	raw, err := apiclient.Read(s.api.CreateSelfCheckWithResponse(s.ctx, &apiclient.CreateSelfCheckParams{}))
	if err != nil {
		return err
	}
	started, err := decode[apiclient.SelfCheck](raw)
	if err != nil {
		return err
	}
	if !w.wait && !w.watch {
		return s.showSelfCheck(raw)
	}
	id := started.value.Id
	ended, err := await(s, w, awaited[apiclient.SelfCheck]{
		what: "the self-check", seeIt: "gpuaas self-check get " + id.String(), report: s.progress,
		read:  func() (json.RawMessage, error) { return apiclient.Read(s.api.GetSelfCheckWithResponse(s.ctx, id)) },
		ended: func(c apiclient.SelfCheck) bool { return c.FinishedAt != nil },
	})
	if err != nil {
		return err
	}
	if !w.watch {
		if err := s.showSelfCheck(ended.raw); err != nil {
			return err
		}
	}
	if status := ended.value.Status; status != apiclient.SelfCheckStatusPassed {
		return fail(exitUnsuccessful, "self_check_"+string(status), "see its steps: gpuaas self-check get "+id.String(),
			"the self-check ended as %s", status)
	}
	return nil
}

// progress prints how a check stands, on one line.
func (s *session) progress(o object[apiclient.SelfCheck]) error {
	format, err := s.format()
	if err != nil {
		return err
	}
	if format != formatTable {
		return printLine(s.program.Out, format, o.raw)
	}
	parts := []string{string(o.value.Status)}
	if at := text(o.value.WaitingFor); at != "" {
		parts[0] += ", at " + at
	}
	for _, step := range o.value.Steps {
		outcome := "ok"
		if !step.Ok {
			outcome = or(text(step.Message), "failed")
		}
		parts = append(parts, string(step.Name)+": "+outcome)
	}
	return write(s.program.Out, harmless(strings.Join(parts, "; "))+"\n")
}

// showSelfCheck prints a check with its steps.
func (s *session) showSelfCheck(raw json.RawMessage) error {
	if err := printOne(s.app, s.selfCheckColumns(), raw); err != nil {
		return err
	}
	check, err := decode[apiclient.SelfCheck](raw)
	if err != nil {
		return err
	}
	return printPart(s, stepColumns(), check.value.Steps)
}
