package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
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

func (a *app) nodeColumns() []table.Column[apiclient.NodeView] {
	type node = apiclient.NodeView
	detail := func(title string, text func(node) string) table.Column[node] {
		return table.Column[node]{Title: title, Text: text, Detail: true}
	}
	return []table.Column[node]{
		{Title: "HOSTNAME", Text: func(v node) string { return v.Hostname }},
		{Title: "STATUS", Text: func(v node) string { return string(v.Status) }},
		{Title: "SCHEDULABLE", Text: func(v node) string { return yesNo(v.Schedulable) }},
		{Title: "SKU", Text: func(v node) string { return v.Sku }},
		{Title: "REGION", Text: func(v node) string { return v.RegionCode }},
		{Title: "AGENT", Text: func(v node) string { return v.Agent.ReportedAgentVersion }},
		{Title: "AGENT DRIFT", Text: func(v node) string { return badge(v.Agent.Badge) }},
		ago(a, "LAST CONTACT", func(v node) *time.Time { return v.LastAgentContactAt }),
		{Title: "ID", Wide: true, Text: func(v node) string { return v.NodeId.String() }},
		detail("HELD BECAUSE", a.heldBecause),
		detail("HELD BY", func(v node) string { return v.HeldBy }),
		detail("TAINTED", func(v node) string { return yesNo(v.Tainted) }),
		detail("KNOWN ACCESS", a.somebodyHad),
		detail("INSTALLED", func(v node) string { return a.Whenever(v.InstalledAt) }),
		detail("TENANT ACCESS", func(v node) string { return a.Whenever(v.TaintedAt) }),
		detail("PROVEN CLEAN", a.provenClean),
		detail("RISK ACCEPTED", a.riskAccepted),
		detail("IN THIS STATE SINCE", func(v node) string { return a.When(v.StatusChangedAt) }),
		detail("RACK", func(v node) string { return v.Rack }),
		detail("POOL", func(v node) string { return v.Pool }),
		detail("LABELS", func(v node) string { return facts(v.Labels) }),
		detail("HOST", func(v node) string { return v.Host }),
		detail("SSH PORT", func(v node) string { return strconv.Itoa(int(v.Port)) }),
		detail("SSH USER", func(v node) string { return v.SshUsername }),
		detail("GPUS", func(v node) string { return strconv.Itoa(int(v.GpusTotal)) }),
		detail("ONBOARDED", func(v node) string { return string(v.OnboardingMode) }),
		detail("GENERATION", func(v node) string { return strconv.FormatInt(v.Generation, 10) }),
		detail("AGENT COMMIT", func(v node) string { return v.Agent.ReportedAgentCommit }),
		detail("AGENT WANTED", func(v node) string { return v.Agent.DesiredAgentVersion }),
		detail("AGENT CHANNEL", func(v node) string { return string(v.Agent.AgentChannel) }),
		detail("AGENT STARTED", func(v node) string { return a.Whenever(v.Agent.StartedAt) }),
		detail("AGENT MEMORY", func(v node) string { return memoryOf(v.Agent.MemoryBytes) }),
		detail("CERTIFICATE UNTIL", func(v node) string { return a.Whenever(v.Agent.CertificateNotAfter) }),
		detail("VERIFIERS", func(v node) string { return strconv.FormatInt(v.Agent.VerifierVersion, 10) }),
		detail("REFUSED TO TRUST", func(v node) string { return v.Agent.TrustRefused }),
		detail("CAPABILITIES", func(v node) string { return facts(v.Capabilities) }),
		detail("CREATED", func(v node) string { return a.When(v.CreatedAt) }),
		detail("VERSION", func(v node) string { return strconv.FormatInt(v.Version, 10) }),
	}
}

// memoryOf shows what a process uses; empty: nobody knows.
func memoryOf(bytes *int64) string {
	if bytes == nil {
		return ""
	}
	return strconv.FormatInt(*bytes>>20, 10) + " MiB"
}

func facts(of map[string]string) string {
	parts := make([]string, 0, len(of))
	for _, name := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, name+"="+of[name])
	}
	return strings.Join(parts, " ")
}

// inspected is a node with what was found on its machine, by its agent and from
// outside.
type inspected struct {
	apiclient.NodeView
	Inspection *apiclient.AgentwireCapabilities `json:"inspection"`
	Observed   *apiclient.NodeObserved          `json:"observed"`
}

func (a *app) inspectedColumns() []table.Column[inspected] {
	var columns []table.Column[inspected]
	for _, c := range a.nodeColumns() {
		columns = append(columns, table.Column[inspected]{
			Title: c.Title, Detail: c.Detail,
			Text: func(v inspected) string { return c.Text(v.NodeView) },
		})
	}
	columns = append(columns, table.Column[inspected]{
		Title: "MACHINE", Detail: true,
		Text: func(v inspected) string { return machine(v.Inspection) },
	})
	observed := func(title string, text func(apiclient.NodeObserved) string) {
		columns = append(columns, table.Column[inspected]{Title: title, Detail: true, Text: func(v inspected) string {
			if v.Observed == nil {
				return ""
			}
			return text(*v.Observed)
		}})
	}
	type seen = apiclient.NodeObserved
	observed("OBSERVED", func(v seen) string {
		if v.Status == "" {
			return v.Provider + " does not know it"
		}
		return v.Provider + ": " + v.Status + ", power " + cmp.Or(v.Power, "unknown")
	})
	observed("OBSERVED ADDRESSES", func(v seen) string { return strings.Join(v.Addresses, " ") })
	observed("FINDINGS", func(v seen) string { return strings.Join(v.Findings, " ") })
	observed("OBSERVED SO SINCE", func(v seen) string { return a.When(v.SeenAt) })
	return columns
}

func machine(c *apiclient.AgentwireCapabilities) string {
	if c == nil {
		return ""
	}
	gpus := "no GPU"
	if c.Gpus != nil && len(*c.Gpus) > 0 {
		gpus = strconv.Itoa(len(*c.Gpus)) + " × " + (*c.Gpus)[0].Name
	}
	return strings.Join([]string{gpus, strconv.FormatInt(c.Cpus, 10) + " CPUs", strconv.FormatInt(c.MemoryBytes>>30, 10) +
		" GiB", c.Os}, ", ")
}

func (a *app) historyColumns() []table.Column[apiclient.NodeHistoryView] {
	type entry = apiclient.NodeHistoryView
	return []table.Column[entry]{
		{Title: "WHEN", Text: func(v entry) string { return a.When(v.OccurredAt) }},
		{Title: "WHAT", Long: true, Text: changed},
		{Title: "SOURCE", Text: func(v entry) string { return string(v.Source) }},
		{Title: "WHO", Long: true, Text: who},
		{Title: "CAUSE", Long: true, Text: func(v entry) string { return v.Cause }},
	}
}

// who names the actor of an entry. Parts of the control plane say themselves what
// they are.
func who(v apiclient.NodeHistoryView) string {
	if v.ActorKind == apiclient.NodeHistoryViewActorKindSystem {
		return v.ActorId
	}
	return string(v.ActorKind) + " " + v.ActorId
}

// changed says what an entry of the history is about.
func changed(v apiclient.NodeHistoryView) string {
	switch {
	case text(v.ToStatus) != "":
		return text(v.FromStatus) + " → " + text(v.ToStatus)
	case text(v.Event) != "":
		return string(v.Kind) + ": " + *v.Event
	}
	return string(v.Kind)
}

func (a *app) nodeCommand() *cobra.Command {
	commands := append(a.nodeLifeCommands(),
		a.nodeAddCommand(), a.nodeListCommand(), a.nodeShowCommand(), a.nodeHistoryCommand(), a.nodeUpdateCommand(),
		a.nodeLabelCommand(),
		a.nodeHoldCommand(), a.nodeUnholdCommand(), a.nodeQuarantineCommand(), a.nodeReturnCommand(), a.nodeTaintCommand(),
		a.nodeBootstrapCommand(), a.nodeRevokeCommand(),
		a.nodeHardwareCommand(), a.nodeAcceptHardwareCommand(),
		a.nodeAgentCommand(),
		a.nodeTaskCommand(),
	)
	return a.noun(noun{
		use: "node", short: "Machines of the fleet and their tasks", group: groupMachines,
		long: "Nodes are named by hostname or id.",
	}, commands...)
}

// badge is the agent of a node in a word, as people read it.
func badge(b apiclient.NodeAgentViewBadge) string {
	words := strings.ReplaceAll(string(b), "_", " ")
	return strings.ToUpper(words[:min(1, len(words))]) + words[min(1, len(words)):]
}

func (a *app) agentColumns() []table.Column[apiclient.AgentrunLifecycleView] {
	type agent = apiclient.AgentrunLifecycleView
	return []table.Column[agent]{
		{Title: "AGENT", Text: func(v agent) string { return badge(apiclient.NodeAgentViewBadge(v.Badge)) }},
		{Title: "AGENT DRIFT", Text: func(v agent) string { return string(v.DriftState) }},
		{Title: "VERSION", Text: func(v agent) string { return v.ReportedAgentVersion }},
		{Title: "COMMIT", Text: func(v agent) string { return v.ReportedAgentCommit }},
		{Title: "WANTED", Text: func(v agent) string { return v.WantedAgentVersion }},
		{Title: "CHANNEL", Text: func(v agent) string { return string(v.AgentChannel) }},
		{Title: "UPDATED BY", Text: func(v agent) string { return strings.ReplaceAll(string(v.UpdatePath), "_", " ") }},
		{Title: "BECAUSE", Text: func(v agent) string { return v.UpdatePathBecause }},
		{Title: "DELIVERED BY", Text: func(v agent) string { return string(v.DesiredDeliveryMode) }},
		ago(a, "LAST DELIVERY", func(v agent) *time.Time { return v.LastDeliveryAttemptAt }),
		{Title: "OUTCOME", Text: func(v agent) string { return v.LastDeliveryResult }},
		at(a, "CERTIFICATE UNTIL", func(v agent) *time.Time { return v.CertificateNotAfter }),
		{Title: "VERIFIERS", Text: func(v agent) string { return strconv.FormatInt(v.VerifierVersion, 10) }},
		{Title: "REFUSED TO TRUST", Text: func(v agent) string { return v.TrustRefused }},
		{Title: "LATEST RUN", Text: func(v agent) string { return latestRun(v.LatestRun) }},
	}
}

// latestRun is what was last done to an agent, in one line.
func latestRun(v *apiclient.AgentrunView) string {
	if v == nil {
		return ""
	}
	said := fmt.Sprintf("%s by %s is %s", v.Scenario, v.Mode, v.Status)
	if about := cmp.Or(v.ErrorMessage, v.Detail); about != "" {
		said += ": " + about
	}
	return strings.ReplaceAll(said, "_", " ")
}

// nodeVerb is a command about one node and nothing else.
func nodeVerb(do func(s *session, node types.UUID) error) action {
	return func(s *session, args []string) error {
		id, err := s.nodeID(args[0])
		if err != nil {
			return err
		}
		return do(s, id)
	}
}

// nodeID resolves a node named by id or hostname.
func (s *session) nodeID(name string) (types.UUID, error) {
	if id, ok := frame.ParseID(name); ok {
		return id, nil
	}
	raws, _, err := listing.Collect(func(p listing.Page) (apiclient.Answer, error) {
		return s.API.ListNodesWithResponse(s.Ctx,
			&apiclient.ListNodesParams{Cursor: p.Cursor, PageSize: p.Size, Hostname: &name})
	}, 0)
	if err != nil {
		return types.UUID{}, err
	}
	nodes, err := output.DecodeAll[apiclient.NodeView](raws)
	if err != nil {
		return types.UUID{}, err
	}
	var found []types.UUID
	for _, n := range nodes {
		if n.Value.Hostname == name {
			found = append(found, n.Value.NodeId)
		}
	}
	switch len(found) {
	case 0:
		return types.UUID{}, failure.Missing("list them: gpuaas node list", "there is no node %q", name)
	case 1:
		return found[0], nil
	}
	return types.UUID{}, failure.Misuse(s.Cmd, "%d nodes are called %q, in different regions: name the one by its id",
		len(found), name)
}

func (a *app) nodeListCommand() *cobra.Command {
	return a.verb(verb{
		use: "list", short: "List the nodes", aliases: []string{"ls"}, operations: []string{"list-nodes"},
		flags: func(cmd *cobra.Command) action {
			f := cmd.Flags()
			status := f.StringSlice("status", nil, "only nodes in this state, such as active or offline; may be repeated")
			sku := f.String("sku", "", "only nodes of this kind")
			region := f.String("region", "", "only nodes of this region")
			site := f.String("site", "", "only nodes of this site, by name or id")
			rack := f.String("rack", "", "only nodes of this rack")
			pool := f.String("pool", "", "only nodes of this pool")
			label := f.StringSlice("label", nil, "only nodes with this label, as `KEY=VALUE`; repeated: with all of them")
			hostname := f.String("hostname", "", "only nodes whose hostname starts with this")
			search := f.String("search", "", searchedNodes)
			schedulable := f.String("schedulable", "", "only nodes that are schedulable (true), or are not (false)")
			mode := f.String("onboarded", "", "only nodes that were onboarded so: manual or maas")
			drift := f.String("drift", "", "only nodes whose agent has this drift, such as version_drift")
			agent := f.String("agent", "", "only nodes whose agent has this state: current, drift or unknown_build")
			agentVersion := f.String("agent-version", "", "only nodes whose agent reports this version")
			channel := f.String("agent-channel", "", "only nodes of this channel: stable, candidate, pinned or unassigned")
			held := f.String("held", "", "only nodes that are kept out of scheduling (true), or are not (false)")
			tainted := f.String("tainted", "", "only nodes that are not proven clean (true), or the others (false)")
			sort := f.String("sort", "",
				"sort by hostname, status, status_changed_at, last_agent_contact_at, sku, region_code or created_at")
			order := f.String("order", "", "which way to sort: asc or desc")
			frame.Complete(cmd, "sort", apiclient.Words("list-nodes.sort")...)
			frame.Complete(cmd, "order", apiclient.Words("list-nodes.order")...)
			frame.Complete(cmd, "status", apiclient.NodeStates...)
			frame.Complete(cmd, "schedulable", apiclient.Words("list-nodes.schedulable")...)
			frame.Complete(cmd, "held", apiclient.Words("list-nodes.held")...)
			frame.Complete(cmd, "tainted", apiclient.Words("list-nodes.tainted")...)
			frame.Complete(cmd, "agent", apiclient.Words("list-nodes.agent")...)
			frame.Complete(cmd, "agent-channel", apiclient.Words("list-nodes.agent_channel")...)
			frame.Complete(cmd, "onboarded", apiclient.Words("list-nodes.onboarding_mode")...)
			frame.Complete(cmd, "drift", driftStates()...)
			l := listing.AddFlags(cmd, 0)
			return func(s *session, _ []string) error {
				params := apiclient.ListNodesParams{
					Statuses: frame.Given(s.Session, "status", status), Sku: frame.Given(s.Session, "sku", sku),
					RegionCode: frame.Given(s.Session, "region", region), Rack: frame.Given(s.Session, "rack", rack),
					Pool: frame.Given(s.Session, "pool", pool), Label: frame.Given(s.Session, "label", label),
					Hostname: frame.Given(s.Session, "hostname", hostname), Q: frame.Given(s.Session, "search", search),
					Schedulable:    frame.GivenAs[apiclient.ListNodesParamsSchedulable](s.Session, "schedulable", schedulable),
					OnboardingMode: frame.GivenAs[apiclient.ListNodesParamsOnboardingMode](s.Session, "onboarded", mode),
					DriftState:     frame.GivenAs[apiclient.ListNodesParamsDriftState](s.Session, "drift", drift),
					Agent:          frame.GivenAs[apiclient.ListNodesParamsAgent](s.Session, "agent", agent),
					AgentVersion:   frame.Given(s.Session, "agent-version", agentVersion),
					AgentChannel:   frame.GivenAs[apiclient.ListNodesParamsAgentChannel](s.Session, "agent-channel", channel),
					Held:           frame.GivenAs[apiclient.ListNodesParamsHeld](s.Session, "held", held),
					Tainted:        frame.GivenAs[apiclient.ListNodesParamsTainted](s.Session, "tainted", tainted),
					Sort:           frame.GivenAs[apiclient.ListNodesParamsSort](s.Session, "sort", sort),
					Order:          frame.GivenAs[apiclient.ListNodesParamsOrder](s.Session, "order", order),
				}
				var err error
				if params.SiteId, err = optionalID(*site, s.siteID); err != nil {
					return err
				}
				return listing.Print(s.Session, l, listing.Listing[apiclient.NodeView]{
					Columns: a.nodeColumns(),
					Fetch: func(p listing.Page) (apiclient.Answer, error) {
						params.Cursor, params.PageSize = p.Cursor, p.Size
						return s.API.ListNodesWithResponse(s.Ctx, &params)
					},
				})
			}
		},
	})
}

func (a *app) nodeShowCommand() *cobra.Command {
	return a.verb(verb{
		use: "show NODE", short: "Show a node and its newest history", aliases: []string{"get"}, args: frame.Exactly("NODE"),
		operations: []string{"get-node", "get-node-history"},
		long: "With --at it shows the node as it was known then, and how its machine was seen from outside. TIME is\n" +
			moment.Forms + ".",
		example: "  gpuaas node show c07u31 --at 10m\n  gpuaas node show c07u31 --at 'yesterday 14:00'",
		flags: func(cmd *cobra.Command) action {
			at := cmd.Flags().String("at", "", "as it was then: a `TIME`, or 2h for two hours ago")
			return nodeVerb(func(s *session, id types.UUID) error {
				if s.Cmd.Flags().Changed("at") {
					return s.showNodeAt(id, *at)
				}
				raw, err := apiclient.Read(s.API.GetNodeWithResponse(s.Ctx, id))
				if err != nil {
					return err
				}
				if err := frame.PrintOne(s.App, a.inspectedColumns(), raw); err != nil {
					return err
				}
				n, err := output.Decode[apiclient.NodeDetailView](raw)
				if err != nil {
					return err
				}
				return frame.PrintPart(s.Session, a.historyColumns(), n.Value.History)
			})
		},
	})
}

func (s *session) showNodeAt(id types.UUID, at string) error {
	when, err := s.Moment(at)
	if err != nil {
		return failure.Misuse(s.Cmd, "--at: %v", err)
	}
	if when.After(s.Now()) {
		return failure.Misuse(s.Cmd, "--at %s is in the future: how the node will be is not known", at)
	}
	body, err := frame.Fetch[struct {
		AsOf json.RawMessage `json:"as_of"`
	}](s.API.GetNodeHistoryWithResponse(s.Ctx, id,
		&apiclient.GetNodeHistoryParams{At: &when, PageSize: frame.Ptr(int64(1))}))
	if err != nil {
		return err
	}
	if body.AsOf == nil {
		return failure.Missing("see its history: gpuaas node history "+id.String(), "the node was not known at %s",
			when.Format(time.RFC3339))
	}
	s.Note("as of %s", when.Format(time.RFC3339))
	return frame.PrintOne(s.App, s.app.inspectedColumns(), body.AsOf)
}

func (a *app) nodeHistoryCommand() *cobra.Command {
	return a.verb(verb{
		use: "history NODE", short: "Show every change of a node: what, by whom and why", args: frame.Exactly("NODE"),
		operations: []string{"get-node-history"},
		long: "SOURCE says what sort of thing caused a change: an operator, a workflow such as an onboarding, drift that\n" +
			"reconciliation found, the agent of the node, or the system by itself.",
		flags: func(cmd *cobra.Command) action {
			f := listing.AddFlags(cmd, 50)
			return nodeVerb(func(s *session, id types.UUID) error {
				return listing.Print(s.Session, f, listing.Listing[apiclient.NodeHistoryView]{
					Columns: a.historyColumns(),
					Fetch: func(p listing.Page) (apiclient.Answer, error) {
						return s.API.GetNodeHistoryWithResponse(s.Ctx, id,
							&apiclient.GetNodeHistoryParams{Cursor: p.Cursor, PageSize: p.Size})
					},
				})
			})
		},
	})
}
