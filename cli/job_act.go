package cli

import (
	"errors"
	"strings"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

// recovery is what an operator can do about a job.
type recovery struct {
	word, short, long, operation string
	call                         func(s *session, id types.UUID, reason string) (apiclient.Answer, error)
}

// actionWords are the actions of the API as commands call them, where they differ.
var actionWords = strings.NewReplacer(
	"mark_manual_intervention_required", "mark-manual-intervention", "adopt_observed_state", "adopt", "restart_clean",
	"restart-clean", "retry_stage", "retry",
)

// actionWord is an action of the API as its command is called.
func actionWord(action string) string { return actionWords.Replace(action) }

// inCommandWords makes a refusal name actions as commands are called.
func inCommandWords(err error) error {
	var p *apiclient.Problem
	if !errors.As(err, &p) || p.Code != "action_not_allowed" {
		return err
	}
	said := *p
	detail, remedy := actionWord(text(p.Detail)), actionWord(text(p.Remedy))
	said.Detail, said.Remedy = &detail, &remedy
	return &said
}

func recoveryCommand[T any](a *app, n jobNoun[T], r recovery) *cobra.Command {
	return a.verb(verb{
		use: r.word + " " + n.argument, short: r.short, args: frame.Exactly(n.argument), operations: []string{r.operation},
		long: prefixedLine(r.long) + "What it would do in the present state: gpuaas " + n.noun + " explain " + n.argument,
		flags: func(cmd *cobra.Command) action {
			reason := cmd.Flags().String("reason", "", "why; it goes into the audit log and the ledger")
			return func(s *session, args []string) error {
				if err := s.Require("reason"); err != nil {
					return err
				}
				id, err := n.resolve(s, args[0])
				if err != nil {
					return err
				}
				return inCommandWords(frame.Show(s.Session, n.columns)(r.call(s, id, *reason)))
			}
		},
	})
}

// prefixedLine is a line with its end, or nothing.
func prefixedLine(text string) string {
	if text == "" {
		return ""
	}
	return text + "\n"
}

// batchActionCommand is what is done to all jobs of a batch.
func batchActionCommand[T any](a *app, columns []table.Column[T], word, short, operation string,
	call func(s *session, id types.UUID, reason string) (apiclient.Answer, error),
) *cobra.Command {
	return a.verb(verb{
		use: word + " BATCH", short: short, args: frame.Exactly("BATCH"), operations: []string{operation},
		flags: func(cmd *cobra.Command) action {
			reason := cmd.Flags().String("reason", "", "why; it goes into the audit log")
			return func(s *session, args []string) error {
				if err := s.Require("reason"); err != nil {
					return err
				}
				id, err := s.IDOf("a batch", args[0])
				if err != nil {
					return err
				}
				return frame.Show(s.Session, columns)(call(s, id, *reason))
			}
		},
	})
}
