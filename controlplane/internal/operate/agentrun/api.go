package agentrun

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/fleet/node"
)

const (
	pathAgent = "/api/v1/admin/nodes/{node_id}/agent-lifecycle"
	pathRuns  = pathAgent + "/runs"
	pathRun   = pathRuns + "/{run_id}"
	tag       = "Nodes"
)

// Schema implements huma.SchemaProvider.
func (Status) Schema(huma.Registry) *huma.Schema { return httpapi.StatesOf(Lifecycle.Describe()) }

// Schema implements huma.SchemaProvider.
func (Scenario) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(scenarios) }

// Schema implements huma.SchemaProvider.
func (Safety) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(safeties) }

// Schema implements huma.SchemaProvider.
func (Way) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(ways) }

// Schema implements huma.SchemaProvider.
func (Action) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(actions) }

// NewBody is a run that somebody asks for.
type NewBody struct {
	Mode     node.Delivery `json:"mode" doc:"rebootstrap: in place, as far as the agent can be told, and otherwise with one step on the machine; manual_install: by somebody on the machine; reimage: by a decommission, which DESTROYS what is on it."`
	Scenario Scenario      `json:"scenario" doc:"What is wrong: there is no agent yet, its version is old, its installation is broken, its certificate is of no use, or it drifted."`
	Target   string        `json:"target_version,omitempty" maxLength:"64" doc:"The version that the node must report in the end; an upgrade needs one. Left out: what the node should run, or runs." example:"1.4.0"`
	Safety   Safety        `json:"safety_policy" doc:"idle_only: when the node is idle, that is without claim of a tenant, task, operation and open terminal; after_drain: likewise, and nothing new is placed on it meanwhile; force: at once."`
	Reason   string        `json:"reason" minLength:"1" maxLength:"500" doc:"Why; the audit log keeps it."`
}

// ReasonBody says why.
type ReasonBody struct {
	Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"Why; the audit log keeps it."`
}

// NextView is what is to be done next.
type NextView struct {
	Action  Action `json:"action" doc:"brokered_bootstrap: the mode cannot reach the agent, so somebody must act on the machine; manual_install: that is what was asked for."`
	Text    string `json:"text" doc:"For people; empty: nothing is to be done."`
	Command string `json:"command" doc:"What to type; empty: nothing."`
}

// View is a run as the API shows it.
type View struct {
	RunID      id.AgentRun      `json:"run_id"`
	NodeID     id.Node          `json:"node_id"`
	Hostname   string           `json:"hostname"`
	Mode       node.Delivery    `json:"mode"`
	Scenario   Scenario         `json:"scenario"`
	Safety     Safety           `json:"safety_policy"`
	Target     string           `json:"target_version" doc:"Empty: no certain version is wanted."`
	From       string           `json:"from_version" doc:"What the node reported when the run began."`
	Way        Way              `json:"way" doc:"What is done: a decommission, a task of the agent, or a step on the machine."`
	Status     Status           `json:"status"`
	Detail     string           `json:"detail" doc:"What it waits for, or what happened; empty: nothing is to be said."`
	ErrorCode  string           `json:"error_code" doc:"Why it is parked; empty: it is not."`
	Error      string           `json:"error_message" doc:"The same for people."`
	Next       NextView         `json:"next_action" doc:"What is to be done."`
	TaskID     *id.NodeTask     `json:"task_id,omitempty" doc:"What the agent was last told."`
	Reinstalls *id.Decommission `json:"decommission_id,omitempty" doc:"The decommission that reinstalls the machine."`
	Attempt    int32            `json:"attempt" doc:"Grows with each retry."`
	DeadlineAt *time.Time       `json:"deadline_at,omitempty" doc:"When the present phase ends, whatever happens."`
	Reason     string           `json:"reason"`
	By         string           `json:"requested_by"`
	CreatedAt  time.Time        `json:"created_at"`
	UpdatedAt  time.Time        `json:"updated_at"`
	FinishedAt *time.Time       `json:"finished_at,omitempty"`
}

func show(r Run) View {
	next := r.Next()
	v := View{
		RunID: r.ID, NodeID: r.Node, Hostname: r.Hostname, Mode: r.Mode, Scenario: r.Scenario, Safety: r.Safety,
		Target: r.Target, From: r.From, Way: r.Way, Status: r.Status, Detail: r.Detail, ErrorCode: r.Why.Code,
		Error: r.Why.Message, Next: NextView(next), Attempt: r.Attempt, DeadlineAt: utc(r.DeadlineAt), Reason: r.Reason,
		By: r.By, CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(), FinishedAt: utc(r.FinishedAt),
	}
	if !r.Task.IsZero() {
		v.TaskID = &r.Task
	}
	if !r.Reinstalls.IsZero() {
		v.Reinstalls = &r.Reinstalls
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

// DetailView is a run with what somebody needs who installs by hand.
type DetailView struct {
	View
	Package *Package `json:"package,omitempty" doc:"What the version is made of; only where somebody acts on the machine and a version is wanted."`
}

// NewView is the answer to a request.
type NewView struct {
	DetailView
	Bootstrap *node.BootstrapView `json:"bootstrap,omitempty" doc:"What somebody runs on the machine, shown this once; absent: nobody must, or not yet."`
}

// LifecycleView is the agent of a node, with what was last done to it.
type LifecycleView struct {
	node.AgentView
	Latest *View `json:"latest_run,omitempty" doc:"The newest run; absent: there was none."`
}

// NodePath names a node in the path.
type NodePath struct {
	NodeID id.Node `path:"node_id" doc:"Id of the node."`
}

// RunPath names a run in the path.
type RunPath struct {
	NodePath
	RunID id.AgentRun `path:"run_id" doc:"Id of the run."`
}

func (s *Service) detail(ctx context.Context, r Run) (DetailView, error) {
	v := DetailView{View: show(r)}
	if r.Way != ByOperator || r.Target == "" || r.Status.Over() {
		return v, nil
	}
	raw, refused, err := s.signed(ctx, r)
	if err != nil || refused != nil || raw == nil {
		return v, err
	}
	var p agentwire.SelfUpdateParams
	if err := json.Unmarshal(raw, &p); err != nil {
		return v, fmt.Errorf("read package of version: %w", err)
	}
	programs, err := s.Programs(ctx, r.Target)
	v.Package = &Package{p.Version, p.Digest, p.SizeBytes, p.SignerVersion, programs}
	return v, err
}

// Register adds the operations of the package to an API.
func (s *Service) Register(api *httpapi.API) {
	s.registerReads(api)
	httpapi.Register(api, httpapi.Operation{
		ID: "begin-agent-run", Method: http.MethodPost, Path: pathAgent, Tag: tag,
		Summary: "Bring an agent to a node, or mend the one that is there",
		Description: "Recorded, explained and followed until the node has proven it. What somebody must run on the machine is " +
			"shown this once. A reimage is a decommission, needs decommission:manage, and DESTROYS what is on the machine.",
		Access: httpapi.Platform(auth.NodeManage), Status: http.StatusCreated, SecretResponse: true,
	}, func(ctx context.Context, in *struct {
		NodePath
		Body NewBody
	},
	) (*httpapi.Plain[NewView], error) {
		begun, err := s.Begin(ctx, in.NodeID, Order(in.Body))
		if err != nil {
			return nil, err
		}
		v, err := s.detail(ctx, begun.Run)
		if err != nil { // the run has begun, and its token is shown this once only
			v = DetailView{View: show(begun.Run)}
		}
		return &httpapi.Plain[NewView]{Body: NewView{v, begun.Bootstrap}}, nil
	})
	s.registerActs(api)
}

func (s *Service) registerReads(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "get-node-agent-lifecycle", Method: http.MethodGet, Path: pathAgent, Tag: tag,
		Summary: "Read which agent a node has and should have, and what was last done to it",
		Access:  httpapi.Platform(auth.NodeRead),
	}, func(ctx context.Context, in *NodePath) (*httpapi.Plain[LifecycleView], error) {
		agent, err := s.Nodes.AgentOf(ctx, in.NodeID)
		if err != nil {
			return nil, err
		}
		v := LifecycleView{AgentView: agent}
		latest, err := s.Latest(ctx, in.NodeID)
		if latest != nil {
			shown := show(*latest)
			v.Latest = &shown
		}
		return &httpapi.Plain[LifecycleView]{Body: v}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-agent-runs", Method: http.MethodGet, Path: pathRuns, Tag: tag,
		Summary: "List what was done to the agent of a node", Access: httpapi.Platform(auth.NodeRead),
	}, func(ctx context.Context, in *struct {
		NodePath
		httpapi.Page
	},
	) (*httpapi.Listed[View], error) {
		page, err := httpapi.SliceOf[position](in.Page)
		if err != nil {
			return nil, err
		}
		rows, err := s.List(ctx, in.NodeID, page)
		return httpapi.ListOf(in.Page, rows, err, show, func(v View) any { return position{v.CreatedAt, v.RunID} })
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-agent-run", Method: http.MethodGet, Path: pathRun, Tag: tag,
		Summary: "Read one thing that was done to the agent of a node", Access: httpapi.Platform(auth.NodeRead),
	}, func(ctx context.Context, in *RunPath) (*httpapi.Plain[DetailView], error) {
		r, err := s.Get(ctx, in.NodeID, in.RunID)
		if err != nil {
			return nil, err
		}
		v, err := s.detail(ctx, r)
		return &httpapi.Plain[DetailView]{Body: v}, err
	})
}

func (s *Service) registerActs(api *httpapi.API) {
	act := func(name, summary, description string, do func(ctx context.Context, r Run, reason string) (Run, error)) {
		httpapi.Register(api, httpapi.Operation{
			ID: name + "-agent-run", Method: http.MethodPost, Path: pathRun + "/" + name, Tag: tag,
			Summary: summary, Description: description, Access: httpapi.Platform(auth.NodeManage), Status: http.StatusOK,
		}, func(ctx context.Context, in *struct {
			RunPath
			Body ReasonBody
		},
		) (*httpapi.Plain[View], error) {
			r, err := s.Get(ctx, in.NodeID, in.RunID)
			if err != nil {
				return nil, err
			}
			r, err = do(ctx, r, in.Body.Reason)
			return &httpapi.Plain[View]{Body: show(r)}, err
		})
	}
	act("retry", "Let a parked run on the agent of a node begin again",
		"By what its mode and scenario do for the node as it is by then.", s.Retry)
	act("cancel", "End a run on the agent of a node",
		"What the agent has fetched goes to its end, and so does a decommission.", s.Cancel)
}
