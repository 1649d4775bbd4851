package allocation

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/fleet/node"
)

const (
	tag         = "Allocations"
	pathProject = "/api/v1/projects/{project_id}/allocations"
	pathOne     = pathProject + "/{allocation_id}"
	pathFlat    = "/api/v1/allocations"
)

// Schema is the enum of the contract: the states of the lifecycle. It implements
// huma.SchemaProvider.
func (Status) Schema(huma.Registry) *huma.Schema { return httpapi.StatesOf(Lifecycle.Describe()) }

// View is an allocation as the API shows it.
type View struct {
	AllocationID       id.Allocation       `json:"allocation_id"`
	ProjectID          id.Project          `json:"project_id"`
	GroupID            *id.AllocationGroup `json:"group_id,omitempty" doc:"Those that were asked for together; absent: it was alone."`
	Name               string              `json:"name,omitempty"`
	Labels             map[string]string   `json:"labels,omitempty"`
	Status             Status              `json:"status"`
	WaitingFor         string              `json:"waiting_for,omitempty" doc:"What it waits for now; absent: nothing."`
	CapacityShape      Shape               `json:"capacity_shape" enum:"baremetal,gpu_slice"`
	SKU                string              `json:"sku"`
	GPUs               int32               `json:"gpus"`
	PriceMinor         int64               `json:"price_minor" doc:"Price of one GPU for one hour when it was asked for, in minor units."`
	PriceCurrency      string              `json:"price_currency"`
	Region             string              `json:"region"`
	NodeID             id.Node             `json:"node_id"`
	Hostname           string              `json:"hostname"`
	Host               string              `json:"host,omitempty" doc:"Address to reach the node by; only while it is active."`
	Port               int32               `json:"port,omitempty" doc:"Port of SSH there."`
	HostKeys           []HostKeyView       `json:"host_keys,omitempty" nullable:"false" doc:"By which keys to recognise the node over SSH, as its installation said before you had access; only while it is active. Absent: nobody knows."`
	HostKeysChangedAt  *time.Time          `json:"host_keys_changed_at,omitempty" doc:"Since when the node shows other keys than these, without having been reinstalled; absent: it does not."`
	HostKeysShown      []HostKeyView       `json:"host_keys_shown,omitempty" nullable:"false" doc:"The keys that it shows instead; only where they changed."`
	Username           string              `json:"username" doc:"The account on the node."`
	Access             Access              `json:"access" enum:"user,root"`
	SSHKeys            []Key               `json:"ssh_keys" nullable:"false" doc:"Keys that shall open it."`
	KeysChangingSince  *time.Time          `json:"keys_changing_since,omitempty" doc:"Since when its node is behind with these keys; absent: it is not."`
	KeysWaitingFor     string              `json:"keys_waiting_for,omitempty" doc:"What that waits for."`
	Protected          bool                `json:"protected"`
	RequestedBy        string              `json:"requested_by"`
	RequestedByName    string              `json:"requested_by_name,omitempty"`
	FailureCode        string              `json:"failure_code,omitempty"`
	FailureReason      string              `json:"failure_reason,omitempty"`
	Remedy             string              `json:"remedy,omitempty"`
	ReleaseCause       Cause               `json:"release_cause,omitempty" enum:"tenant,expiry,administrator,billing,operation"`
	ReleaseReason      string              `json:"release_reason,omitempty"`
	ReleaseFailed      string              `json:"release_failed_reason,omitempty" doc:"Why cleaning stopped; absent: it did not."`
	Repairing          *RepairingView      `json:"repairing,omitempty" doc:"Its node is being repaired, and its tenant keeps it; absent: it is not."`
	Maintenance        *AnnouncedView      `json:"maintenance,omitempty" doc:"Maintenance that is announced to its tenant; absent: none."`
	Complaint          *ComplaintBody      `json:"complaint,omitempty" doc:"What its tenant found wrong with the hardware; absent: nothing."`
	CleanupID          *id.Decommission    `json:"cleanup_id,omitempty" doc:"The operation that cleans up after it."`
	CreatedAt          time.Time           `json:"created_at"`
	ProvisioningAt     *time.Time          `json:"provisioning_started_at,omitempty"`
	ActiveAt           *time.Time          `json:"active_at,omitempty"`
	ExpiresAt          *time.Time          `json:"expires_at,omitempty" doc:"When it ends by itself; absent: never."`
	ReleaseRequestedAt *time.Time          `json:"release_requested_at,omitempty" doc:"Since when nothing is charged."`
	ReleasedAt         *time.Time          `json:"released_at,omitempty"`
	FailedAt           *time.Time          `json:"failed_at,omitempty"`
	StatusChangedAt    time.Time           `json:"status_changed_at"`
}

// HostKeyView is a key by which to recognise a node over SSH.
type HostKeyView struct {
	Algorithm   string `json:"algorithm" example:"ssh-ed25519"`
	PublicKey   string `json:"public_key" doc:"Algorithm and key, as known_hosts has them after the name of the host."`
	Fingerprint string `json:"fingerprint" example:"SHA256:jlNvGTsV8BKsNMJWfo8SsS2pBVLr6sl2bG8dGZ5JyzM"`
}

func showHostKeys(keys []node.HostKey) []HostKeyView {
	out := make([]HostKeyView, len(keys))
	for i, k := range keys {
		out[i] = HostKeyView{Algorithm: k.Algorithm, PublicKey: k.Line, Fingerprint: k.Fingerprint}
	}
	return out
}

func optional[noun any](of id.Of[noun]) *id.Of[noun] {
	if of.IsZero() {
		return nil
	}
	return &of
}

func show(ctx context.Context, a Allocation) View {
	a = a.seenBy(ctx)
	keys := a.Keys
	if keys == nil {
		keys = []Key{}
	}
	return View{
		Complaint:    (*ComplaintBody)(a.Complaint),
		AllocationID: a.ID, ProjectID: a.Project, GroupID: optional(a.Group), Name: a.Name, Labels: a.Labels,
		Status:     a.Status,
		WaitingFor: a.WaitingFor, CapacityShape: a.Shape, SKU: a.SKU, GPUs: a.GPUs, PriceMinor: a.Terms.PriceMinor,
		PriceCurrency: a.Terms.PriceCurrency, Region: a.Region, NodeID: a.Node, Hostname: a.Hostname, Username: a.Username,
		Access: a.Access, SSHKeys: keys, KeysChangingSince: a.Keyring.ChangingSince, KeysWaitingFor: a.Keyring.WaitingFor,
		Protected: a.Protected, RequestedBy: a.AskedBy, RequestedByName: a.AskedName,
		FailureCode: a.Failure.Code, FailureReason: a.Failure.Reason, Remedy: a.Failure.Remedy,
		ReleaseCause: a.Release.Cause, ReleaseReason: a.Release.Reason, ReleaseFailed: a.Release.Failed,
		CleanupID: optional(a.Cleanup), CreatedAt: a.Times.Created.UTC(), ProvisioningAt: a.Times.ProvisioningStarted,
		ActiveAt: a.Times.Active, ExpiresAt: a.ExpiresAt, ReleaseRequestedAt: a.Times.ReleaseRequested,
		ReleasedAt: a.Times.Released, FailedAt: a.Times.Failed, StatusChangedAt: a.Times.StatusChanged.UTC(),
	}
}

// AskBody is what a tenant asks for.
type AskBody struct {
	SKU          string            `json:"sku" minLength:"1" maxLength:"63" example:"h200-8"`
	GPUs         int32             `json:"gpus,omitempty" minimum:"0" maximum:"64" doc:"GPUs of each; a SKU that is rented whole has what it has. Left out: that."`
	Count        int32             `json:"count,omitempty" minimum:"0" maximum:"64" doc:"Nodes, each an allocation of its own; all or none. Left out: one." example:"1"`
	Region       string            `json:"region,omitempty" maxLength:"63" doc:"Left out: any."`
	Arrangement  Arrangement       `json:"arrangement,omitempty" enum:"spread,pack,same_rack" doc:"How nodes are to stand to each other and to those that the project has; a wish. Left out: spread over racks."`
	NodeLabels   map[string]string `json:"node_labels,omitempty" doc:"Labels that a node must have; tenants may ask for those that begin with public/."`
	Capabilities map[string]string `json:"capabilities,omitempty" doc:"Capabilities that a node must have, such as gpu.driver_series."`
	Name         string            `json:"name,omitempty" maxLength:"100" doc:"Where several are asked for, each gets a number: training-1." example:"training"`
	Labels       map[string]string `json:"labels,omitempty" doc:"Words of your own."`
	Access       Access            `json:"access,omitempty" enum:"user,root" doc:"root gives sudo: the node is reinstalled afterwards. Left out: user."`
	SSHKeyIDs    []id.SSHKey       `json:"ssh_key_ids,omitempty" maxItems:"100" nullable:"false" doc:"Left out: your own and those of the project."`
	ExpiresIn    *int64            `json:"expires_in_seconds,omitempty" minimum:"0" maximum:"31622400" doc:"0: it never ends by itself, where the project may have that. Left out: as the rental settings of the project say."`
	Protected    bool              `json:"protected,omitempty" doc:"Refuses its release until that is lifted."`
	WaitUpTo     int64             `json:"wait_up_to_seconds,omitempty" minimum:"0" maximum:"604800" doc:"Where there are not enough nodes, the request waits for them so long, and the answer is 202 with it. Left out: it is refused."`
	HourMost     *MostBody         `json:"hour_most,omitempty" doc:"What one node may cost for an hour, after discounts, when it is placed: nothing is rented at a higher price. Left out: whatever it costs; a request that waits is placed at the price of when it was made at the most."`
}

// MostBody is the highest amount that somebody will pay.
type MostBody struct {
	AmountMinor int64  `json:"amount_minor" minimum:"0" maximum:"1000000000000000" doc:"In minor units." example:"2800"`
	Currency    string `json:"currency" pattern:"^[A-Z]{3}$" doc:"Must be the currency of the tenant." example:"USD"`
}

func (b AskBody) ask(project id.Project) Ask {
	a := Ask{
		Project: project, SKU: b.SKU, GPUs: b.GPUs, Count: b.Count, Name: b.Name, Labels: b.Labels, Access: b.Access,
		Keys: b.SSHKeyIDs, Protected: b.Protected, WaitUpTo: time.Duration(b.WaitUpTo) * time.Second,
		Wish: Wish{
			Labels: b.NodeLabels, Capabilities: b.Capabilities, Region: b.Region, Arrangement: b.Arrangement,
		},
	}
	if b.ExpiresIn != nil {
		a.ExpiresIn, a.Never = time.Duration(*b.ExpiresIn)*time.Second, *b.ExpiresIn == 0
	}
	if m := b.HourMost; m != nil {
		a.HourMost, a.HourIn = &m.AmountMinor, m.Currency
	}
	return a
}

// Made is what was made of a request.
type Made struct {
	AllocationID id.Allocation `json:"allocation_id" doc:"The first of them."`
	Status       Status        `json:"status"`
	Allocations  []View        `json:"allocations" nullable:"false"`
	Cost         *Cost         `json:"cost,omitempty" doc:"What all of them cost. Left out: nothing is charged."`
}

// answer shows what became of a request.
func answer(ctx context.Context, o Outcome, err error) (*httpapi.Branched[Made], error) {
	if err != nil {
		return nil, err
	}
	if o.Request != nil {
		return httpapi.Recorded[Made](showRequest(*o.Request)), nil
	}
	list := o.Allocations
	m := Made{AllocationID: list[0].ID, Status: list[0].Status, Allocations: make([]View, len(list)), Cost: o.Cost}
	for i, a := range list {
		m.Allocations[i] = show(ctx, a)
	}
	return httpapi.Done(http.StatusCreated, m), nil
}

// ProjectPath names a project in the path. It is exported because the framework
// reads embedded parameters only from exported types.
type ProjectPath struct {
	ProjectID id.Project `path:"project_id" doc:"Id of the project."`
}

// Path names an allocation in the path.
type Path struct {
	AllocationID id.Allocation `path:"allocation_id" doc:"Id of the allocation."`
}

// Both names an allocation of a project in the path.
type Both struct {
	ProjectPath
	Path
}

// Chosen chooses allocations of a list.
type Chosen struct {
	Status []Status `query:"status" nullable:"false" doc:"Only in these states."`
	Node   string   `query:"node_id" format:"uuid" doc:"Only on this node."`
}

func (f Chosen) selection(project id.Project) (Selection, error) {
	of := Selection{Project: project, Statuses: f.Status}
	if f.Node == "" {
		return of, nil
	}
	node, err := id.Parse[id.Node](f.Node)
	of.Node = node
	if err != nil {
		return of, rejected(fault.Field{Path: "query.node_id", Message: "is no id"})
	}
	return of, nil
}

func position(v View) any { return v.AllocationID }

// Register adds the operations of the package to an API.
func (s *Service) Register(api *httpapi.API) {
	s.registerProject(api)
	s.registerChoices(api)
	s.registerOne(api)
	s.registerReceipts(api)
	s.registerRepairs(api)
	s.registerRequests(api)
	s.registerFlat(api)
	s.registerAdmin(api)
}

func (s *Service) registerProject(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "create-allocation", Method: http.MethodPost, Path: pathProject, Tag: tag, Status: http.StatusCreated,
		Summary: "Rent nodes",
		Description: "Places them at once, all or none, and answers; a workflow checks them and makes the account. Follow " +
			"`status`, or the events provisioning.*. Where there is not enough, the refusal `sku_unavailable` says why, with " +
			"counts, unless the request is ready to wait (`wait_up_to_seconds`).",
		Access: httpapi.Project(auth.AllocationUse), Accepted: RequestView{},
	}, func(ctx context.Context, in *struct {
		ProjectPath
		Body AskBody
	},
	) (*httpapi.Branched[Made], error) {
		made, err := s.Request(ctx, in.Body.ask(in.ProjectID))
		return answer(ctx, made, err)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "explain-allocation", Method: http.MethodPost, Path: pathProject + "/explain", Tag: tag,
		WhileDisabled: true,
		Summary:       "See what a request could have now, and why not more, without asking for it",
		Access:        httpapi.Project(auth.AllocationRead),
	}, func(ctx context.Context, in *struct {
		ProjectPath
		Body AskBody
	},
	) (*httpapi.Plain[Capacity], error) {
		c, err := s.Explain(ctx, in.Body.ask(in.ProjectID))
		return &httpapi.Plain[Capacity]{Body: c}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-allocations", Method: http.MethodGet, Path: pathProject, Tag: tag,
		Summary: "List the allocations of a project, newest first", Access: httpapi.Project(auth.AllocationRead),
	}, func(ctx context.Context, in *struct {
		ProjectPath
		Chosen
		httpapi.Page
	},
	) (*httpapi.Listed[View], error) {
		of, err := in.selection(in.ProjectID)
		if err != nil {
			return nil, err
		}
		return s.listed(ctx, of, in.Page)
	})
}

func (s *Service) listed(ctx context.Context, of Selection, page httpapi.Page) (*httpapi.Listed[View], error) {
	slice, err := httpapi.SliceOf[id.Allocation](page)
	if err != nil {
		return nil, err
	}
	rows, err := s.List(ctx, of, slice)
	list, err := httpapi.ListOf(page, rows, err, func(a Allocation) View { return show(ctx, a) }, position)
	if err != nil {
		return nil, err
	}
	list.Body.Items, err = s.allConditioned(ctx, list.Body.Items)
	return list, err
}

// LeaveBody is how an allocation is given back.
type LeaveBody struct {
	Reason    string         `json:"reason,omitempty" maxLength:"500"`
	Complaint *ComplaintBody `json:"complaint,omitempty" doc:"What is wrong with the hardware: an operator looks at the node before others get it."`
}

// ComplaintBody is what a tenant found wrong with the hardware.
type ComplaintBody struct {
	Category string `json:"category" enum:"gpu,network,disk,memory,performance,other"`
	Text     string `json:"text" minLength:"3" maxLength:"1000"`
}

func (b LeaveBody) leaving() Leaving {
	l := Leaving{Cause: ByTenant, Reason: b.Reason}
	if b.Complaint != nil {
		l.Complaint = &Complaint{Category: b.Complaint.Category, Text: b.Complaint.Text}
	}
	return l
}

// MomentView is an entry of the timeline.
type MomentView struct {
	Seq       int64          `json:"seq"`
	At        time.Time      `json:"at"`
	Event     string         `json:"event"`
	Status    Status         `json:"status"`
	ActorKind string         `json:"actor_kind"`
	Actor     string         `json:"actor"`
	Message   string         `json:"message"`
	Details   map[string]any `json:"details,omitempty"`
}

func moment(m Moment) MomentView {
	return MomentView{
		Seq: m.Seq, At: m.At.UTC(), Event: m.Event, Status: m.Status, ActorKind: m.ActorKind, Actor: m.Actor,
		Message: m.Message, Details: m.Details,
	}
}

// timeline answers with what happened to an allocation.
func (s *Service) timeline(ctx context.Context, of id.Allocation, page httpapi.Page) (*httpapi.Listed[MomentView],
	error,
) {
	slice, err := httpapi.SliceOf[int64](page)
	if err != nil {
		return nil, err
	}
	rows, err := s.Timeline(ctx, of, slice)
	if !insider(ctx) {
		for i := range rows {
			rows[i] = rows[i].forTenant()
		}
	}
	return httpapi.ListOf(page, rows, err, moment, func(m MomentView) any { return m.Seq })
}
