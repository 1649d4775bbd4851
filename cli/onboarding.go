package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/contract/apiclient"
)

func (a *app) onboardingColumns() []column[apiclient.OnboardingView] {
	type view = apiclient.OnboardingView
	return []column[view]{
		{title: "HOSTNAME", text: func(v view) string { return v.Hostname }},
		{title: "STATUS", text: func(v view) string { return string(v.Status) }},
		{title: "STAGE", text: func(v view) string { return placeOf(v.StageNumber, v.StageTotal, v.CurrentStage) }},
		{title: "FAILURE", text: func(v view) string { return failureCode(v.Failure) }},
		{title: "NEXT", text: func(v view) string { return actionWord(text(v.RecommendedAction)) }},
		{title: "REQUESTED", text: func(v view) string { return a.when(v.RequestedAt) }},
		{title: "ID", text: func(v view) string { return v.OnboardingId.String() }},
		{title: "BATCH", text: func(v view) string { return idText(v.BatchId) }, detail: true},
		{title: "SITE", text: func(v view) string { return v.SiteId.String() }, detail: true},
		{title: "SKU", text: func(v view) string { return v.SkuId }, detail: true},
		{title: "BMC", text: func(v view) string { return v.IpmiIp }, detail: true},
		{title: "IN MAAS", text: func(v view) string { return text(v.MaasSystemId) }, detail: true},
		{title: "NODE", text: func(v view) string { return v.NodeId.String() }, detail: true},
		{title: "INITIALIZES DISKS", text: func(v view) string { return yesNo(v.InitializeDisks) }, detail: true},
		{title: "ATTEMPT", text: func(v view) string { return strconv.FormatInt(v.CurrentAttempt, 10) }, detail: true},
		{title: "PENDING ACTION", text: func(v view) string { return actionWord(text(v.PendingAction)) }, detail: true},
		{title: "MAAS SHOWS", text: func(v view) string { return text(v.Observed.MaasStatus) }, detail: true},
		{title: "SINCE", text: func(v view) string { return a.whenever(v.Observed.Since) }, detail: true},
		{title: "STARTED", text: func(v view) string { return a.whenever(v.StartedAt) }, detail: true},
		{title: "PARKED", text: func(v view) string { return a.whenever(v.ParkedAt) }, detail: true},
		{title: "ENDED", text: func(v view) string { return a.whenever(v.CompletedAt) }, detail: true},
		{title: "WORKFLOW", text: func(v view) string { return v.WorkflowId }, detail: true},
		{title: "CORRELATION ID", text: func(v view) string { return v.CorrelationId }, detail: true},
	}
}

func failureCode(f *apiclient.OnboardingFailureView) string {
	if f == nil {
		return ""
	}
	return f.ErrorCode
}

func idText(id *types.UUID) string {
	if id == nil {
		return ""
	}
	return id.String()
}

func stageColumns() []column[apiclient.OnboardingStageView] {
	type stage = apiclient.OnboardingStageView
	return []column[stage]{
		{title: "#", text: func(v stage) string { return strconv.FormatInt(v.Number, 10) }},
		{title: "STAGE", text: func(v stage) string { return v.Name }},
		{title: "WAITS UNTIL", text: func(v stage) string { return v.Expects }},
		{title: "ATTEMPTS", text: func(v stage) string { return strconv.FormatInt(v.Attempts, 10) }},
		{title: "TYPICALLY", text: func(v stage) string { return typically(v.TypicalSeconds) }},
		{title: "LIMIT", text: func(v stage) string { return text(v.Limit) }},
		{title: "RESUMES AT", text: func(v stage) string { return v.Resume }},
	}
}

func (a *app) onboardingCommand() *cobra.Command {
	jobs := a.onboardingNoun()
	commands := []*cobra.Command{
		a.onboardingListCommand(), a.onboardingShowCommand(), a.onboardingEventsCommand(), a.onboardingWatchCommand(), a.onboardingStagesCommand(), a.onboardingBatchCommand(),
		explainCommand(a, jobs, verb{
			short: "Say why an onboarding stands where it does, and what to do", operations: []string{"get-onboarding-explanation"},
		}, func(s *session, id types.UUID) (apiclient.Answer, error) {
			return s.api.GetOnboardingExplanationWithResponse(s.ctx, id)
		}),
	}
	for _, v := range recoveries() {
		commands = append(commands, recoveryCommand(a, jobs, v))
	}
	return a.noun(noun{
		use: "onboarding", short: "Servers on their way to becoming nodes", group: groupMachines,
		long: "Onboardings are named by id, or by the host name of the server: then the newest one is meant.\n" +
			"One that failed is parked and waits for you; gpuaas onboarding explain says why and what to do.",
	}, commands...)
}

func (a *app) onboardingStagesCommand() *cobra.Command {
	return a.verb(verb{
		use: "stages", short: "List the stages of an onboarding, what each waits for and how long that takes", operations: []string{"list-onboarding-stages"},
		flags: func(cmd *cobra.Command) action {
			site := addStagesSite(cmd)
			return func(s *session, _ []string) error {
				at, err := optionalID(*site, s.siteID)
				if err != nil {
					return err
				}
				raws, err := s.stages(at)
				if err != nil {
					return err
				}
				return printList(s.app, stageColumns(), raws)
			}
		},
	})
}

// addStagesSite is the site at which stages take as long as is said.
func addStagesSite(cmd *cobra.Command) *string {
	return cmd.Flags().String("site", "", "how long stages take at this site, by name or id, rather than at all")
}

// typically is how long a stage takes; nothing: none has gone through it.
func typically(seconds *float64) string {
	if seconds == nil {
		return ""
	}
	took := time.Duration(*seconds * float64(time.Second))
	if took < time.Second {
		return "<1s"
	}
	return took.Round(time.Second).String()
}

func (a *app) onboardingNoun() jobNoun[apiclient.OnboardingView] {
	return jobNoun[apiclient.OnboardingView]{noun: "onboarding", argument: "ONBOARDING", columns: a.onboardingColumns(), resolve: (*session).onboardingID}
}

// onboardings is how onboardings are watched.
func onboardings() *jobKind {
	return &jobKind{
		noun: "onboarding", idle: "nothing is being onboarded",
		reached: func(n int) string { return plural(n, "machine") + " became " + plural(n, "node") },
		plans: func(s *session) (map[string]stagePlan, error) {
			raws, err := s.stages(nil)
			if err != nil {
				return nil, err
			}
			rows, err := decodeAll[plannedStage](raws)
			stages := make([]plannedStage, len(rows))
			for i, r := range rows {
				stages[i] = r.value
			}
			return map[string]stagePlan{"": planOf(stages)}, err
		},
		get: func(s *session, id types.UUID) (apiclient.Answer, error) {
			return s.api.GetOnboardingWithResponse(s.ctx, id)
		},
		list: func(s *session, q jobQuery) (apiclient.Answer, error) {
			return s.api.ListOnboardingsWithResponse(s.ctx, &apiclient.ListOnboardingsParams{Cursor: q.cursor, PageSize: q.size, BatchId: q.batch, Status: q.status})
		},
		stream: func(ctx context.Context, s *session, q jobQuery, edit apiclient.RequestEditorFn) (*http.Response, error) {
			return s.api.StreamOnboardings(ctx, &apiclient.StreamOnboardingsParams{LastEventID: q.after, BatchId: q.batch, OnboardingId: q.job}, edit)
		},
	}
}

func (a *app) onboardingWatchCommand() *cobra.Command {
	return a.watchCommand(onboardings(), verb{
		short:      "Show live how onboardings are getting on",
		operations: []string{"get-onboarding", "list-onboardings", "stream-onboardings", "list-onboarding-stages"},
		long: "Follows one onboarding, those of a batch, or all that are in progress, and returns when all of them\n" +
			"have ended or need an operator: exit code 0 when all became nodes, otherwise 8; 130 when it was ended\n" +
			"with Ctrl-C before, which stops nothing but the watching. With -o json it prints each event on a line,\n" +
			"then how the onboardings stand, as gpuaas onboarding show or list print it.",
	}, (*session).onboardingID)
}

// stages are the stages of an onboarding, in their order, and how long they take
// at a site; nil: at all.
func (s *session) stages(at *types.UUID) ([]json.RawMessage, error) {
	raws, _, err := collect(func(page) (apiclient.Answer, error) {
		return s.api.ListOnboardingStagesWithResponse(s.ctx, &apiclient.ListOnboardingStagesParams{SiteId: at})
	}, 0)
	return raws, err
}

// onboardingID resolves an onboarding named by id or by the host name of its machine, of
// which the newest is meant.
func (s *session) onboardingID(name string) (types.UUID, error) {
	if id, ok := parseID(name); ok {
		return id, nil
	}
	hostname := strings.ToLower(name)
	v, ok, err := find(func(p page) (apiclient.Answer, error) {
		return s.api.ListOnboardingsWithResponse(s.ctx, &apiclient.ListOnboardingsParams{Cursor: p.cursor, PageSize: p.size, Hostname: &hostname})
	}, func(v apiclient.OnboardingView) bool { return v.Hostname == hostname })
	if err == nil && !ok {
		err = notFound("see which there are: gpuaas onboarding list", "no server %q was ever onboarded", name)
	}
	return v.OnboardingId, err
}

func (a *app) onboardingListCommand() *cobra.Command {
	return a.verb(verb{
		use: "list", short: "List onboardings, newest first", aliases: []string{"ls"}, operations: []string{"list-onboardings"},
		flags: func(cmd *cobra.Command) action {
			f := cmd.Flags()
			status := f.StringSlice("status", nil, "only those of this status; may be repeated; failed for all that need an operator")
			hostname := f.String("hostname", "", "only servers whose name starts so")
			site := f.String("site", "", "only those of this site, by name or id")
			batch := f.String("batch", "", "only those of this batch, by id")
			complete(cmd, "status", "pending", "running", "completed", "failed", "failed_retryable", "failed_manual_intervention", "cancelled", "compensating", "reconciled")
			l := addListFlags(cmd, 50)
			return func(s *session, _ []string) error {
				params := apiclient.ListOnboardingsParams{Status: given(s, "status", status), Hostname: given(s, "hostname", hostname)}
				var err error
				if params.SiteId, err = optionalID(*site, s.siteID); err != nil {
					return err
				}
				if params.BatchId, err = optionalID(*batch, func(b string) (types.UUID, error) { return s.idOf("a batch", b) }); err != nil {
					return err
				}
				return list(s, l, listing[apiclient.OnboardingView]{columns: a.onboardingColumns(), fetch: func(p page) (apiclient.Answer, error) {
					params.Cursor, params.PageSize = p.cursor, p.size
					return s.api.ListOnboardingsWithResponse(s.ctx, &params)
				}})
			}
		},
	})
}

// optionalID resolves a name unless there is none.
func optionalID(name string, resolve func(string) (types.UUID, error)) (*types.UUID, error) {
	if name == "" {
		return nil, nil
	}
	id, err := resolve(name)
	return &id, err
}

func (a *app) onboardingShowCommand() *cobra.Command {
	return a.verb(verb{
		use: "show ONBOARDING", short: "Show an onboarding and its newest events", aliases: []string{"get"}, args: exactly("ONBOARDING"),
		operations: []string{"get-onboarding"},
		run: a.onboardingNoun().about(func(s *session, id types.UUID) error {
			raw, err := apiclient.Read(s.api.GetOnboardingWithResponse(s.ctx, id))
			if err != nil {
				return err
			}
			if err := printOne(s.app, a.onboardingColumns(), raw); err != nil {
				return err
			}
			v, err := decode[jobDetail](raw)
			if err != nil {
				return err
			}
			if err := printPart(s, a.ledgerColumns(), v.value.Events); err != nil {
				return err
			}
			if v.value.Failure != nil {
				s.note("%s; see what to do: gpuaas onboarding explain %s", v.value.Failure.ErrorMessage, v.value.Hostname)
			}
			return nil
		}),
	})
}

func (a *app) onboardingEventsCommand() *cobra.Command {
	return a.verb(verb{
		use: "events ONBOARDING", short: "Show everything that happened in an onboarding, oldest first", args: exactly("ONBOARDING"),
		operations: []string{"list-onboarding-events"},
		flags: func(cmd *cobra.Command) action {
			f := addListFlags(cmd, 0)
			return a.onboardingNoun().about(func(s *session, id types.UUID) error {
				return list(s, f, listing[ledgerEntry]{columns: a.ledgerColumns(), fetch: func(p page) (apiclient.Answer, error) {
					return s.api.ListOnboardingEventsWithResponse(s.ctx, id, &apiclient.ListOnboardingEventsParams{Cursor: p.cursor, PageSize: p.size})
				}})
			})
		},
	})
}
