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

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/moment"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

func (a *app) onboardingColumns() []table.Column[apiclient.OnboardingView] {
	type view = apiclient.OnboardingView
	return []table.Column[view]{
		{Title: "HOSTNAME", Text: func(v view) string { return v.Hostname }},
		{Title: "STATUS", Text: func(v view) string { return string(v.Status) }},
		{Title: "STAGE", Text: func(v view) string { return placeOf(v.StageNumber, v.StageTotal, v.CurrentStage) }},
		{Title: "FAILURE", Long: true, Text: func(v view) string { return failureCode(v.Failure) }},
		{Title: "NEXT", Long: true, Text: func(v view) string { return actionWord(text(v.RecommendedAction)) }},
		ago(a, "REQUESTED", func(v view) time.Time { return v.RequestedAt }),
		{Title: "ID", Wide: true, Text: func(v view) string { return v.OnboardingId.String() }},
		{Title: "BATCH", Text: func(v view) string { return idText(v.BatchId) }, Detail: true},
		{Title: "SITE", Text: func(v view) string { return v.SiteId.String() }, Detail: true},
		{Title: "SKU", Text: func(v view) string { return v.SkuId }, Detail: true},
		{Title: "BMC", Text: func(v view) string { return v.IpmiIp }, Detail: true},
		{Title: "IN MAAS", Text: func(v view) string { return text(v.MaasSystemId) }, Detail: true},
		{Title: "NODE", Text: func(v view) string { return v.NodeId.String() }, Detail: true},
		{Title: "INITIALIZES DISKS", Text: func(v view) string { return yesNo(v.InitializeDisks) }, Detail: true},
		{Title: "ATTEMPT", Text: func(v view) string { return strconv.FormatInt(v.CurrentAttempt, 10) }, Detail: true},
		{Title: "PENDING ACTION", Text: func(v view) string { return actionWord(text(v.PendingAction)) }, Detail: true},
		{Title: "MAAS SHOWS", Text: func(v view) string { return text(v.Observed.MaasStatus) }, Detail: true},
		{Title: "SINCE", Text: func(v view) string { return a.Whenever(v.Observed.Since) }, Detail: true},
		{Title: "STARTED", Text: func(v view) string { return a.Whenever(v.StartedAt) }, Detail: true},
		{Title: "PARKED", Text: func(v view) string { return a.Whenever(v.ParkedAt) }, Detail: true},
		{Title: "ENDED", Text: func(v view) string { return a.Whenever(v.CompletedAt) }, Detail: true},
		{Title: "WORKFLOW", Text: func(v view) string { return v.WorkflowId }, Detail: true},
		{Title: "CORRELATION ID", Text: func(v view) string { return v.CorrelationId }, Detail: true},
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

func stageColumns() []table.Column[apiclient.OnboardingStageView] {
	type stage = apiclient.OnboardingStageView
	return []table.Column[stage]{
		{Title: "#", Text: func(v stage) string { return strconv.FormatInt(v.Number, 10) }},
		{Title: "STAGE", Text: func(v stage) string { return v.Name }},
		{Title: "WAITS UNTIL", Long: true, Text: func(v stage) string { return v.Expects }},
		{Title: "ATTEMPTS", Text: func(v stage) string { return strconv.FormatInt(v.Attempts, 10) }},
		{Title: "TYPICALLY", Text: func(v stage) string { return typically(v.TypicalSeconds) }},
		{Title: "LIMIT", Text: func(v stage) string { return text(v.Limit) }},
		{Title: "RESUMES AT", Text: func(v stage) string { return v.Resume }},
	}
}

func (a *app) onboardingCommand() *cobra.Command {
	jobs := a.onboardingNoun()
	commands := []*cobra.Command{
		a.onboardingListCommand(), a.onboardingShowCommand(), a.onboardingEventsCommand(), a.onboardingWatchCommand(),
		a.onboardingStagesCommand(), a.batchCommand(onboardingBatches()),
		explainCommand(a, jobs, verb{
			short:      "Say why an onboarding stands where it does, and what to do",
			operations: []string{"get-onboarding-explanation"},
		}, func(s *session, id types.UUID) (apiclient.Answer, error) {
			return s.API.GetOnboardingExplanationWithResponse(s.Ctx, id)
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
		use: "stages", short: "List the stages of an onboarding, what each waits for and how long that takes",
		operations: []string{"list-onboarding-stages"},
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
				return frame.PrintList(s.App, stageColumns(), raws)
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
	return moment.Whole(took.Round(time.Second))
}

func (a *app) onboardingNoun() jobNoun[apiclient.OnboardingView] {
	return jobNoun[apiclient.OnboardingView]{
		noun: "onboarding", argument: "ONBOARDING", columns: a.onboardingColumns(),
		resolve: (*session).onboardingID,
		many: manyJobs{
			operation: "act-on-onboardings", get: "get-onboarding", kind: onboardings,
			call: func(s *session, body apiclient.JobManyBody) (apiclient.Answer, error) {
				return s.API.ActOnOnboardingsWithResponse(s.Ctx, &apiclient.ActOnOnboardingsParams{}, body)
			},
		},
	}
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
			rows, err := output.DecodeAll[plannedStage](raws)
			stages := make([]plannedStage, len(rows))
			for i, r := range rows {
				stages[i] = r.Value
			}
			return map[string]stagePlan{"": planOf(stages)}, err
		},
		get: func(s *session, id types.UUID) (apiclient.Answer, error) {
			return s.API.GetOnboardingWithResponse(s.Ctx, id)
		},
		list: func(s *session, q jobQuery) (apiclient.Answer, error) {
			return s.API.ListOnboardingsWithResponse(s.Ctx,
				&apiclient.ListOnboardingsParams{Cursor: q.Cursor, PageSize: q.Size, BatchId: q.batch, Status: q.status})
		},
		stream: func(ctx context.Context, s *session, q jobQuery, edit apiclient.RequestEditorFn) (*http.Response, error) {
			return s.API.StreamOnboardings(ctx, &apiclient.StreamOnboardingsParams{
				LastEventID: q.after, BatchId: q.batch,
				OnboardingId: q.job,
			}, edit)
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
	raws, _, err := listing.Collect(func(listing.Page) (apiclient.Answer, error) {
		return s.API.ListOnboardingStagesWithResponse(s.Ctx, &apiclient.ListOnboardingStagesParams{SiteId: at})
	}, 0)
	return raws, err
}

// onboardingID resolves an onboarding named by id or by the host name of its machine, of
// which the newest is meant.
func (s *session) onboardingID(name string) (types.UUID, error) {
	if id, ok := frame.ParseID(name); ok {
		return id, nil
	}
	hostname := strings.ToLower(name)
	v, ok, err := listing.Find(func(p listing.Page) (apiclient.Answer, error) {
		return s.API.ListOnboardingsWithResponse(s.Ctx,
			&apiclient.ListOnboardingsParams{Cursor: p.Cursor, PageSize: p.Size, Hostname: &hostname})
	}, func(v apiclient.OnboardingView) bool { return v.Hostname == hostname })
	if err == nil && !ok {
		err = failure.Missing("list them: gpuaas onboarding list", "no server %q was ever onboarded", name)
	}
	return v.OnboardingId, err
}

func (a *app) onboardingListCommand() *cobra.Command {
	return a.verb(verb{
		use: "list", short: "List onboardings, newest first", aliases: []string{"ls"},
		operations: []string{"list-onboardings"},
		flags: func(cmd *cobra.Command) action {
			f := cmd.Flags()
			status := f.StringSlice("status", nil,
				"only those of this status; may be repeated; failed for all that need an operator")
			hostname := f.String("hostname", "", "only servers whose name starts with this")
			site := f.String("site", "", "only those of this site, by name or id")
			batch := f.String("batch", "", "only those of this batch, by id")
			// failed: parked, one way or the other
			frame.Complete(cmd, "status", append([]string{"failed"}, apiclient.JobStates...)...)
			l := listing.AddFlags(cmd, 50)
			return func(s *session, _ []string) error {
				params := apiclient.ListOnboardingsParams{
					Status:   frame.Given(s.Session, "status", status),
					Hostname: frame.Given(s.Session, "hostname", hostname),
				}
				var err error
				if params.SiteId, err = optionalID(*site, s.siteID); err != nil {
					return err
				}
				if params.BatchId, err = optionalID(*batch,
					func(b string) (types.UUID, error) { return s.IDOf("a batch", b) }); err != nil {
					return err
				}
				return listing.Print(s.Session, l, listing.Listing[apiclient.OnboardingView]{
					Columns: a.onboardingColumns(),
					Fetch: func(p listing.Page) (apiclient.Answer, error) {
						params.Cursor, params.PageSize = p.Cursor, p.Size
						return s.API.ListOnboardingsWithResponse(s.Ctx, &params)
					},
				})
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
		use: "show ONBOARDING", short: "Show an onboarding and its newest events", aliases: []string{"get"},
		args:       frame.Exactly("ONBOARDING"),
		operations: []string{"get-onboarding"},
		run: a.onboardingNoun().about(func(s *session, id types.UUID) error {
			raw, err := apiclient.Read(s.API.GetOnboardingWithResponse(s.Ctx, id))
			if err != nil {
				return err
			}
			if err := frame.PrintOne(s.App, a.onboardingColumns(), raw); err != nil {
				return err
			}
			v, err := output.Decode[jobDetail](raw)
			if err != nil {
				return err
			}
			if err := frame.PrintPart(s.Session, a.ledgerColumns(), v.Value.Events); err != nil {
				return err
			}
			if v.Value.Failure != nil {
				s.Note("%s; see what to do: gpuaas onboarding explain %s", v.Value.Failure.ErrorMessage, v.Value.Hostname)
			}
			return nil
		}),
	})
}

func (a *app) onboardingEventsCommand() *cobra.Command {
	return a.verb(verb{
		use: "events ONBOARDING", short: "Show everything that happened in an onboarding, oldest first",
		args:       frame.Exactly("ONBOARDING"),
		operations: []string{"list-onboarding-events"},
		flags: func(cmd *cobra.Command) action {
			f := listing.AddFlags(cmd, 0)
			return a.onboardingNoun().about(func(s *session, id types.UUID) error {
				return listing.Print(s.Session, f, listing.Listing[ledgerEntry]{
					Columns: a.ledgerColumns(),
					Fetch: func(p listing.Page) (apiclient.Answer, error) {
						return s.API.ListOnboardingEventsWithResponse(s.Ctx, id,
							&apiclient.ListOnboardingEventsParams{Cursor: p.Cursor, PageSize: p.Size})
					},
				})
			})
		},
	})
}
