package node

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/postgres"
)

// NewBody describes a node to add.
type NewBody struct {
	Hostname    string `json:"hostname,omitempty" maxLength:"253" doc:"Its name, once in a region; may be left out when host is a name." example:"c07u31"`
	Host        string `json:"host,omitempty" maxLength:"253" doc:"Where it is reached; its hostname by default." example:"10.20.0.31"`
	Port        int32  `json:"port,omitempty" minimum:"1" maximum:"65535" default:"22" doc:"Port of its SSH server."`
	SSHUsername string `json:"ssh_username,omitempty" maxLength:"32" doc:"Account for people who reach it by SSH; the control plane does not use it."`
	SKU         string `json:"sku" maxLength:"63" doc:"Which kind of machine it is." example:"h200-sxm-baremetal-8g"`
	GPUsTotal   *int32 `json:"gpus_total,omitempty" minimum:"0" maximum:"64" doc:"As many as the SKU says by default."`
	RegionCode  string `json:"region_code" maxLength:"63" example:"eu-1"`
	GroupingBody
	OnboardingMode Mode          `json:"onboarding_mode,omitempty" enum:"manual" default:"manual" doc:"Nodes that MAAS deploys are made by onboarding."`
	BootstrapMode  BootstrapMode `json:"bootstrap_mode,omitempty" enum:"shell,cloud_init" default:"shell" doc:"How the bootstrap is written down: as a command, or as user data for the first boot."`
}

// GroupingBody says which groups a node belongs to.
type GroupingBody struct {
	Rack   string            `json:"rack,omitempty" maxLength:"63" doc:"The rack that it stands in." example:"c07"`
	Pool   string            `json:"pool,omitempty" maxLength:"63" doc:"What it is kept for; left out: the general pool." example:"training"`
	Labels map[string]string `json:"labels,omitempty" maxProperties:"32" doc:"Words of your own that nodes are selected by."`
}

// Grouping is what the body says.
func (b GroupingBody) Grouping() Grouping { return Grouping(b) }

// NewView is a node that was just added, with its bootstrap.
type NewView struct {
	Node      View          `json:"node"`
	Bootstrap BootstrapView `json:"bootstrap"`
}

// Created is the response for a new node, with its entity tag.
type Created struct {
	ETag string `header:"ETag" doc:"Names this version; send it as If-Match with an update."`
	Body NewView
}

// ChangeBody is the change of a node. Fields that are left out stay as they
// are.
type ChangeBody struct {
	Host                *string            `json:"host,omitempty" maxLength:"253" doc:"Where it is reached."`
	Port                *int32             `json:"port,omitempty" minimum:"1" maximum:"65535" doc:"Port of its SSH server."`
	SSHUsername         *string            `json:"ssh_username,omitempty" maxLength:"32" doc:"Account for people who reach it by SSH."`
	GPUsTotal           *int32             `json:"gpus_total,omitempty" minimum:"0" maximum:"64"`
	Rack                *string            `json:"rack,omitempty" maxLength:"63" doc:"The rack that it stands in; empty: unknown."`
	Pool                *string            `json:"pool,omitempty" maxLength:"63" doc:"What it is kept for; empty: the general pool."`
	Labels              *map[string]string `json:"labels,omitempty" maxProperties:"32" doc:"All its labels: those that are left out go."`
	Schedulable         *bool              `json:"schedulable,omitempty" doc:"false needs a hold_reason, true ends the only hold; refused where several keep the node."`
	HoldReason          *string            `json:"hold_reason,omitempty" maxLength:"500" doc:"Why it must not be scheduled: replaces the reason that was set here before, and leaves what else holds the node. Empty ends the only hold; refused where there are several: end each by its id."`
	AgentChannel        *Channel           `json:"agent_channel,omitempty" doc:"Which releases of the agent it receives."`
	DesiredAgentVersion *string            `json:"desired_agent_version,omitempty" maxLength:"64" doc:"Which agent it should run; empty: any."`
	DesiredDeliveryMode *Delivery          `json:"desired_delivery_mode,omitempty" doc:"How a new agent version is installed."`
}

// KnownView is one node with what its agent found on the machine and what was
// seen of the machine from outside.
type KnownView struct {
	View
	Inspection *stored[agentwire.Capabilities] `json:"inspection,omitempty" doc:"What the agent found on the machine; absent until it has enrolled."`
	Observed   *Observed                       `json:"observed,omitempty" doc:"How the machine was last seen from outside; absent until it was."`
}

// DetailView is one node with its newest history.
type DetailView struct {
	KnownView
	History []HistoryView `json:"history" nullable:"false" doc:"The newest changes, at most 20."`
}

func (s *Service) showKnown(n Node) KnownView {
	v := KnownView{View: s.show(n), Observed: n.Observed}
	if n.Inspection != nil {
		v.Inspection = &stored[agentwire.Capabilities]{n.Inspection}
	}
	return v
}

func (s *Service) showDetail(n Node, entries []HistoryEntry) DetailView {
	return DetailView{KnownView: s.showKnown(n), History: showHistory(entries)}
}

// ListInput filters and sorts a listing of nodes.
type ListInput struct {
	httpapi.LargePage
	Sort           Sort     `query:"sort" doc:"What to sort by; without it, in the order of creation. Nodes never heard of come before all others. By last_agent_contact_at, all pages show the order in which nodes were when the first page was read; nodes that were in contact then are equal, and follow the order of their ids. What status and status_changed_at say can change between two pages: a node that moved so may be on both or on neither, so use another order for a complete inventory."`
	Order          string   `query:"order" enum:"asc,desc" default:"asc" doc:"Which way to sort."`
	Q              string   `query:"q" maxLength:"253" doc:"Only nodes that have this in their hostname, host or an address, whatever the case, whose id starts so, or of which a serial, a MAC address or the system UUID starts or ends so, from four characters on."`
	Status         Status   `query:"status" doc:"Only nodes in this state; without it, all but deleted ones."`
	Statuses       []string `query:"statuses,explode" maxItems:"20" doc:"Only nodes in one of these states: repeated, or divided by commas. status, when given, is one more of them."`
	SKU            string   `query:"sku" maxLength:"63" doc:"Only nodes of this kind."`
	RegionCode     string   `query:"region_code" maxLength:"63" doc:"Only nodes of this region."`
	SiteID         string   `query:"site_id" format:"uuid" doc:"Only nodes of this site: they have a machine of it, or are being onboarded there."`
	Hostname       string   `query:"hostname" maxLength:"253" doc:"Only nodes whose hostname starts so."`
	Rack           string   `query:"rack" maxLength:"63" doc:"Only nodes of this rack."`
	Pool           string   `query:"pool" maxLength:"63" doc:"Only nodes of this pool."`
	Label          []string `query:"label,explode" maxItems:"32" doc:"Only nodes with this label, as key=value; repeated: with all of them."`
	Schedulable    string   `query:"schedulable" enum:"true,false" doc:"Only nodes that are schedulable, or are not."`
	OnboardingMode Mode     `query:"onboarding_mode" enum:"manual,maas" doc:"Only nodes that were onboarded so."`
	Drift          Drift    `query:"drift_state" doc:"Only nodes whose agent is so."`
	AgentVersion   string   `query:"agent_version" maxLength:"64" doc:"Only nodes whose agent reports this version."`
	AgentChannel   Channel  `query:"agent_channel" doc:"Only nodes that follow these releases."`
	Narrowed
}

// Narrowed holds the filters that the listing shares with the summary of the
// fleet.
type Narrowed struct {
	Agent   AgentState `query:"agent" enum:"current,drift,unknown_build" doc:"Only nodes whose agent is what it should be, or is not, or of which nobody can tell what it was built of, or that have none yet; each node is one of these, but those that are retired, being removed or deleted: they have no agent to speak of, and are left out."`
	Held    string     `query:"held" enum:"true,false" doc:"Only nodes that an operator or an operation keeps out of scheduling, or only others."`
	Tainted string     `query:"tainted" enum:"true,false" doc:"Only nodes not proven clean since a tenant had access or they were found unclean, or only others."`
}

// Wanted turns the text of an optional yes-or-no filter into a value. It
// returns nil if the caller did not send the filter.
func Wanted(answer string) *bool {
	if answer == "" {
		return nil
	}
	wanted := answer == "true"
	return &wanted
}

func (in ListInput) filter() (Filter, error) {
	f := Filter{
		SKU: in.SKU, RegionCode: in.RegionCode, HostnamePrefix: in.Hostname, Search: strings.ToLower(in.Q),
		Rack: optional(in.Rack), Pool: optional(in.Pool), Mode: in.OnboardingMode, Drift: in.Drift,
		AgentVersion: in.AgentVersion, AgentChannel: in.AgentChannel,
		Schedulable: Wanted(in.Schedulable), Agent: in.Agent, Held: Wanted(in.Held), Tainted: Wanted(in.Tainted),
	}
	var err error
	if f.Labels, err = Selected(in.Label); err != nil {
		return f, err
	}
	var bad []fault.Field
	if in.SiteID != "" {
		if err := f.Site.UnmarshalText([]byte(in.SiteID)); err != nil {
			bad = append(bad, fault.Field{Path: "query.site_id", Message: "must be an id"})
		}
	}
	if in.Status != "" {
		f.Statuses = append(f.Statuses, in.Status)
	}
	statuses, known := statusesOf(in.Statuses)
	if !known {
		bad = append(bad, fault.Field{Path: "query.statuses", Message: "must be of " +
			strings.Join(Lifecycle.Values(), ", ")})
	}
	f.Statuses = append(f.Statuses, statuses...)
	return f, rejected(bad)
}

// statusesOf reads states that are repeated or separated by commas. Each counts
// once, because a caller can send very many.
func statusesOf(words []string) (statuses []Status, known bool) {
	for _, word := range words {
		for part := range strings.SplitSeq(word, ",") {
			status := Status(strings.TrimSpace(part))
			if _, known := Lifecycle.State(status); !known {
				return nil, false
			}
			if !slices.Contains(statuses, status) {
				statuses = append(statuses, status)
			}
		}
	}
	return statuses, true
}

func (in ListInput) order() Order { return Order{By: in.Sort, Descending: in.Order == "desc"} }

func (s *Service) registerReads(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-nodes", Method: http.MethodGet, Path: pathNodes, Tag: tag,
		Summary: "List the nodes", Access: httpapi.Platform(auth.NodeRead),
	}, func(ctx context.Context, in *ListInput) (*httpapi.Listed[View], error) {
		order := in.order()
		page := postgres.Slice[Position]{After: Position{Order: order}, Limit: in.Page().Limit()}
		if _, err := in.Page().After(&page.After); err != nil {
			return nil, err
		}
		filter, err := in.filter()
		if err != nil {
			return nil, err
		}
		rows, err := s.Nodes(ctx, filter, page)
		return httpapi.ListOf(in.Page(), rows, err, s.show, func(v View) any { return order.position(v) })
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-node", Method: http.MethodGet, Path: pathNode, Tag: tag,
		Summary: "Read a node and its newest history", Access: httpapi.Platform(auth.NodeRead),
	}, func(ctx context.Context, in *Path) (*httpapi.Versioned[DetailView], error) {
		found, err := s.Detail(ctx, in.NodeID)
		if err != nil {
			return nil, err
		}
		entries, err := s.History(ctx, in.NodeID, 0, nil, 20)
		return httpapi.AtVersion(found.Version, s.showDetail(found, entries)), err
	})
}

// AgentOf shows which agent a node has and should have.
func (s *Service) AgentOf(ctx context.Context, of id.Node) (AgentView, error) {
	found, err := s.Node(ctx, of)
	return s.showAgent(found), err
}

func (s *Service) registerChanges(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "create-node", Method: http.MethodPost, Path: pathNodes, Tag: tag,
		Summary: "Add a node that is onboarded by hand",
		Description: "The answer holds the bootstrap, which is shown this once: run the command on the machine as root, or " +
			"give it the user data. " +
			"The node is active as soon as its agent has polled.",
		Access: httpapi.Platform(auth.NodeManage), Status: http.StatusCreated, SecretResponse: true,
	}, func(ctx context.Context, in *struct{ Body NewBody }) (*Created, error) {
		return s.createBootstrapped(ctx, in.Body)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "update-node", Method: http.MethodPatch, Path: pathNode, Tag: tag,
		Summary: "Change facts of a node, or hold it", Description: "The state of a node is not changed here.",
		Access: httpapi.Platform(auth.NodeManage),
	}, func(ctx context.Context, in *struct {
		Path
		httpapi.IfMatch
		Body ChangeBody
	},
	) (*httpapi.Versioned[View], error) {
		version, err := in.Version()
		if err != nil {
			return nil, err
		}
		after, err := s.Update(ctx, in.NodeID, version, Change(in.Body))
		return httpapi.AtVersion(after.Version, s.show(after)), err
	})
}

// createBootstrapped renders the bootstrap first. If that fails, no node is
// created.
func (s *Service) createBootstrapped(ctx context.Context, b NewBody) (*Created, error) {
	token := s.newToken(Bootstrap, s.settings.BootstrapTTL)
	bootstrap, err := s.render(ctx, token, b.BootstrapMode)
	if err != nil {
		return nil, err
	}
	made, err := s.create(ctx, NewNode{
		Hostname: b.Hostname, Host: b.Host, Port: b.Port, SSHUsername: b.SSHUsername, SKU: b.SKU, GPUsTotal: b.GPUsTotal,
		RegionCode: b.RegionCode, Mode: Manual, Grouping: b.Grouping(),
	}, token)
	if err != nil {
		return nil, err
	}
	return &Created{ETag: httpapi.ETag(made.Version), Body: NewView{Node: s.show(made), Bootstrap: bootstrap}}, nil
}

func (s *Service) render(ctx context.Context, token Token, mode BootstrapMode) (BootstrapView, error) {
	v := BootstrapView{Token: token.Plain.Reveal(), ExpiresAt: token.ExpiresAt, CAFingerprint: s.bootstrap.CAFingerprint()}
	var text redact.Secret
	var err error
	if mode == CloudInit {
		text, err = s.bootstrap.CloudInit(ctx, token.Plain)
		v.UserData = text.Reveal()
		return v, err
	}
	text, err = s.bootstrap.Command(token.Plain)
	v.Command = text.Reveal()
	return v, err
}
