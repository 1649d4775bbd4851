package cli

import (
	"errors"
	"strings"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/frame"
	"gpuaas/contract/apiclient"
)

// recovery is what an operator can do about a job.
type recovery struct {
	word, short, long, operation string
	action                       apiclient.JobManyBodyAction // as the API names it
	call                         func(s *session, id types.UUID, reason string) (apiclient.Answer, error)
}

// destroys says whether an action may destroy data, as its help says.
func (r recovery) destroys() bool { return strings.Contains(r.short, "DESTROYS") }

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

// recoveryCommand is an action on one job, or on many at once.
func recoveryCommand[T any](a *app, n jobNoun[T], r recovery) *cobra.Command {
	return a.verb(verb{
		use: r.word + " [" + n.argument + "...]", short: r.short, args: cobra.ArbitraryArgs,
		operations: []string{r.operation, n.many.operation, n.many.get},
		long: prefixedLine(r.long) + "What it would do in the present state: gpuaas " + n.noun + " explain " +
			n.argument + "\n\nName several, or choose the parked ones of a batch with --batch and optionally --stage, --class and --code. The\n" +
			"command lists them, asks you to confirm, and sends one request. Jobs that somebody acted on meanwhile are left\n" +
			"alone. The answer shows the result for each; the exit code is 6 if one was refused.",
		example: "  gpuaas " + n.noun + " " + r.word + " c07u43 --reason 'cable replaced'\n" +
			"  gpuaas " + n.noun + " " + r.word + " --batch BATCH --stage STAGE --code CODE --reason 'switch replaced'",
		flags: func(cmd *cobra.Command) action {
			reason := cmd.Flags().String("reason", "", "the reason, kept in the audit log and the ledger")
			which := addManyFlags(cmd)
			return func(s *session, args []string) error {
				if err := s.Require("reason"); err != nil {
					return err
				}
				if err := which.misused(s, n.argument, args); err != nil {
					return err
				}
				if len(args) != 1 {
					return actOnMany(s, n, r, args, which, *reason)
				}
				id, err := n.resolve(s, args[0])
				if err != nil {
					return err
				}
				if r.destroys() {
					if err := s.Confirm(*which.yes, "%s of %s: %s. %s", r.word, args[0], r.short, r.long); err != nil {
						return err
					}
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
