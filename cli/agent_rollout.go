package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

func (a *app) rolloutColumns() []table.Column[apiclient.RolloutView] {
	type rollout = apiclient.RolloutView
	return []table.Column[rollout]{
		{Title: "ROLLOUT", Text: func(v rollout) string { return v.RolloutId.String() }},
		{Title: "VERSION", Text: func(v rollout) string { return v.Version }},
		{Title: "STATUS", Text: func(v rollout) string { return string(v.Status) }},
		{Title: "WAVE", Text: func(v rollout) string { return fmt.Sprintf("%d of %d", v.Wave, v.Waves-1) }},
		{Title: "NODES", Long: true, Text: func(v rollout) string { return outcomesOf(v.Counts) }},
		ago(a, "BEGAN", func(v rollout) time.Time { return v.CreatedAt }),
		{Title: "BECAUSE", Long: true, Text: func(v rollout) string { return v.PausedBecause }},
		{Title: "OPENS", Text: func(v rollout) string { return a.Whenever(v.OpensAt) }, Detail: true},
		{Title: "BY", Text: func(v rollout) string { return v.RequestedBy }, Detail: true},
		{Title: "REASON", Text: func(v rollout) string { return v.Reason }, Detail: true},
		{Title: "ENDED", Text: func(v rollout) string { return a.Whenever(v.FinishedAt) }, Detail: true},
	}
}

// outcomesOf adds up how far nodes have come, whatever their wave.
func outcomesOf(counts []apiclient.RolloutCountView) string {
	var order []string
	sums := map[string]int64{}
	for _, c := range counts {
		name := string(c.Outcome)
		if _, known := sums[name]; !known {
			order = append(order, name)
		}
		sums[name] += c.Nodes
	}
	parts := make([]string, len(order))
	for i, name := range order {
		parts[i] = strconv.FormatInt(sums[name], 10) + " " + strings.ReplaceAll(name, "_", " ")
	}
	return strings.Join(parts, ", ")
}

func (a *app) rolloutNodeColumns() []table.Column[apiclient.RolloutMemberView] {
	type member = apiclient.RolloutMemberView
	return []table.Column[member]{
		{Title: "NODE", Text: func(v member) string { return v.Hostname }},
		{Title: "WAVE", Text: func(v member) string {
			switch v.Wave {
			case -1:
				return ""
			case 0:
				return "canary"
			}
			return strconv.Itoa(int(v.Wave))
		}},
		{Title: "OUTCOME", Text: func(v member) string { return strings.ReplaceAll(string(v.Outcome), "_", " ") }},
		{Title: "BEFORE", Text: func(v member) string { return v.FromVersion }},
		at(a, "UNTIL", func(v member) *time.Time { return v.DeadlineAt }),
		{Title: "DETAIL", Long: true, Text: func(v member) string { return v.Detail }},
	}
}

func (a *app) agentRolloutCommand() *cobra.Command {
	return a.noun(noun{
		use: "rollout", short: "Roll out a release to many nodes in waves",
		long: "Canaries of every SKU and site get the release first, then waves of nodes. A node counts as done after its bake\n" +
			"time. Failures pause the rollout and send nodes back. Nodes that are pinned or unassigned are left alone.",
	},
		a.rolloutOrderCommand("preview", "See who would be in which wave, and who would be left alone", "preview-agent-rollout",
			func(s *session, body apiclient.RolloutNewBody) error {
				raw, err := apiclient.Read(s.API.PreviewAgentRolloutWithResponse(s.Ctx,
					&apiclient.PreviewAgentRolloutParams{}, body))
				if err != nil {
					return err
				}
				view, err := output.Decode[apiclient.RolloutPreviewView](raw)
				if err != nil {
					return err
				}
				type preview = apiclient.RolloutPreviewView
				if err := frame.PrintOne(s.App, []table.Column[preview]{
					{Title: "NODES", Text: func(v preview) string { return strconv.FormatInt(v.Total, 10) }},
					{Title: "WAVES", Text: func(v preview) string { return strconv.Itoa(int(v.Waves)) }},
					at(a, "OPENS", func(v preview) *time.Time { return v.OpensAt }),
				}, raw); err != nil {
					return err
				}
				return frame.PrintPart(s.Session, a.rolloutNodeColumns(), view.Value.Nodes)
			}),
		a.rolloutOrderCommand("start", "Start a rollout", "begin-agent-rollout",
			func(s *session, body apiclient.RolloutNewBody) error {
				return frame.Show(s.Session, a.rolloutColumns())(s.API.BeginAgentRolloutWithResponse(s.Ctx,
					&apiclient.BeginAgentRolloutParams{}, body))
			}),
		a.verb(verb{
			use: "list", short: "List rollouts", aliases: []string{"ls"}, operations: []string{"list-agent-rollouts"},
			flags: func(cmd *cobra.Command) action {
				f := listing.AddFlags(cmd, 20)
				return func(s *session, _ []string) error {
					return listing.Print(s.Session, f, listing.Listing[apiclient.RolloutView]{
						Columns: a.rolloutColumns(),
						Fetch: func(p listing.Page) (apiclient.Answer, error) {
							return s.API.ListAgentRolloutsWithResponse(s.Ctx,
								&apiclient.ListAgentRolloutsParams{Cursor: p.Cursor, PageSize: p.Size})
						},
					})
				}
			},
		}),
		a.verb(verb{
			use: "show ROLLOUT", short: "Show how a rollout stands, and why", args: frame.Exactly("ROLLOUT"),
			operations: []string{"get-agent-rollout"},
			run: rolloutVerb(func(s *session, id types.UUID) error {
				return frame.Show(s.Session, a.rolloutColumns())(s.API.GetAgentRolloutWithResponse(s.Ctx, id))
			}),
		}),
		a.rolloutNodesCommand(),
		a.rolloutAct("pause", "Start no more nodes", func(s *session, id types.UUID, b apiclient.RolloutReasonBody) (
			apiclient.Answer, error,
		) {
			return s.API.PauseAgentRolloutWithResponse(s.Ctx, id, &apiclient.PauseAgentRolloutParams{}, b)
		}),
		a.rolloutAct("resume", "Continue after a pause; the failures so far do not pause it again",
			func(s *session, id types.UUID, b apiclient.RolloutReasonBody) (apiclient.Answer, error) {
				return s.API.ResumeAgentRolloutWithResponse(s.Ctx, id, &apiclient.ResumeAgentRolloutParams{}, b)
			}),
		a.rolloutAct("approve", "Approve the next wave",
			func(s *session, id types.UUID, b apiclient.RolloutReasonBody) (apiclient.Answer, error) {
				return s.API.ApproveAgentRolloutWithResponse(s.Ctx, id, &apiclient.ApproveAgentRolloutParams{}, b)
			}),
		a.rolloutAbortCommand(),
	)
}

func rolloutVerb(run func(s *session, id types.UUID) error) action {
	return func(s *session, args []string) error {
		id, err := s.IDOf("a rollout", args[0])
		if err != nil {
			return err
		}
		return run(s, id)
	}
}

func (a *app) rolloutNodesCommand() *cobra.Command {
	return a.verb(verb{
		use: "nodes ROLLOUT", short: "List the nodes of a rollout, and how far they have come",
		args:       frame.Exactly("ROLLOUT"),
		operations: []string{"list-agent-rollout-nodes"},
		flags: func(cmd *cobra.Command) action {
			outcome := cmd.Flags().String("outcome", "", "only nodes with this outcome, such as failed")
			f := listing.AddFlags(cmd, 0)
			return rolloutVerb(func(s *session, id types.UUID) error { return s.rolloutNodes(f, id, outcome) })
		},
	})
}

func (s *session) rolloutNodes(f *listing.Flags, id types.UUID, outcome *string) error {
	return listing.Print(s.Session, f, listing.Listing[apiclient.RolloutMemberView]{
		Columns: s.app.rolloutNodeColumns(),
		Fetch: func(p listing.Page) (apiclient.Answer, error) {
			return s.API.ListAgentRolloutNodesWithResponse(s.Ctx, id, &apiclient.ListAgentRolloutNodesParams{
				Cursor: p.Cursor, PageSize: p.Size,
				Outcome: frame.GivenAs[apiclient.ListAgentRolloutNodesParamsOutcome](s.Session, "outcome", outcome),
			})
		},
	})
}

func (a *app) rolloutAct(name, short string,
	call func(s *session, id types.UUID, b apiclient.RolloutReasonBody) (apiclient.Answer, error),
) *cobra.Command {
	return a.withReason(verb{
		use: name + " ROLLOUT", short: short, args: frame.Exactly("ROLLOUT"),
		operations: []string{name + "-agent-rollout"},
	}, func(s *session, args []string, reason string) error {
		return rolloutVerb(func(s *session, id types.UUID) error {
			return frame.Show(s.Session, a.rolloutColumns())(call(s, id, apiclient.RolloutReasonBody{Reason: reason}))
		})(s, args)
	})
}

func (a *app) rolloutAbortCommand() *cobra.Command {
	return a.verb(verb{
		use: "abort ROLLOUT", short: "End a rollout", args: frame.Exactly("ROLLOUT"),
		operations: []string{"abort-agent-rollout"},
		long:       "Nodes in flight come to their end first. With --back, all nodes that have the version go back to the one before.",
		flags: func(cmd *cobra.Command) action {
			back := cmd.Flags().Bool("back", false, "send all nodes back")
			reason := cmd.Flags().String("reason", "", "why; the audit log keeps it")
			return rolloutVerb(func(s *session, id types.UUID) error {
				if err := s.Require("reason"); err != nil {
					return err
				}
				return frame.Show(s.Session, a.rolloutColumns())(s.API.AbortAgentRolloutWithResponse(s.Ctx, id,
					&apiclient.AbortAgentRolloutParams{}, apiclient.RolloutAbortBody{
						Back: frame.Given(s.Session, "back", back), Reason: *reason,
					}))
			})
		},
	})
}

// rolloutOrderCommand is a command about a rollout that does not exist yet.
func (a *app) rolloutOrderCommand(name, short, operation string,
	run func(s *session, body apiclient.RolloutNewBody) error,
) *cobra.Command {
	return a.verb(verb{
		use: name + " VERSION", short: short, args: frame.Exactly("VERSION"), operations: []string{operation},
		example: "  gpuaas agent rollout " + name + " 1.4.0 --channel stable --canaries 3 --bake 600 --reason \"less memory\"",
		flags: func(cmd *cobra.Command) action {
			f := cmd.Flags()
			t := rolloutTarget{
				channel: f.String("channel", "", "only nodes of this channel: stable or candidate"),
				region:  f.String("region", "", "only nodes of this region"), site: f.String("site", "", "only nodes of this site"),
				sku: f.String("sku", "", "only nodes of this SKU"), pool: f.String("pool", "", "only nodes of this pool"),
				labels: f.StringToString("label", nil, "only nodes with this label, as NAME=VALUE; may be repeated"),
			}
			p := rolloutPlan{
				canaries: f.Int32("canaries", 0, "nodes of the first wave, of every SKU and site in turn (default 5 %)"),
				percent:  f.Int32("canary-percent", 0, "share of the nodes in the first wave"),
				wave:     f.Int32("wave-percent", 0, "share of the nodes in each later wave (default 25)"),
				parallel: f.Int32("parallel", 0, "nodes that are updated at the same time (default 10)"),
				most:     f.Int32("max-unavailable", 0, "nodes that are updated, failed or on their way back (default twice that)"),
				bake:     f.Int64("bake", 0, "seconds that a node must stay healthy on the version (default 300)"),
				node:     f.Int64("node-seconds", 0, "seconds that the update of a node may take (default 1800)"),
				memory:   f.Int32("memory-mib", 0, "MiB that an agent may use after its bake time (default 512)"),
				growth:   f.Int32("memory-percent", 0, "how much of what it used before it may use then (default 200)"),
				failures: f.Int32("max-failures", 0, "failed nodes that do not pause it; a failed canary always does"),
				back:     f.String("go-back", "", "which nodes go back when failures pause the rollout: nobody, wave or all (default wave)"),
				rented:   f.String("rented", "", "nodes that somebody rents: leave or update (default leave)"),
				approve:  f.Bool("approve", false, "somebody must approve each wave after the first"),
				windows:  f.StringArray("window", nil, "when nodes may be begun with, as \"DAYS FROM-TO ZONE\"; may be repeated"),
				closed:   f.StringSlice("closed", nil, "a day on which no window begins, as 2026-12-24; may be repeated"),
			}
			reason := f.String("reason", "", "why; the audit log keeps it")
			return func(s *session, args []string) error {
				if err := s.Require("reason"); err != nil {
					return err
				}
				target, err := t.body(s)
				if err != nil {
					return err
				}
				plan := p.body(s)
				if plan.Windows, err = p.schedule(s); err != nil {
					return err
				}
				return run(s, apiclient.RolloutNewBody{Version: args[0], Target: target, Plan: plan, Reason: *reason})
			}
		},
	})
}

type rolloutTarget struct {
	channel, region, site, sku, pool *string
	labels                           *map[string]string
}

func (t rolloutTarget) body(s *session) (apiclient.RolloutTarget, error) {
	body := apiclient.RolloutTarget{
		Channel: frame.GivenAs[apiclient.RolloutTargetChannel](s.Session, "channel", t.channel),
		Region:  frame.Given(s.Session, "region", t.region), Sku: frame.Given(s.Session, "sku", t.sku),
		Pool: frame.Given(s.Session, "pool", t.pool), Labels: frame.Given(s.Session, "label", t.labels),
	}
	if *t.site == "" {
		return body, nil
	}
	id, err := s.siteID(*t.site)
	if err != nil {
		return body, failure.Misuse(s.Cmd, "--site: %s", err)
	}
	body.SiteId = &id
	return body, nil
}

type rolloutPlan struct {
	canaries, percent, wave, parallel, most, failures *int32
	memory, growth                                    *int32
	bake, node                                        *int64
	back, rented                                      *string
	approve                                           *bool
	windows, closed                                   *[]string
}

var daysOfWeek = []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"}

// windowOf reads a window as people write it: sat,sun 22:00-04:00 Europe/Berlin.
func windowOf(text string) (apiclient.RolloutWindow, error) {
	var w apiclient.RolloutWindow
	parts := strings.Fields(text)
	if len(parts) != 3 {
		return w, fmt.Errorf("%q is not DAYS FROM-TO ZONE, such as \"mon-fri 22:00-04:00 Europe/Berlin\"", text)
	}
	for day := range strings.SplitSeq(strings.ToLower(parts[0]), ",") {
		first, last, isRange := strings.Cut(day, "-")
		from, to := slices.Index(daysOfWeek, first), slices.Index(daysOfWeek, last)
		if !isRange {
			to = from
		}
		if from < 0 || to < 0 {
			return w, fmt.Errorf("%q is no day of the week and no range of them; name days as mon, tue, wed, thu, fri, sat and sun",
				day)
		}
		for ; ; from = (from + 1) % len(daysOfWeek) {
			if name := apiclient.RolloutWindowDays(daysOfWeek[from]); !slices.Contains(w.Days, name) {
				w.Days = append(w.Days, name)
			}
			if from == to {
				break
			}
		}
	}
	w.Zone = parts[2]
	w.From, w.To, _ = strings.Cut(parts[1], "-") // the control plane says what is wrong with them
	return w, nil
}

func (p rolloutPlan) schedule(s *session) (windows *[]apiclient.RolloutWindow, err error) {
	if len(*p.windows) == 0 {
		return nil, nil
	}
	var all []apiclient.RolloutWindow
	for _, text := range *p.windows {
		w, err := windowOf(text)
		if err != nil {
			return nil, failure.Misuse(s.Cmd, "--window: %s", err)
		}
		all = append(all, w)
	}
	return &all, nil
}

func (p rolloutPlan) body(s *session) apiclient.RolloutPlan {
	return apiclient.RolloutPlan{
		Canaries:       frame.Given(s.Session, "canaries", p.canaries),
		CanaryPercent:  frame.Given(s.Session, "canary-percent", p.percent),
		WavePercent:    frame.Given(s.Session, "wave-percent", p.wave),
		Parallel:       frame.Given(s.Session, "parallel", p.parallel),
		MaxUnavailable: frame.Given(s.Session, "max-unavailable", p.most),
		BakeSeconds:    frame.Given(s.Session, "bake", p.bake), NodeSeconds: frame.Given(s.Session, "node-seconds", p.node),
		MemoryMib:     frame.Given(s.Session, "memory-mib", p.memory),
		MemoryPercent: frame.Given(s.Session, "memory-percent", p.growth),
		MaxFailures:   frame.Given(s.Session, "max-failures", p.failures),
		GoBack:        frame.GivenAs[apiclient.RolloutPlanGoBack](s.Session, "go-back", p.back),
		Rented:        frame.GivenAs[apiclient.RolloutPlanRented](s.Session, "rented", p.rented),
		Approve:       frame.Given(s.Session, "approve", p.approve),
		Closed:        frame.Given(s.Session, "closed", p.closed),
	}
}
