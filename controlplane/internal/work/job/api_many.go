package job

import (
	"context"
	"fmt"
	"net/http"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/httpapi"
)

// ManyBody says what is done to many jobs, and to which. Exactly one of Jobs and
// Parked names them.
type ManyBody struct {
	Action Trigger     `json:"action" doc:"What is done to each job."`
	Reason string      `json:"reason" minLength:"1" maxLength:"500" doc:"Why; it goes into the audit log and the ledger of each job." example:"switch of row 7 replaced"`
	Jobs   []NamedJob  `json:"jobs,omitempty" nullable:"false" maxItems:"1000" doc:"These jobs."`
	Parked *ParkedBody `json:"parked,omitempty" doc:"The jobs of a batch that are parked for one cause when the request comes."`
}

// NamedJob is a job that the caller names.
type NamedJob struct {
	JobID id.Job `json:"job_id" doc:"Id of the job."`
	Epoch *int64 `json:"epoch,omitempty" minimum:"0" doc:"The epoch that the job was seen to have: when somebody acted on it since, it is refused with job_changed. What destroys data is done only to jobs that are named with it."`
}

// ParkedBody names jobs of a batch by why they are parked.
type ParkedBody struct {
	BatchID id.JobBatch  `json:"batch_id" doc:"Id of the batch."`
	Stage   string       `json:"stage,omitempty" maxLength:"63" doc:"Only those parked at this stage." example:"wait_for_deployed"`
	Class   FailureClass `json:"failure_class,omitempty" maxLength:"63" doc:"Only those parked by a failure of this class."`
	Code    string       `json:"error_code,omitempty" maxLength:"63" doc:"Only those parked with this error code."`
}

// ManyView says what became of an action on many jobs.
type ManyView struct {
	Action  Trigger     `json:"action" doc:"What was asked for."`
	Done    int         `json:"done" doc:"For how many jobs it was accepted."`
	Refused int         `json:"refused" doc:"For how many jobs it was refused."`
	Jobs    []ActedView `json:"jobs" nullable:"false" doc:"What became of each job, in the order in which they were named; parked ones newest first."`
}

// ActedView says what became of an action on one of many jobs.
type ActedView struct {
	JobID    id.Job       `json:"job_id" doc:"Id of the job."`
	Hostname string       `json:"hostname,omitempty" doc:"What the job is about; absent when there is no such job." example:"c07u43"`
	Outcome  Taken        `json:"outcome" enum:"done,refused" doc:"done: the action was accepted, as with a request for this job alone."`
	Status   Status       `json:"status,omitempty" doc:"How the job stands now."`
	Stage    string       `json:"current_stage,omitempty" doc:"The stage it is at."`
	Epoch    int64        `json:"epoch" doc:"The epoch that it has now."`
	Refusal  *RefusalView `json:"refusal,omitempty" doc:"Why it was refused."`
}

// Taken says whether an action was accepted for a job.
type Taken string

// The outcomes.
const (
	TakenDone    Taken = "done"
	TakenRefused Taken = "refused"
)

// RefusalView is why a job refused an action, as a problem of the API says it.
type RefusalView struct {
	Code    string `json:"code" doc:"Why, for programs." example:"action_not_allowed"`
	Message string `json:"message" doc:"Why, for people."`
	Remedy  string `json:"remedy,omitempty" doc:"What to do about it."`
}

// RegisterMany adds the operation that acts on many jobs of a family to an API.
// Parked reads the parked jobs of a batch; one that does not exist is a fault.
func RegisterMany[R Row, W Extended](api *httpapi.API, op httpapi.Operation, r *Runner[R, W],
	parked func(ctx context.Context, batch id.JobBatch) ([]R, error),
) {
	op.Method, op.Path, op.Status = http.MethodPost, op.Path+"/actions", http.StatusAccepted
	op.Description = "Each job is acted on by itself, as by the request for it alone: what refuses one does not keep the " +
		"others from it, and the answer says which were refused and why. Repeating it is harmless: a job that is doing " +
		"the same already is not asked twice."
	httpapi.Register(api, op, func(ctx context.Context, in *struct{ Body ManyBody }) (*httpapi.Plain[ManyView], error) {
		meant, err := meantBy(ctx, in.Body, parked)
		if err != nil {
			return nil, err
		}
		outcomes, err := r.ActMany(ctx, meant, in.Body.Action, in.Body.Reason)
		if err != nil {
			return nil, err
		}
		v, err := showMany(in.Body.Action, outcomes)
		return &httpapi.Plain[ManyView]{Body: v}, err
	})
}

// meantBy are the jobs that a request names.
func meantBy[R Row](ctx context.Context, b ManyBody,
	parked func(context.Context, id.JobBatch) ([]R, error),
) ([]Meant, error) {
	if (len(b.Jobs) > 0) == (b.Parked != nil) {
		return nil, fault.New(fault.Invalid, "validation_error", "the request has fields that cannot be accepted").
			WithFields(fault.Field{Path: "body", Message: "name the jobs by jobs or by parked, and not by both"})
	}
	if p := b.Parked; p != nil {
		rows, err := parked(ctx, p.BatchID)
		if err != nil {
			return nil, err
		}
		return ParkedFor(rows, Cause{Stage: p.Stage, Class: p.Class, Code: p.Code})
	}
	out := make([]Meant, len(b.Jobs))
	for i, j := range b.Jobs {
		out[i] = Meant{Job: j.JobID.String(), Epoch: j.Epoch}
	}
	return out, nil
}

func showMany[R Row](action Trigger, outcomes []Outcome[R]) (ManyView, error) {
	v := ManyView{Action: action, Jobs: make([]ActedView, len(outcomes))}
	for i, o := range outcomes {
		j := o.Row.Common()
		v.Jobs[i] = ActedView{Hostname: j.Subject, Outcome: TakenDone, Status: j.Status, Stage: j.Stage, Epoch: j.Epoch}
		var err error
		if v.Jobs[i].JobID, err = id.Parse[id.Job](o.Job); err != nil {
			return v, fmt.Errorf("show job: %w", err)
		}
		if o.Refused == nil {
			v.Done++
			continue
		}
		v.Refused++
		v.Jobs[i].Outcome = TakenRefused
		v.Jobs[i].Refusal = &RefusalView{Code: o.Refused.Code, Message: o.Refused.Message, Remedy: o.Refused.Remedy}
	}
	return v, nil
}
