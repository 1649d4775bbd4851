package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/contract/apiclient"
)

func (a *app) onboardingColumns() []column[apiclient.OnboardingView] {
	type view = apiclient.OnboardingView
	return []column[view]{
		{title: "HOSTNAME", text: func(v view) string { return v.Hostname }},
		{title: "STATUS", text: func(v view) string { return string(v.Status) }},
		{title: "STAGE", text: stageOf},
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

func stageOf(v apiclient.OnboardingView) string {
	if v.StageNumber == 0 {
		return v.CurrentStage
	}
	return fmt.Sprintf("%d/%d %s", v.StageNumber, v.StageTotal, v.CurrentStage)
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

func (a *app) onboardingEventColumns() []column[apiclient.OnboardingEventView] {
	type event = apiclient.OnboardingEventView
	return []column[event]{
		{title: "TIME", text: func(v event) string { return v.OccurredAt.In(a.zone).Format("2006-01-02 15:04:05") }},
		{title: "STAGE", text: func(v event) string { return v.Stage }},
		{title: "ATTEMPT", text: func(v event) string { return strconv.FormatInt(v.Attempt, 10) }},
		{title: "STATUS", text: func(v event) string { return string(v.Status) }},
		{title: "MESSAGE", text: func(v event) string { return text(v.Message) }},
	}
}

func stageColumns() []column[apiclient.OnboardingStageView] {
	type stage = apiclient.OnboardingStageView
	return []column[stage]{
		{title: "#", text: func(v stage) string { return strconv.FormatInt(v.Number, 10) }},
		{title: "STAGE", text: func(v stage) string { return v.Name }},
		{title: "WAITS UNTIL", text: func(v stage) string { return v.Expects }},
		{title: "ATTEMPTS", text: func(v stage) string { return strconv.FormatInt(v.Attempts, 10) }},
		{title: "LIMIT", text: func(v stage) string { return text(v.Limit) }},
		{title: "RESUMES AT", text: func(v stage) string { return v.Resume }},
	}
}

func (a *app) onboardingCommand() *cobra.Command {
	commands := []*cobra.Command{
		a.onboardingListCommand(), a.onboardingShowCommand(), a.onboardingExplainCommand(), a.onboardingEventsCommand(), a.onboardingWatchCommand(),
		a.onboardingStagesCommand(), a.onboardingBatchCommand(),
	}
	for _, v := range recoveries() {
		commands = append(commands, a.recoveryCommand(v))
	}
	return a.noun(noun{
		use: "onboarding", short: "Servers on their way to becoming nodes", group: groupMachines,
		long: "Onboardings are named by id, or by the host name of the server: then the newest one is meant.\n" +
			"One that failed is parked and waits for you; gpuaas onboarding explain says why and what to do.",
	}, commands...)
}

func (a *app) onboardingStagesCommand() *cobra.Command {
	return a.verb(verb{
		use: "stages", short: "List the stages of an onboarding and what each waits for", operations: []string{"list-onboarding-stages"},
		run: func(s *session, _ []string) error {
			raws, err := s.stages()
			if err != nil {
				return err
			}
			return printList(s.app, stageColumns(), raws)
		},
	})
}

// stages are the stages of an onboarding, in their order.
func (s *session) stages() ([]json.RawMessage, error) {
	raws, _, err := collect(func(page) (apiclient.Answer, error) { return s.api.ListOnboardingStagesWithResponse(s.ctx) }, 0)
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

// onboardingVerb is a command about one onboarding and nothing else.
func onboardingVerb(do func(s *session, onboarding types.UUID) error) action {
	return func(s *session, args []string) error {
		id, err := s.onboardingID(args[0])
		if err != nil {
			return err
		}
		return do(s, id)
	}
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
		run: onboardingVerb(func(s *session, id types.UUID) error {
			raw, err := apiclient.Read(s.api.GetOnboardingWithResponse(s.ctx, id))
			if err != nil {
				return err
			}
			if err := printOne(s.app, a.onboardingColumns(), raw); err != nil {
				return err
			}
			v, err := decode[apiclient.OnboardingDetailView](raw)
			if err != nil {
				return err
			}
			if err := printPart(s, a.onboardingEventColumns(), v.value.Events); err != nil {
				return err
			}
			if v.value.Failure != nil {
				s.note("%s; see what to do: gpuaas onboarding explain %s", v.value.Failure.ErrorMessage, v.value.Hostname)
			}
			return nil
		}),
	})
}

func (a *app) onboardingExplainCommand() *cobra.Command {
	return a.verb(verb{
		use: "explain ONBOARDING", short: "Say why an onboarding stands where it does, and what to do", args: exactly("ONBOARDING"),
		operations: []string{"get-onboarding-explanation"},
		run: onboardingVerb(func(s *session, id types.UUID) error {
			raw, err := apiclient.Read(s.api.GetOnboardingExplanationWithResponse(s.ctx, id))
			if err != nil {
				return err
			}
			format, err := s.format()
			if err != nil {
				return err
			}
			if format != formatTable {
				return printRaw(s.program.Out, format, raw)
			}
			e, err := decode[apiclient.OnboardingExplanation](raw)
			if err != nil {
				return err
			}
			return write(s.program.Out, a.explanationText(e.value))
		}),
	})
}

// explanationText is an explanation for people.
func (a *app) explanationText(e apiclient.OnboardingExplanation) string {
	var b strings.Builder
	b.WriteString(harmless(e.Summary) + "\n\n")
	line := func(title, value string) {
		if value != "" {
			_, _ = fmt.Fprintf(&b, "%-14s %s\n", title, harmless(value)) // a builder takes everything
		}
	}
	line("expected", e.Expected)
	line("observed", e.Observed)
	line("seen so since", a.whenever(e.ObservedSince))
	if e.Expected == "" { // it waits for nothing any more
		line("ended", a.whenever(e.WaitingSince))
	} else {
		line("waiting since", a.whenever(e.WaitingSince))
	}
	if class := text(e.FailureClass); class != "" {
		line("failure", class+prefixed(", ", text(e.ErrorCode)))
	}
	line("likely cause", text(e.LikelyCause))
	line("remedy", text(e.Remedy))
	b.WriteString(actionsText(e))
	return b.String()
}

// actionsText lists what can be done. What goes on by itself needs nothing.
func actionsText(e apiclient.OnboardingExplanation) string {
	var b strings.Builder
	for _, action := range e.Actions {
		if !action.Legal || action.Rank == nil {
			continue
		}
		b.WriteString(harmless(fmt.Sprintf("  %d. %s", *action.Rank, action.Command)) + "\n")
		b.WriteString(harmless("     "+safetyText(string(action.Safety))+": "+action.Does) + "\n")
	}
	switch {
	case strings.HasPrefix(string(e.Status), "failed_"):
		return "\nwhat you can do, the best first:\n" + b.String()
	case e.Expected == "": // it has ended
		return ""
	case b.Len() == 0:
		return "\nnothing to do: it goes on by itself\n"
	case text(e.Remedy) != "":
		return "\nwhat you can do besides:\n" + b.String()
	}
	return "\nnothing to do: it goes on by itself\n\nwhat you can do if it must not:\n" + b.String()
}

// safetyText is a safety class for people.
func safetyText(class string) string {
	switch class {
	case "destroys_data":
		return "DESTROYS DATA"
	case "needs_care":
		return "needs care"
	}
	return class
}

func (a *app) onboardingEventsCommand() *cobra.Command {
	return a.verb(verb{
		use: "events ONBOARDING", short: "Show everything that happened in an onboarding, oldest first", args: exactly("ONBOARDING"),
		operations: []string{"list-onboarding-events"},
		flags: func(cmd *cobra.Command) action {
			f := addListFlags(cmd, 0)
			return onboardingVerb(func(s *session, id types.UUID) error {
				return list(s, f, listing[apiclient.OnboardingEventView]{columns: a.onboardingEventColumns(), fetch: func(p page) (apiclient.Answer, error) {
					return s.api.ListOnboardingEventsWithResponse(s.ctx, id, &apiclient.ListOnboardingEventsParams{Cursor: p.cursor, PageSize: p.size})
				}})
			})
		},
	})
}
