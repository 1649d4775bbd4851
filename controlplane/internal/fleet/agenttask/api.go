package agenttask

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/fleet/node"
)

const (
	pathOfNode = "/api/v1/admin/nodes/{node_id}/tasks"
	pathTasks  = "/api/v1/admin/node-tasks"
	pathTask   = pathTasks + "/{task_id}"
	pathTypes  = "/api/v1/admin/node-task-types"
	tagTasks   = "Node tasks"
)

// Schema is the enum of the contract: the states of the lifecycle. It implements
// huma.SchemaProvider.
func (Status) Schema(huma.Registry) *huma.Schema { return httpapi.StatesOf(Lifecycle.Describe()) }

// View is a task as the API shows it.
type View struct {
	TaskID          id.NodeTask     `json:"task_id" doc:"Id of the task."`
	NodeID          id.Node         `json:"node_id" doc:"The node that is to do it."`
	Type            string          `json:"type" example:"node.drain"`
	Status          Status          `json:"status"`
	Outcome         string          `json:"outcome,omitempty" enum:"done,not_applicable" doc:"Of one that succeeded: not_applicable says that the node had nothing to do it to, such as no GPU to scrub, and that nothing was done. Absent: it has not succeeded."`
	Class           string          `json:"concurrency_class" enum:"exclusive,user,concurrent" doc:"What may run beside it on the node."`
	Params          json.RawMessage `json:"params,omitempty" doc:"What it was asked for with; not in lists."`
	Output          json.RawMessage `json:"output,omitempty" doc:"What the node reports; not in lists."`
	Error           *ErrorView      `json:"error,omitempty" doc:"Why it did not succeed."`
	Attempt         int             `json:"attempt" doc:"How many times it was handed out."`
	MaxAttempts     int             `json:"max_attempts" doc:"How many times it is handed out when its node falls silent."`
	CancelRequested bool            `json:"cancel_requested" doc:"The node is told to stop it."`
	RequestedBy     string          `json:"requested_by"`
	Reason          string          `json:"reason"`
	CorrelationID   string          `json:"correlation_id"`
	WorkflowID      string          `json:"workflow_id,omitempty" doc:"The workflow that waits for it."`
	SignerVersion   string          `json:"signer_version,omitempty" doc:"The key it was signed with when it was handed out last."`
	AgentVersion    string          `json:"agent_version,omitempty" doc:"The agent that ended it."`
	CreatedAt       time.Time       `json:"created_at"`
	DeadlineAt      time.Time       `json:"deadline_at" doc:"When it expires."`
	DispatchedAt    *time.Time      `json:"dispatched_at,omitempty" doc:"When it was handed out last."`
	LeaseExpiresAt  *time.Time      `json:"lease_expires_at,omitempty" doc:"When it is taken back unless its node gives a sign of life."`
	StartedAt       *time.Time      `json:"started_at,omitempty" doc:"By the clock of the node."`
	FinishedAt      *time.Time      `json:"finished_at,omitempty"`
	Steps           []StepView      `json:"steps,omitempty" doc:"What the node reported on the way; not in lists."`
}

// ErrorView says why a task did not succeed.
type ErrorView struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
}

// StepView is one step of a task.
type StepView struct {
	Attempt int       `json:"attempt"`
	Seq     int       `json:"seq"`
	Name    string    `json:"name"`
	Status  string    `json:"status" enum:"started,succeeded,failed,skipped"`
	Message string    `json:"message,omitempty"`
	Percent *int      `json:"percent,omitempty"`
	At      time.Time `json:"at" doc:"By the clock of the node."`
}

// TypeView is one entry of the catalog of tasks.
type TypeView struct {
	Type            string `json:"type"`
	Title           string `json:"title"`
	Destroys        string `json:"destroys,omitempty" doc:"What nobody gets back by asking for another task: to be read and confirmed before it is asked for. Absent: nothing."`
	Class           string `json:"concurrency_class" enum:"exclusive,user,concurrent"`
	WindowSeconds   int64  `json:"window_seconds" doc:"How long one attempt may take."`
	PatienceSeconds int64  `json:"patience_seconds" doc:"How long it may wait for its node."`
	Attempts        int    `json:"attempts" doc:"How many times it is handed out when its node falls silent."`
	OnRequest       bool   `json:"on_request" doc:"Whether operators can ask for it."`
}

// NewBody asks a node to do something.
type NewBody struct {
	Type   string          `json:"type" minLength:"1" maxLength:"64" doc:"One of the task types." example:"node.heartbeat_check"`
	Params json.RawMessage `json:"params,omitempty" doc:"What the type wants; absent: nothing."`
	Reason string          `json:"reason" minLength:"3" maxLength:"500" doc:"Why; it goes into the audit log."`
}

// CancelBody says why a task shall stop.
type CancelBody struct {
	Reason string `json:"reason" minLength:"3" maxLength:"500" doc:"Why; it goes into the audit log."`
}

// NodePath names a node in the path.
type NodePath struct {
	NodeID id.Node `path:"node_id" doc:"Id of the node."`
}

// Path names a task in the path.
type Path struct {
	TaskID id.NodeTask `path:"task_id" doc:"Id of the task."`
}

// Narrowing holds the filters of lists of tasks.
type Narrowing struct {
	Status Status `query:"status" doc:"Only tasks in this state."`
	Type   string `query:"type" maxLength:"64" doc:"Only tasks of this type."`
}

// RegisterAPI adds the operations on tasks.
func (c Commands) RegisterAPI(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "create-node-task", Method: http.MethodPost, Path: pathOfNode, Tag: tagTasks, Status: http.StatusAccepted,
		Summary: "Ask a node to do something", Access: httpapi.Platform(auth.NodeTaskRun),
		Description: "Records the task and returns; the node fetches it with its next poll, usually at once. Read the " +
			"task, or follow the events node_task.*, to see how it ends.",
	}, func(ctx context.Context, in *struct {
		NodePath
		Body NewBody
	},
	) (*httpapi.Plain[View], error) {
		return answer(c.create(ctx, in.NodeID, in.Body))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-node-tasks", Method: http.MethodGet, Path: pathOfNode, Tag: tagTasks,
		Summary: "List the tasks of a node, newest first", Access: httpapi.Platform(auth.NodeRead),
	}, func(ctx context.Context, in *struct {
		NodePath
		Narrowing
		httpapi.Page
	},
	) (*httpapi.Listed[View], error) {
		if _, err := node.Get(ctx, c.DB, in.NodeID); err != nil {
			return nil, err
		}
		return c.list(ctx, in.Page, filter{node: in.NodeID, status: string(in.Status), typ: in.Type})
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-all-node-tasks", Method: http.MethodGet, Path: pathTasks, Tag: tagTasks,
		Summary: "List the tasks of all nodes, newest first", Access: httpapi.Platform(auth.NodeRead),
	}, func(ctx context.Context, in *struct {
		Narrowing
		httpapi.Page
	},
	) (*httpapi.Listed[View], error) {
		return c.list(ctx, in.Page, filter{status: string(in.Status), typ: in.Type})
	})
	c.registerTask(api)
}

func (c Commands) registerTask(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "get-node-task", Method: http.MethodGet, Path: pathTask, Tag: tagTasks,
		Summary: "Read a task with its steps and output", Access: httpapi.Platform(auth.NodeRead),
	}, c.get)
	httpapi.Register(api, httpapi.Operation{
		ID: "cancel-node-task", Method: http.MethodPost, Path: pathTask + "/cancel", Tag: tagTasks,
		Status:  http.StatusAccepted,
		Summary: "Stop a task", Access: httpapi.Platform(auth.NodeTaskRun),
		Description: "A task that no node has fetched is cancelled at once. Otherwise its node is told, stops as soon as " +
			"it is safe, and reports.",
	}, func(ctx context.Context, in *struct {
		Path
		Body CancelBody
	},
	) (*httpapi.Plain[View], error) {
		return answer(c.Cancel(ctx, in.TaskID, in.Body.Reason))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-node-task-types", Method: http.MethodGet, Path: pathTypes, Tag: tagTasks,
		Summary: "List what nodes can be asked to do", Access: httpapi.Platform(auth.NodeRead),
	}, func(context.Context, *struct{}) (*httpapi.Listed[TypeView], error) {
		out := &httpapi.Listed[TypeView]{}
		for _, s := range agentwire.Catalog() {
			out.Body.Items = append(out.Body.Items, TypeView{
				Type: s.Type, Title: s.Title, Destroys: s.Destroys, Class: string(s.Class),
				WindowSeconds:   int64(s.Window.Seconds()),
				PatienceSeconds: int64(s.Patience.Seconds()), Attempts: s.Attempts, OnRequest: s.Reserved == "",
			})
		}
		return out, nil
	})
}

func (c Commands) create(ctx context.Context, of id.Node, body NewBody) (Task, error) {
	if err := permitted(ctx, body.Type); err != nil {
		return Task{}, err
	}
	if _, err := node.Get(ctx, c.DB, of); err != nil {
		return Task{}, err
	}
	params := body.Params
	if prepare := c.Preparers[body.Type]; prepare != nil {
		var err error
		if params, err = prepare(ctx, of, params); err != nil {
			return Task{}, err
		}
	}
	r := Request{Node: of, Type: body.Type, Reason: body.Reason}
	if len(params) > 0 {
		r.Params = params
	}
	var t Task
	err := c.DB.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		t, err = c.Enqueue(ctx, tx, r)
		return err
	})
	return t, err
}

func (c Commands) list(ctx context.Context, page httpapi.Page, f filter) (*httpapi.Listed[View], error) {
	slice, err := httpapi.SliceOf[position](page)
	if err != nil {
		return nil, err
	}
	tasks, err := list(ctx, c.DB, f, slice)
	return httpapi.ListOf(page, tasks, err, summary, func(v View) any { return position{v.CreatedAt, v.TaskID} })
}

func (c Commands) get(ctx context.Context, in *Path) (*httpapi.Plain[View], error) {
	t, err := Get(ctx, c.DB, in.TaskID)
	if err != nil {
		return nil, err
	}
	steps, err := Steps(ctx, c.DB, in.TaskID)
	if err != nil {
		return nil, err
	}
	v := show(t)
	for _, s := range steps {
		v.Steps = append(v.Steps, StepView{
			Attempt: s.Attempt, Seq: s.Seq, Name: s.Name, Status: s.Status, Message: s.Message, Percent: s.Percent,
			At: s.At.UTC(),
		})
	}
	return &httpapi.Plain[View]{Body: v}, nil
}

func answer(t Task, err error) (*httpapi.Plain[View], error) {
	if err != nil {
		return nil, err
	}
	return &httpapi.Plain[View]{Body: show(t)}, nil
}

func summary(t Task) View {
	v := show(t)
	v.Params, v.Output = nil, nil
	return v
}

func show(t Task) View {
	v := View{
		TaskID: t.ID, NodeID: t.Node, Type: t.Type, Status: t.Status, Class: string(t.Class), Params: t.Params,
		Output:  t.Output,
		Attempt: t.Attempt, MaxAttempts: t.MaxAttempts, CancelRequested: t.CancelRequested, RequestedBy: t.RequestedBy,
		Reason:        t.Reason,
		CorrelationID: t.Correlation, WorkflowID: t.AwaitWorkflow, SignerVersion: t.SignerVersion,
		AgentVersion: t.AgentVersion,
		CreatedAt:    t.CreatedAt.UTC(), DeadlineAt: t.DeadlineAt.UTC(), DispatchedAt: utc(t.DispatchedAt),
		LeaseExpiresAt: utc(t.LeaseExpiresAt),
		StartedAt:      utc(t.StartedAt), FinishedAt: utc(t.FinishedAt),
	}
	v.Outcome = outcomeOf(t.Status, t.Output)
	if t.Error.Code != "" {
		v.Error = &ErrorView{Code: t.Error.Code, Message: t.Error.Message, Remedy: t.Error.Remedy}
	}
	return v
}

// The outcomes of tasks that succeeded.
const (
	outcomeDone          = "done"
	outcomeNotApplicable = "not_applicable"
)

// outcomeOf tells a task that did something from one that had nothing to do it
// to, by what its node reports; agents of all versions say that alike.
func outcomeOf(s Status, output json.RawMessage) string {
	if s != Succeeded {
		return ""
	}
	var said struct {
		Outcome string `json:"outcome"`
	}
	if json.Unmarshal(output, &said) == nil && said.Outcome == outcomeNotApplicable {
		return outcomeNotApplicable
	}
	return outcomeDone
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}
