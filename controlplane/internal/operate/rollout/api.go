package rollout

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

const (
	pathRollouts = "/api/v1/admin/agent-rollouts"
	pathRollout  = pathRollouts + "/{rollout_id}"
	tag          = "Agent rollouts"
)

// Schema implements huma.SchemaProvider.
func (Status) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(statuses) }

// Schema implements huma.SchemaProvider.
func (Outcome) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(outcomes) }

// NewBody is a rollout that somebody asks for.
type NewBody struct {
	Version string `json:"version" minLength:"1" maxLength:"64" doc:"A release." example:"1.4.0"`
	Target  Target `json:"target" doc:"Which nodes are meant; all that are assigned to a channel, if it is empty."`
	Plan    Plan   `json:"plan" doc:"How careful it is."`
	Reason  string `json:"reason" minLength:"1" maxLength:"500" doc:"Why; the audit log keeps it."`
}

func (b NewBody) order() Order {
	return Order(b)
}

// ReasonBody says why.
type ReasonBody struct {
	Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"Why; the audit log keeps it."`
}

// AbortBody says how a rollout ends.
type AbortBody struct {
	Back   bool   `json:"back,omitempty" doc:"All nodes that have the version go back to the one before; otherwise they keep it."`
	Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"Why; the audit log keeps it."`
}

// CountView is how many nodes of a wave have an outcome.
type CountView struct {
	Wave    int32   `json:"wave" doc:"0: the canaries; -1: nodes that the rollout leaves alone."`
	Outcome Outcome `json:"outcome"`
	Nodes   int64   `json:"nodes"`
}

// View is a rollout as the API shows it.
type View struct {
	RolloutID     id.Rollout  `json:"rollout_id"`
	Version       string      `json:"version"`
	Status        Status      `json:"status" doc:"returning: nodes in flight come to their end, or all go back, before it is aborted."`
	Target        Target      `json:"target"`
	Plan          Plan        `json:"plan"`
	Waves         int32       `json:"waves" doc:"How many there are, the canaries among them."`
	Wave          int32       `json:"wave" doc:"The one under way; 0: the canaries."`
	PausedCode    string      `json:"paused_code" doc:"What it is paused for: paused_by_operator, too_many_failures, awaits_approval or release_refused; going_back: it was aborted, and all nodes go back."`
	PausedBecause string      `json:"paused_because" doc:"The same for people."`
	OpensAt       *time.Time  `json:"opens_at,omitempty" doc:"When its next maintenance window opens, before which no node is begun with; absent: one is open, or it has none."`
	Counts        []CountView `json:"counts" nullable:"false" doc:"How far its nodes have come."`
	Reason        string      `json:"reason"`
	RequestedBy   string      `json:"requested_by"`
	CreatedAt     time.Time   `json:"created_at"`
	UpdatedAt     time.Time   `json:"updated_at"`
	FinishedAt    *time.Time  `json:"finished_at,omitempty"`
}

func (s *Service) show(r Rollout) View {
	v := View{
		RolloutID: r.ID, Version: r.Version, Status: r.Status, Target: r.Target, Plan: r.Plan, Waves: r.Waves, Wave: r.Wave,
		PausedCode: r.PausedCode, PausedBecause: r.PausedBecause, Counts: []CountView{}, Reason: r.Reason,
		RequestedBy: r.RequestedBy, CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(), FinishedAt: utc(r.FinishedAt),
	}
	if opens, err := r.opensAt(s.Clock()); err == nil && !r.Status.Over() { // what is kept was checked
		v.OpensAt = utc(opens)
	}
	for _, c := range r.Counts {
		v.Counts = append(v.Counts, CountView{c.Wave, c.Outcome, c.Nodes})
	}
	return v
}

// MemberView is a node of a rollout as the API shows it.
type MemberView struct {
	NodeID     id.Node      `json:"node_id"`
	Hostname   string       `json:"hostname"`
	Wave       int32        `json:"wave" doc:"0: a canary; -1: the rollout leaves it alone."`
	Outcome    Outcome      `json:"outcome"`
	Detail     string       `json:"detail" doc:"Why, or what it waits for."`
	From       string       `json:"from_version" doc:"What it ran before; empty: it was not begun with."`
	TaskID     *id.NodeTask `json:"task_id,omitempty" doc:"The task that it was last given."`
	StartedAt  *time.Time   `json:"started_at,omitempty"`
	DeadlineAt *time.Time   `json:"deadline_at,omitempty" doc:"When the present phase ends, whatever happens."`
	BakeUntil  *time.Time   `json:"bake_until,omitempty"`
	FinishedAt *time.Time   `json:"finished_at,omitempty"`
}

func showMember(m Member) MemberView {
	v := MemberView{
		NodeID: m.Node, Hostname: m.Hostname, Wave: -1, Outcome: m.Outcome, Detail: m.Detail, From: m.From,
		StartedAt: utc(m.StartedAt), DeadlineAt: utc(m.DeadlineAt), BakeUntil: utc(m.BakeUntil),
		FinishedAt: utc(m.FinishedAt),
	}
	if m.Wave != nil {
		v.Wave = *m.Wave
	}
	if !m.Task.IsZero() {
		v.TaskID = &m.Task
	}
	return v
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

// PreviewView is what a rollout would do.
type PreviewView struct {
	Waves int32        `json:"waves" doc:"How many there would be, the canaries among them."`
	Plan  Plan         `json:"plan" doc:"The plan with what it did not say."`
	Opens *time.Time   `json:"opens_at,omitempty" doc:"When its next maintenance window opens; absent: it would begin at once."`
	Nodes []MemberView `json:"nodes" nullable:"false" doc:"Who would be in which wave, and who would be left alone and why; the first 2000."`
	Total int64        `json:"total" doc:"How many nodes are meant."`
}

// Path names a rollout in the path.
type Path struct {
	RolloutID id.Rollout `path:"rollout_id" doc:"Id of the rollout."`
}

type output = httpapi.Plain[View]

func (s *Service) answer(r Rollout, err error) (*output, error) {
	return &output{Body: s.show(r)}, err
}

// Register adds the operations of the package to an API.
func (s *Service) Register(api *httpapi.API) {
	s.registerReads(api)
	httpapi.Register(api, httpapi.Operation{
		ID: "preview-agent-rollout", Method: http.MethodPost, Path: pathRollouts + "/preview", Tag: tag,
		Summary: "See what a rollout of the agent would do", Description: "Nothing is changed.",
		Access: httpapi.Platform(auth.AgentRolloutRead), Status: http.StatusOK,
	}, func(ctx context.Context, in *struct{ Body NewBody }) (*httpapi.Plain[PreviewView], error) {
		r, members, err := s.Preview(ctx, in.Body.order())
		v := PreviewView{Waves: r.Waves, Plan: r.Plan, Nodes: []MemberView{}, Total: int64(len(members))}
		v.Opens = s.show(r).OpensAt
		const most = 2000
		for _, m := range members[:min(most, len(members))] {
			v.Nodes = append(v.Nodes, showMember(m))
		}
		return &httpapi.Plain[PreviewView]{Body: v}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "begin-agent-rollout", Method: http.MethodPost, Path: pathRollouts, Tag: tag,
		Summary: "Bring a release of the agent to many nodes",
		Description: "Canaries of every SKU and site come first, then waves. The list of nodes is frozen. Nodes that are pinned or " +
			"unassigned, or for whose architecture the release has no package, are left alone.",
		Access: httpapi.Platform(auth.AgentRolloutManage), Status: http.StatusCreated,
	}, func(ctx context.Context, in *struct{ Body NewBody }) (*output, error) {
		return s.answer(s.Begin(ctx, in.Body.order()))
	})
	s.registerActs(api)
}

func (s *Service) registerReads(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-agent-rollouts", Method: http.MethodGet, Path: pathRollouts, Tag: tag,
		Summary: "List rollouts of the agent", Access: httpapi.Platform(auth.AgentRolloutRead),
	}, func(ctx context.Context, in *httpapi.Page) (*httpapi.Listed[View], error) {
		page, err := httpapi.SliceOf[position](*in)
		if err != nil {
			return nil, err
		}
		rows, err := s.List(ctx, page)
		return httpapi.ListOf(*in, rows, err, s.show, func(v View) any { return position{v.CreatedAt, v.RolloutID} })
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-agent-rollout", Method: http.MethodGet, Path: pathRollout, Tag: tag,
		Summary: "Read a rollout of the agent", Access: httpapi.Platform(auth.AgentRolloutRead),
	}, func(ctx context.Context, in *Path) (*output, error) { return s.answer(s.Get(ctx, in.RolloutID)) })
	httpapi.Register(api, httpapi.Operation{
		ID: "list-agent-rollout-nodes", Method: http.MethodGet, Path: pathRollout + "/nodes", Tag: tag,
		Summary: "List the nodes of a rollout and how far they have come", Access: httpapi.Platform(auth.AgentRolloutRead),
	}, func(ctx context.Context, in *struct {
		Path
		httpapi.Page
		Outcome Outcome `query:"outcome" doc:"Only nodes with this outcome."`
	},
	) (*httpapi.Listed[MemberView], error) {
		page, err := httpapi.SliceOf[id.Node](in.Page)
		if err != nil {
			return nil, err
		}
		rows, err := s.Members(ctx, in.RolloutID, in.Outcome, page)
		return httpapi.ListOf(in.Page, rows, err, showMember, func(v MemberView) any { return v.NodeID })
	})
}

func (s *Service) registerActs(api *httpapi.API) {
	act := func(name, summary, description string,
		do func(ctx context.Context, of id.Rollout, reason string) (Rollout, error),
	) {
		httpapi.Register(api, httpapi.Operation{
			ID: name + "-agent-rollout", Method: http.MethodPost, Path: pathRollout + "/" + name, Tag: tag,
			Summary: summary, Description: description, Access: httpapi.Platform(auth.AgentRolloutManage), Status: http.StatusOK,
		}, func(ctx context.Context, in *struct {
			Path
			Body ReasonBody
		},
		) (*output, error) {
			return s.answer(do(ctx, in.RolloutID, in.Body.Reason))
		})
	}
	act("pause", "Begin with no further node of a rollout", "Orders that no node has fetched are taken back; nodes in flight come to their end.", s.Pause)
	act("resume", "Let a paused rollout go on", "The failures that it paused for do not pause it again.", s.Resume)
	act("approve", "Let the next wave of a rollout begin", "Of a rollout whose plan asks for approval.", s.Approve)
	httpapi.Register(api, httpapi.Operation{
		ID: "abort-agent-rollout", Method: http.MethodPost, Path: pathRollout + "/abort", Tag: tag,
		Summary: "End a rollout of the agent", Description: "Nodes in flight come to their end first. With `back`, all nodes go back, a few at a time.",
		Access: httpapi.Platform(auth.AgentRolloutManage), Status: http.StatusOK,
	}, func(ctx context.Context, in *struct {
		Path
		Body AbortBody
	},
	) (*output, error) {
		return s.answer(s.Abort(ctx, in.RolloutID, in.Body.Back, in.Body.Reason))
	})
}
