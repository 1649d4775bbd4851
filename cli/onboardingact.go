package cli

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/contract/apiclient"
)

// recovery is what an operator can do about an onboarding.
type recovery struct {
	word, short, long, operation string
	call                         func(ctx context.Context, api *apiclient.ClientWithResponses, id types.UUID, body apiclient.OnboardingActionBody) (apiclient.Answer, error)
}

const seeFirst = "What it would do in the present state: gpuaas onboarding explain ONBOARDING"

func recoveries() []recovery {
	type client = *apiclient.ClientWithResponses
	type reason = apiclient.OnboardingActionBody
	return []recovery{
		{
			"retry", "Run the failed stage again, and nothing else", seeFirst, "retry-onboarding",
			func(ctx context.Context, api client, id types.UUID, body reason) (apiclient.Answer, error) {
				return api.RetryOnboardingWithResponse(ctx, id, &apiclient.RetryOnboardingParams{}, body)
			},
		},
		{
			"resume", "Go on from the last safe checkpoint", "Best after something outside was put right.\n" + seeFirst, "resume-onboarding",
			func(ctx context.Context, api client, id types.UUID, body reason) (apiclient.Answer, error) {
				return api.ResumeOnboardingWithResponse(ctx, id, &apiclient.ResumeOnboardingParams{}, body)
			},
		},
		{
			"rerun", "Go through all stages again; what is done already is left as it is", seeFirst, "rerun-onboarding",
			func(ctx context.Context, api client, id types.UUID, body reason) (apiclient.Answer, error) {
				return api.RerunOnboardingWithResponse(ctx, id, &apiclient.RerunOnboardingParams{}, body)
			},
		},
		{
			"restart-clean", "Undo everything, then begin again; DESTROYS what is on a deployed machine",
			"Releases the machine in MAAS, even one that is deployed: DESTROYS ALL DATA on it.\n" + seeFirst, "restart-onboarding-clean",
			func(ctx context.Context, api client, id types.UUID, body reason) (apiclient.Answer, error) {
				return api.RestartOnboardingCleanWithResponse(ctx, id, &apiclient.RestartOnboardingCleanParams{}, body)
			},
		},
		{
			"cancel", "Stop, and undo what can be undone",
			"A machine that is not deployed yet is released; one that is deployed is left alone and its node is quarantined.\n" + seeFirst, "cancel-onboarding",
			func(ctx context.Context, api client, id types.UUID, body reason) (apiclient.Answer, error) {
				return api.CancelOnboardingWithResponse(ctx, id, &apiclient.CancelOnboardingParams{}, body)
			},
		},
		{
			"adopt", "Accept what MAAS shows now, and go on from there", "For a machine that was brought further by hand, or that succeeded late.\n" + seeFirst, "adopt-onboarding",
			func(ctx context.Context, api client, id types.UUID, body reason) (apiclient.Answer, error) {
				return api.AdoptOnboardingWithResponse(ctx, id, &apiclient.AdoptOnboardingParams{}, body)
			},
		},
		{
			"mark-manual-intervention", "Stop automation until somebody decides", seeFirst, "mark-onboarding-manual",
			func(ctx context.Context, api client, id types.UUID, body reason) (apiclient.Answer, error) {
				return api.MarkOnboardingManualWithResponse(ctx, id, &apiclient.MarkOnboardingManualParams{}, body)
			},
		},
	}
}

// actionWords are the actions of the API as commands call them, where they differ.
var actionWords = strings.NewReplacer(
	"mark_manual_intervention_required", "mark-manual-intervention", "adopt_observed_state", "adopt", "restart_clean", "restart-clean", "retry_stage", "retry",
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

func (a *app) recoveryCommand(r recovery) *cobra.Command {
	return a.verb(verb{
		use: r.word + " ONBOARDING", short: r.short, long: r.long, args: exactly("ONBOARDING"), operations: []string{r.operation},
		flags: func(cmd *cobra.Command) action {
			reason := cmd.Flags().String("reason", "", "why; it goes into the audit log and the ledger")
			return func(s *session, args []string) error {
				if err := s.require("reason"); err != nil {
					return err
				}
				id, err := s.onboardingID(args[0])
				if err != nil {
					return err
				}
				return inCommandWords(show(s, a.onboardingColumns())(r.call(s.ctx, s.api, id, apiclient.OnboardingActionBody{Reason: *reason})))
			}
		},
	})
}

func (a *app) batchColumns() []column[apiclient.OnboardingBatchView] {
	type batch = apiclient.OnboardingBatchView
	count := func(n int64) string { return strconv.FormatInt(n, 10) }
	return []column[batch]{
		{title: "BATCH", text: func(v batch) string { return v.BatchId.String() }},
		{title: "STATE", text: func(v batch) string { return string(v.State) }},
		{title: "MACHINES", text: func(v batch) string { return count(v.Total) }},
		{title: "SUCCEEDED", text: func(v batch) string { return count(v.Succeeded) }},
		{title: "PARKED", text: func(v batch) string { return count(v.Failed) }},
		{title: "RUNNING", text: func(v batch) string { return count(v.Counts.Running + v.Counts.Compensating) }},
		{title: "PENDING", text: func(v batch) string { return count(v.Counts.Pending) }},
		{title: "CANCELLED", text: func(v batch) string { return count(v.Counts.Cancelled) }},
		{title: "REQUESTED", text: func(v batch) string { return a.when(v.RequestedAt) }},
		{title: "SITE", text: func(v batch) string { return v.SiteId.String() }, detail: true},
		{title: "SKU", text: func(v batch) string { return v.SkuId }, detail: true},
		{title: "REQUESTED BY", text: func(v batch) string { return v.RequestedBy }, detail: true},
		{title: "PAUSED", text: func(v batch) string { return a.whenever(v.PausedAt) }, detail: true},
		{title: "CANCELLED AT", text: func(v batch) string { return a.whenever(v.CancelledAt) }, detail: true},
	}
}

func (a *app) onboardingBatchCommand() *cobra.Command {
	type params = apiclient.OnboardingActionBody
	return a.noun(noun{use: "batch", short: "Servers that are onboarded together"},
		a.verb(verb{
			use: "list", short: "List batches, newest first", aliases: []string{"ls"}, operations: []string{"list-onboarding-batches"},
			flags: func(cmd *cobra.Command) action {
				f := addListFlags(cmd, 50)
				return func(s *session, _ []string) error {
					return list(s, f, listing[apiclient.OnboardingBatchView]{columns: a.batchColumns(), fetch: func(p page) (apiclient.Answer, error) {
						return s.api.ListOnboardingBatchesWithResponse(s.ctx, &apiclient.ListOnboardingBatchesParams{Cursor: p.cursor, PageSize: p.size})
					}})
				}
			},
		}),
		a.verb(verb{
			use: "show BATCH", short: "Show how many servers of a batch stand how", aliases: []string{"get"}, args: exactly("BATCH"),
			operations: []string{"get-onboarding-batch"},
			run: func(s *session, args []string) error {
				id, err := s.idOf("a batch", args[0])
				if err != nil {
					return err
				}
				if err := show(s, a.batchColumns())(s.api.GetOnboardingBatchWithResponse(s.ctx, id)); err != nil {
					return err
				}
				s.note("its machines: gpuaas onboarding list --batch %s", id)
				return nil
			},
		}),
		a.batchActionCommand("pause", "Begin no further server of a batch; those that run go on", func(s *session, id types.UUID, b params) (apiclient.Answer, error) {
			return s.api.PauseOnboardingBatchWithResponse(s.ctx, id, &apiclient.PauseOnboardingBatchParams{}, b)
		}),
		a.batchActionCommand("resume", "Go on with a batch that was paused", func(s *session, id types.UUID, b params) (apiclient.Answer, error) {
			return s.api.ResumeOnboardingBatchWithResponse(s.ctx, id, &apiclient.ResumeOnboardingBatchParams{}, b)
		}),
		a.batchActionCommand("cancel", "Stop all servers of a batch and undo what can be undone", func(s *session, id types.UUID, b params) (apiclient.Answer, error) {
			return s.api.CancelOnboardingBatchWithResponse(s.ctx, id, &apiclient.CancelOnboardingBatchParams{}, b)
		}),
	)
}

func (a *app) batchActionCommand(word, short string, call func(s *session, id types.UUID, body apiclient.OnboardingActionBody) (apiclient.Answer, error)) *cobra.Command {
	return a.verb(verb{
		use: word + " BATCH", short: short, args: exactly("BATCH"), operations: []string{word + "-onboarding-batch"},
		flags: func(cmd *cobra.Command) action {
			reason := cmd.Flags().String("reason", "", "why; it goes into the audit log")
			return func(s *session, args []string) error {
				if err := s.require("reason"); err != nil {
					return err
				}
				id, err := s.idOf("a batch", args[0])
				if err != nil {
					return err
				}
				return show(s, a.batchColumns())(call(s, id, apiclient.OnboardingActionBody{Reason: *reason}))
			}
		},
	})
}
