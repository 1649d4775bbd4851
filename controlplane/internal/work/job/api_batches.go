package job

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/httpapi"
)

// Schema implements huma.SchemaProvider.
func (BatchState) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(batchStates) }

// CountsView says how many jobs of a batch stand how, by the lifecycle Parking.
type CountsView struct {
	Pending                  int `json:"pending"`
	Running                  int `json:"running"`
	Compensating             int `json:"compensating"`
	Completed                int `json:"completed"`
	Reconciled               int `json:"reconciled"`
	Cancelled                int `json:"cancelled"`
	FailedRetryable          int `json:"failed_retryable"`
	FailedManualIntervention int `json:"failed_manual_intervention"`
}

// BatchStanding holds what the API shows of batches of all families. Families
// embed it in their views.
type BatchStanding struct {
	BatchID      id.JobBatch `json:"batch_id" doc:"Id of the batch."`
	State        BatchState  `json:"state" doc:"How it is getting on. paused: an operator paused it. halted: the control plane paused it, because more than max_failures failed or were cancelled. settled: each job has ended or is parked."`
	Total        int         `json:"total" doc:"How many jobs it has."`
	MaxParallel  int         `json:"max_parallel" doc:"How many of it run at once at most."`
	Succeeded    int         `json:"succeeded" doc:"How many reached their goal."`
	Failed       int         `json:"failed" doc:"How many are parked and wait for an operator."`
	Counts       CountsView  `json:"counts" doc:"How many stand how."`
	Reason       string      `json:"reason" doc:"Why it was asked for; empty: nobody said."`
	RequestedBy  string      `json:"requested_by" doc:"Id of the principal who asked for it."`
	RequestedAt  time.Time   `json:"requested_at"`
	PausedAt     *time.Time  `json:"paused_at,omitempty" doc:"Since when no further job of it is begun; absent: it is not paused."`
	PausedBy     string      `json:"paused_by,omitempty" doc:"Id of the principal who paused it; absent: the control plane did, or it is not paused."`
	PausedByName string      `json:"paused_by_name,omitempty" doc:"Name of the principal who paused it."`
	PauseReason  string      `json:"pause_reason,omitempty" doc:"Why it is paused."`
	CancelledAt  *time.Time  `json:"cancelled_at,omitempty"`
}

// ShowBatch shows what all batches have in common.
func ShowBatch(b Batch) BatchStanding {
	n := b.Counts
	return BatchStanding{
		BatchID: b.ID, State: b.State(), Total: b.Total, MaxParallel: b.MaxParallel,
		Succeeded: b.Succeeded(), Failed: b.Parked(),
		Counts: CountsView{
			Pending: n[Pending], Running: n[Running], Compensating: n[Compensating],
			Completed: n[Completed], Reconciled: n[Reconciled], Cancelled: n[Cancelled],
			FailedRetryable: n[FailedRetryable], FailedManualIntervention: n[FailedManualIntervention],
		},
		Reason: b.Reason, RequestedBy: b.RequestedBy, RequestedAt: b.RequestedAt.UTC(), PausedAt: UTC(b.PausedAt),
		PausedBy: b.PausedBy, PausedByName: b.PausedByName, PauseReason: b.PauseReason, CancelledAt: UTC(b.CancelledAt),
	}
}

func (s BatchStanding) position() any { return s.BatchID }

// BatchPath names a batch in the path. It is exported because the framework
// reads embedded parameters only then.
type BatchPath struct {
	BatchID id.JobBatch `path:"batch_id" doc:"Id of the batch."`
}

// BatchAction is an operator's decision about a batch. It is exported because
// the framework reads only exported embedded parameters.
type BatchAction struct {
	BatchPath
	Body ActionBody
}

// BatchOperations are the operations on the batches of a family.
type BatchOperations[R Row, W Extended, V interface{ position() any }] struct {
	Batches *Batches[R, W]
	Read    httpapi.Operation // path, tag and access of those that read
	Manage  httpapi.Access    // of those that change
	Jobs    string            // what the jobs are called, in the plural
	Cancels string            // what a cancel does to jobs that run or are parked
	// Show gives batches the fields of the family.
	Show func(ctx context.Context, batches []Batch) ([]V, error)
}

// Register adds the operations to an API: list, show, pause, resume, cancel.
func (o BatchOperations[R, W, V]) Register(api *httpapi.API) {
	noun, like := o.Batches.noun, o.Read
	like.ID, like.Method, like.Summary = "list-"+noun+"-batches", http.MethodGet,
		"List batches of "+o.Jobs+", newest first"
	httpapi.Register(api, like, func(ctx context.Context, in *httpapi.Page) (*httpapi.Listed[V], error) {
		page, err := httpapi.SliceOf[id.JobBatch](*in)
		if err != nil {
			return nil, err
		}
		batches, err := o.Batches.Batches(ctx, page)
		if err != nil {
			return nil, err
		}
		views, err := o.Show(ctx, batches)
		return httpapi.ListOf(*in, views, err, func(v V) V { return v }, func(v V) any { return v.position() })
	})
	like.ID, like.Path, like.Summary = "get-"+noun+"-batch", o.Read.Path+"/{batch_id}",
		"Read how a batch of "+o.Jobs+" stands"
	httpapi.Register(api, like, func(ctx context.Context, in *BatchPath) (*httpapi.Plain[V], error) {
		return o.show(ctx, in.BatchID)
	})
	for _, v := range []struct {
		verb, summary, note string
		do                  func(ctx context.Context, batch id.JobBatch, reason string) error
	}{
		{
			"pause", "Begin no further job of a batch of " + o.Jobs,
			"Those that are running go on. Who paused it, and why, is shown with the batch.", o.Batches.Pause,
		},
		{
			"resume", "Go on with a batch of " + o.Jobs + " that is paused or halted",
			"A batch that is halted goes on in spite of what has failed so far, and is halted again when more than that fails.",
			o.Batches.Resume,
		},
		{
			"cancel", "Stop all " + o.Jobs + " of a batch",
			"Those that have not begun are cancelled at once. " + o.Cancels, o.Batches.Cancel,
		},
	} {
		like := o.Read
		like.ID, like.Path, like.Method = v.verb+"-"+noun+"-batch", o.Read.Path+"/{batch_id}/"+v.verb, http.MethodPost
		like.Summary, like.Description, like.Access, like.Status = v.summary, v.note, o.Manage, http.StatusAccepted
		httpapi.Register(api, like, func(ctx context.Context, in *BatchAction) (*httpapi.Plain[V], error) {
			if err := v.do(ctx, in.BatchID, in.Body.Reason); err != nil {
				return nil, err
			}
			return o.show(ctx, in.BatchID)
		})
	}
}

func (o BatchOperations[R, W, V]) show(ctx context.Context, batch id.JobBatch) (*httpapi.Plain[V], error) {
	b, err := o.Batches.Batch(ctx, o.Batches.db, batch)
	if err != nil {
		return nil, err
	}
	views, err := o.Show(ctx, []Batch{b})
	if err != nil {
		return nil, err
	}
	return &httpapi.Plain[V]{Body: views[0]}, nil
}
