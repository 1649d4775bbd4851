package cli

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/contract/apiclient"
)

func (a *app) nodeColumns() []column[apiclient.NodeView] {
	type node = apiclient.NodeView
	detail := func(title string, text func(node) string) column[node] {
		return column[node]{title: title, text: text, detail: true}
	}
	return []column[node]{
		{title: "HOSTNAME", text: func(v node) string { return v.Hostname }},
		{title: "STATUS", text: func(v node) string { return string(v.Status) }},
		{title: "SCHEDULABLE", text: func(v node) string { return yesNo(v.Schedulable) }},
		{title: "SKU", text: func(v node) string { return v.Sku }},
		{title: "REGION", text: func(v node) string { return v.RegionCode }},
		{title: "AGENT", text: func(v node) string { return v.Agent.ReportedAgentVersion }},
		{title: "DRIFT", text: func(v node) string { return string(v.Agent.DriftState) }},
		{title: "LAST CONTACT", text: func(v node) string { return a.whenever(v.LastAgentContactAt) }},
		{title: "ID", text: func(v node) string { return v.NodeId.String() }},
		detail("HELD BECAUSE", func(v node) string { return v.HoldReason }),
		detail("HELD BY", func(v node) string { return v.HeldBy }),
		detail("TAINTED", func(v node) string { return yesNo(v.Tainted) }),
		detail("SOMEBODY HAD", a.somebodyHad),
		detail("INSTALLED", func(v node) string { return a.whenever(v.InstalledAt) }),
		detail("TENANT ACCESS", func(v node) string { return a.whenever(v.TaintedAt) }),
		detail("PROVEN CLEAN", func(v node) string { return a.whenever(v.CleanAt) }),
		detail("IN THIS STATE SINCE", func(v node) string { return a.when(v.StatusChangedAt) }),
		detail("HOST", func(v node) string { return v.Host }),
		detail("SSH PORT", func(v node) string { return strconv.Itoa(int(v.Port)) }),
		detail("SSH USER", func(v node) string { return v.SshUsername }),
		detail("GPUS", func(v node) string { return strconv.Itoa(int(v.GpusTotal)) }),
		detail("ONBOARDED", func(v node) string { return string(v.OnboardingMode) }),
		detail("GENERATION", func(v node) string { return strconv.FormatInt(v.Generation, 10) }),
		detail("AGENT COMMIT", func(v node) string { return v.Agent.ReportedAgentCommit }),
		detail("AGENT WANTED", func(v node) string { return v.Agent.DesiredAgentVersion }),
		detail("AGENT CHANNEL", func(v node) string { return string(v.Agent.AgentChannel) }),
		detail("CERTIFICATE UNTIL", func(v node) string { return a.whenever(v.Agent.CertificateNotAfter) }),
		detail("VERIFIERS", func(v node) string { return strconv.FormatInt(v.Agent.VerifierVersion, 10) }),
		detail("REFUSED TO TRUST", func(v node) string { return v.Agent.TrustRefused }),
		detail("CAPABILITIES", func(v node) string { return facts(v.Capabilities) }),
		detail("CREATED", func(v node) string { return a.when(v.CreatedAt) }),
		detail("VERSION", func(v node) string { return strconv.FormatInt(v.Version, 10) }),
	}
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

func (a *app) inspectedColumns() []column[inspected] {
	var columns []column[inspected]
	for _, c := range a.nodeColumns() {
		columns = append(columns, column[inspected]{title: c.title, detail: c.detail, text: func(v inspected) string { return c.text(v.NodeView) }})
	}
	columns = append(columns, column[inspected]{title: "MACHINE", detail: true, text: func(v inspected) string { return machine(v.Inspection) }})
	observed := func(title string, text func(apiclient.NodeObserved) string) {
		columns = append(columns, column[inspected]{title: title, detail: true, text: func(v inspected) string {
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
	observed("OBSERVED SO SINCE", func(v seen) string { return a.when(v.SeenAt) })
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
	return strings.Join([]string{gpus, strconv.FormatInt(c.Cpus, 10) + " CPUs", strconv.FormatInt(c.MemoryBytes>>30, 10) + " GiB", c.Os}, ", ")
}

func (a *app) historyColumns() []column[apiclient.NodeHistoryView] {
	type entry = apiclient.NodeHistoryView
	return []column[entry]{
		{title: "WHEN", text: func(v entry) string { return a.when(v.OccurredAt) }},
		{title: "WHAT", text: changed},
		{title: "SOURCE", text: func(v entry) string { return string(v.Source) }},
		{title: "WHO", text: who},
		{title: "CAUSE", text: func(v entry) string { return v.Cause }},
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
		a.nodeHoldCommand(), a.nodeUnholdCommand(), a.nodeQuarantineCommand(), a.nodeReturnCommand(), a.nodeTaintCommand(), a.nodeBootstrapCommand(), a.nodeRevokeCommand(),
		a.nodeHardwareCommand(), a.nodeAcceptHardwareCommand(),
		a.verb(verb{
			use: "agent NODE", short: "Show which agent a node has and should have", args: exactly("NODE"), operations: []string{"get-node-agent-lifecycle"},
			run: nodeVerb(func(s *session, id types.UUID) error {
				return show(s, a.agentColumns())(s.api.GetNodeAgentLifecycleWithResponse(s.ctx, id))
			}),
		}),
		a.nodeTaskCommand(),
	)
	return a.noun(noun{
		use: "node", short: "Machines of the fleet, and what they are told to do", group: groupMachines,
		long: "Nodes are named by hostname or id.",
	}, commands...)
}

func (a *app) agentColumns() []column[apiclient.NodeAgentView] {
	type agent = apiclient.NodeAgentView
	return []column[agent]{
		{title: "DRIFT", text: func(v agent) string { return string(v.DriftState) }},
		{title: "VERSION", text: func(v agent) string { return v.ReportedAgentVersion }},
		{title: "COMMIT", text: func(v agent) string { return v.ReportedAgentCommit }},
		{title: "WANTED", text: func(v agent) string { return v.DesiredAgentVersion }},
		{title: "CHANNEL", text: func(v agent) string { return string(v.AgentChannel) }},
		{title: "DELIVERED BY", text: func(v agent) string { return string(v.DesiredDeliveryMode) }},
		{title: "LAST DELIVERY", text: func(v agent) string { return a.whenever(v.LastDeliveryAttemptAt) }},
		{title: "OUTCOME", text: func(v agent) string { return v.LastDeliveryResult }},
		{title: "CERTIFICATE UNTIL", text: func(v agent) string { return a.whenever(v.CertificateNotAfter) }},
		{title: "VERIFIERS", text: func(v agent) string { return strconv.FormatInt(v.VerifierVersion, 10) }},
		{title: "REFUSED TO TRUST", text: func(v agent) string { return v.TrustRefused }},
	}
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
	if id, ok := parseID(name); ok {
		return id, nil
	}
	raws, _, err := collect(func(p page) (apiclient.Answer, error) {
		return s.api.ListNodesWithResponse(s.ctx, &apiclient.ListNodesParams{Cursor: p.cursor, PageSize: p.size, Hostname: &name})
	}, 0)
	if err != nil {
		return types.UUID{}, err
	}
	nodes, err := decodeAll[apiclient.NodeView](raws)
	if err != nil {
		return types.UUID{}, err
	}
	var found []types.UUID
	for _, n := range nodes {
		if n.value.Hostname == name {
			found = append(found, n.value.NodeId)
		}
	}
	switch len(found) {
	case 0:
		return types.UUID{}, notFound("see which there are: gpuaas node list", "there is no node %q", name)
	case 1:
		return found[0], nil
	}
	return types.UUID{}, usage(s.cmd, "%d nodes are called %q, in different regions: name the one by its id", len(found), name)
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
			hostname := f.String("hostname", "", "only nodes whose hostname starts so")
			search := f.String("search", "", "only nodes that have this in their hostname or host, or whose id starts so")
			schedulable := f.String("schedulable", "", "only nodes that are schedulable (true), or are not (false)")
			mode := f.String("onboarded", "", "only nodes that were onboarded so: manual or maas")
			drift := f.String("drift", "", "only nodes whose agent is so, such as version_drift")
			agent := f.String("agent", "", "only nodes whose agent is so: current, drift or unknown_build")
			held := f.String("held", "", "only nodes that are kept out of scheduling (true), or are not (false)")
			tainted := f.String("tainted", "", "only nodes that are not proven clean (true), or the others (false)")
			sort := f.String("sort", "", "sort by hostname, status, status_changed_at, last_agent_contact_at, sku, region_code or created_at")
			order := f.String("order", "", "which way to sort: asc or desc")
			complete(cmd, "sort", "hostname", "status", "status_changed_at", "last_agent_contact_at", "sku", "region_code", "created_at")
			complete(cmd, "order", "asc", "desc")
			complete(cmd, "status", "bootstrap_issued", "enrolling", "active", "offline", "quarantined", "draining", "retired", "removing", "deleted")
			complete(cmd, "schedulable", "true", "false")
			complete(cmd, "held", "true", "false")
			complete(cmd, "tainted", "true", "false")
			complete(cmd, "agent", "current", "drift", "unknown_build")
			complete(cmd, "onboarded", "manual", "maas")
			complete(cmd, "drift", driftStates()...)
			l := addListFlags(cmd, 0)
			return func(s *session, _ []string) error {
				params := apiclient.ListNodesParams{
					Statuses: given(s, "status", status), Sku: given(s, "sku", sku), RegionCode: given(s, "region", region),
					Hostname: given(s, "hostname", hostname), Q: given(s, "search", search),
					Schedulable:    givenAs[apiclient.ListNodesParamsSchedulable](s, "schedulable", schedulable),
					OnboardingMode: givenAs[apiclient.ListNodesParamsOnboardingMode](s, "onboarded", mode),
					DriftState:     givenAs[apiclient.ListNodesParamsDriftState](s, "drift", drift),
					Agent:          givenAs[apiclient.ListNodesParamsAgent](s, "agent", agent),
					Held:           givenAs[apiclient.ListNodesParamsHeld](s, "held", held),
					Tainted:        givenAs[apiclient.ListNodesParamsTainted](s, "tainted", tainted),
					Sort:           givenAs[apiclient.ListNodesParamsSort](s, "sort", sort),
					Order:          givenAs[apiclient.ListNodesParamsOrder](s, "order", order),
				}
				var err error
				if params.SiteId, err = optionalID(*site, s.siteID); err != nil {
					return err
				}
				return list(s, l, listing[apiclient.NodeView]{columns: a.nodeColumns(), fetch: func(p page) (apiclient.Answer, error) {
					params.Cursor, params.PageSize = p.cursor, p.size
					return s.api.ListNodesWithResponse(s.ctx, &params)
				}})
			}
		},
	})
}

func (a *app) nodeShowCommand() *cobra.Command {
	return a.verb(verb{
		use: "show NODE", short: "Show a node and its newest history", aliases: []string{"get"}, args: exactly("NODE"),
		operations: []string{"get-node", "get-node-history"},
		long:       "With --at it shows the node as it was known then, and how its machine was seen from outside. TIME is\n" + momentForms + ".",
		example:    "  gpuaas node show c07u31 --at 10m\n  gpuaas node show c07u31 --at 'yesterday 14:00'",
		flags: func(cmd *cobra.Command) action {
			at := cmd.Flags().String("at", "", "as it was then: a `TIME`, or 2h for two hours ago")
			return nodeVerb(func(s *session, id types.UUID) error {
				if s.cmd.Flags().Changed("at") {
					return s.showNodeAt(id, *at)
				}
				raw, err := apiclient.Read(s.api.GetNodeWithResponse(s.ctx, id))
				if err != nil {
					return err
				}
				if err := printOne(s.app, a.inspectedColumns(), raw); err != nil {
					return err
				}
				n, err := decode[apiclient.NodeDetailView](raw)
				if err != nil {
					return err
				}
				return printPart(s, a.historyColumns(), n.value.History)
			})
		},
	})
}

func (s *session) showNodeAt(id types.UUID, at string) error {
	when, err := s.moment(at)
	if err != nil {
		return usage(s.cmd, "--at: %v", err)
	}
	body, err := fetch[struct {
		AsOf json.RawMessage `json:"as_of"`
	}](s.api.GetNodeHistoryWithResponse(s.ctx, id, &apiclient.GetNodeHistoryParams{At: &when, PageSize: ptr(int64(1))}))
	if err != nil {
		return err
	}
	if body.AsOf == nil {
		return notFound("see its history: gpuaas node history "+id.String(), "the node was not known at %s", when.Format(time.RFC3339))
	}
	return printOne(s.app, s.inspectedColumns(), body.AsOf)
}

func (a *app) nodeHistoryCommand() *cobra.Command {
	return a.verb(verb{
		use: "history NODE", short: "Show every change of a node: what, by whom and why", args: exactly("NODE"), operations: []string{"get-node-history"},
		long: "SOURCE says what sort of thing caused a change: an operator, a workflow such as an onboarding, drift that\n" +
			"reconciliation found, the agent of the node, or the system by itself.",
		flags: func(cmd *cobra.Command) action {
			f := addListFlags(cmd, 50)
			return nodeVerb(func(s *session, id types.UUID) error {
				return list(s, f, listing[apiclient.NodeHistoryView]{columns: a.historyColumns(), fetch: func(p page) (apiclient.Answer, error) {
					return s.api.GetNodeHistoryWithResponse(s.ctx, id, &apiclient.GetNodeHistoryParams{Cursor: p.cursor, PageSize: p.size})
				}})
			})
		},
	})
}
