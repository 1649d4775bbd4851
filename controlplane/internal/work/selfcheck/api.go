package selfcheck

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

// Schema is the enum of the contract: the states of the lifecycle. It implements
// huma.SchemaProvider.
func (Status) Schema(huma.Registry) *huma.Schema { return httpapi.StatesOf(Lifecycle.Describe()) }

// SelfCheck is a round trip through the control plane.
type SelfCheck struct {
	ID            id.SelfCheck `json:"id"`
	Status        Status       `json:"status"`
	Steps         []Step       `json:"steps" nullable:"false"`
	WaitingFor    string       `json:"waiting_for,omitempty" doc:"the step it is at"`
	RequestedBy   string       `json:"requested_by"`
	CorrelationID string       `json:"correlation_id"`
	CreatedAt     time.Time    `json:"created_at"`
	FinishedAt    *time.Time   `json:"finished_at,omitempty"`
}

type output struct {
	Body SelfCheck
}

type pathInput struct {
	ID id.SelfCheck `path:"self_check_id"`
}

type listInput struct {
	httpapi.Page
	Status Status `query:"status" doc:"only checks in this state"`
}

type listOutput struct {
	Body httpapi.List[SelfCheck]
}

// Cancellation says why a check shall stop.
type Cancellation struct {
	Reason string `json:"reason" minLength:"3" maxLength:"500" doc:"why; it goes into the audit log"`
}

type cancelInput struct {
	ID   id.SelfCheck `path:"self_check_id"`
	Body Cancellation
}

const root = "/api/v1/admin/self-checks"

// RegisterAPI adds the operations of self-checks.
func (c Commands) RegisterAPI(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "create-self-check", Method: http.MethodPost, Path: root, Tag: "System", Status: http.StatusAccepted,
		Summary: "Send a harmless errand through the whole control plane",
		Description: "Records the wish and returns; a workflow carries it out. Read the check, or follow the events " +
			"self_check.*, to see the outcome.",
		Access: httpapi.Platform(auth.SelfCheckRun),
	}, func(ctx context.Context, _ *struct{}) (*output, error) { return answer(c.Request(ctx)) })
	httpapi.Register(api, httpapi.Operation{
		ID: "get-self-check", Method: http.MethodGet, Path: root + "/{self_check_id}", Tag: "System",
		Summary: "Read a self-check", Access: httpapi.Platform(auth.SelfCheckRead),
	}, func(ctx context.Context, in *pathInput) (*output, error) { return answer(Get(ctx, c.DB, in.ID)) })
	httpapi.Register(api, httpapi.Operation{
		ID: "list-self-checks", Method: http.MethodGet, Path: root, Tag: "System",
		Summary: "List self-checks, newest first", Access: httpapi.Platform(auth.SelfCheckRead),
	}, c.list)
	httpapi.Register(api, httpapi.Operation{
		ID: "cancel-self-check", Method: http.MethodPost, Path: root + "/{self_check_id}/cancel", Tag: "System",
		Status:  http.StatusAccepted,
		Summary: "Stop a self-check", Access: httpapi.Platform(auth.SelfCheckRun),
	}, func(ctx context.Context, in *cancelInput) (*output, error) {
		return answer(c.Cancel(ctx, in.ID, in.Body.Reason))
	})
}

func (c Commands) list(ctx context.Context, in *listInput) (*listOutput, error) {
	var status *string
	if in.Status != "" {
		word := string(in.Status)
		status = &word
	}
	var at position
	var after *position
	if more, err := in.After(&at); err != nil {
		return nil, err
	} else if more {
		after = &at
	}
	checks, err := list(ctx, c.DB, status, after, in.Limit())
	if err != nil {
		return nil, err
	}
	page := httpapi.NewList(in.Page, checks, func(c Check) any { return position{c.CreatedAt, c.ID} })
	out := &listOutput{Body: httpapi.List[SelfCheck]{NextCursor: page.NextCursor}}
	for _, c := range page.Items {
		out.Body.Items = append(out.Body.Items, wire(c))
	}
	return out, nil
}

func answer(c Check, err error) (*output, error) {
	if err != nil {
		return nil, err
	}
	return &output{Body: wire(c)}, nil
}

func wire(c Check) SelfCheck {
	steps := make([]Step, len(c.Steps))
	for i, s := range c.Steps {
		steps[i] = s.shown()
	}
	return SelfCheck{
		ID: c.ID, Status: c.Status, Steps: steps, WaitingFor: c.WaitingFor,
		RequestedBy:   c.RequestedBy,
		CorrelationID: c.Correlation, CreatedAt: c.CreatedAt, FinishedAt: c.FinishedAt,
	}
}
