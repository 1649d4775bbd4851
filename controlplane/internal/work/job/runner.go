package job

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
)

// WorkflowNames are the names in the histories of a family. They never change:
// running workflows depend on them.
type WorkflowNames struct {
	Type string // of the workflow of a job
	Next string // of the activity that reads the row
	Lost string // of the activity that records that a stage brought no answer
	Wake string // of the activity that lets a job go on that a signal has mended
	// Stage returns the name of the activity of a stage.
	Stage func(stage string) string
}

// Input says which job a workflow carries out.
type Input struct {
	ID string `json:"id"`
}

// Config is what the runner of a family needs.
type Config[R Row, W Extended] struct {
	DB     *postgres.DB
	Family *Family[R]
	// Stages are the names of all stages that a job of the family may have; the
	// pseudo stages are added.
	Stages   []string
	Store    Store[R, W]
	Hooks    Hooks[R, W]
	Workflow WorkflowNames
	// BatchWorkflow wakes or starts the workflow that starts the jobs of a batch
	// that have a place. If nil, each job is started by itself.
	BatchWorkflow func(batch string) outbox.WorkflowSignal
	Mischief      Mischief[W]                     // nil: none
	Backoff       func(attempt int) time.Duration // delay after the given attempt; if nil, the usual backoff
	Clock         func() time.Time                // if nil, the system clock
	Logger        *slog.Logger                    // nil: nothing is logged
}

// Runner carries the jobs of a family out and does to them what operators
// decide. It is safe for concurrent use, and any number of replicas may run side
// by side.
type Runner[R Row, W Extended] struct {
	db       *postgres.DB
	family   *Family[R]
	stages   []string
	store    Store[R, W]
	hooks    Hooks[R, W]
	names    WorkflowNames
	mischief Mischief[W]
	backoff  func(attempt int) time.Duration
	now      func() time.Time
	logger   *slog.Logger
}

// New makes a runner. It connects to nothing.
func New[R Row, W Extended](cfg Config[R, W]) *Runner[R, W] {
	r := &Runner[R, W]{
		db: cfg.DB, family: cfg.Family, store: cfg.Store, hooks: cfg.Hooks, names: cfg.Workflow,
		mischief: cfg.Mischief, backoff: cfg.Backoff, now: cfg.Clock, logger: cfg.Logger,
	}
	register(cfg.Family.Noun, carried{life: cfg.Family.Life, start: r.startOf, batch: cfg.BatchWorkflow})
	r.stages = slices.Concat(cfg.Stages, []string{StageCompensate, StageAdopt})
	slices.Sort(r.stages)
	r.stages = slices.Compact(r.stages)
	if r.mischief == nil {
		r.mischief = peace[W]{}
	}
	if r.backoff == nil {
		r.backoff = patience
	}
	if r.now == nil {
		r.now = time.Now
	}
	if r.logger == nil {
		r.logger = slog.New(slog.DiscardHandler)
	}
	return r
}

// patience is how long the runner waits after a failed attempt. All waits together
// outlast the restart of a provider.
func patience(attempt int) time.Duration {
	switch attempt {
	case 1:
		return 10 * time.Second
	case 2:
		return 50 * time.Second
	}
	return 2 * time.Minute
}

// Start says how to start the workflow of a job.
func (r *Runner[R, W]) Start(row R) outbox.WorkflowStart { return r.startOf(row.Common()) }

func (r *Runner[R, W]) startOf(j Job) outbox.WorkflowStart {
	marks := map[string]string{
		durable.MarkHostname: j.Subject, durable.MarkStatus: string(j.Status), durable.MarkStage: j.Stage,
	}
	if !j.Site.IsZero() {
		marks[durable.MarkSite] = j.Site.String()
	}
	if j.Batch != "" {
		marks[durable.MarkBatch] = j.Batch
	}
	return outbox.WorkflowStart{
		Type: r.names.Type, ID: j.WorkflowID, Queue: durable.TaskQueue, Input: Input{ID: j.ID}, Marks: marks,
	}
}

// recentEvents is how many ledger entries an explanation reads.
const recentEvents = 50

// Explain reads a job and the newest entries of its ledger, and explains how it
// stands.
func (r *Runner[R, W]) Explain(ctx context.Context, job string) (R, []Event, Explanation, error) {
	row, err := r.store.Get(ctx, job)
	if err != nil {
		return row, nil, Explanation{}, err
	}
	events, err := r.store.Latest(ctx, job, recentEvents)
	if err != nil {
		return row, nil, Explanation{}, err
	}
	e := r.family.Explain(row, events, r.now())
	if j := r.family.common(row); j.Phase == Waiting && j.AdmittedAt == nil {
		q, err := r.store.Queue(ctx, j)
		if err != nil {
			return row, nil, Explanation{}, err
		}
		q.explain(&e.Standing, r.family.Noun, j, r.now())
	}
	return row, events, e, nil
}

func (r *Runner[R, W]) superseded(job string) error { return durable.Superseded(r.family.Noun, job) }

// EncodeDetails returns details as rows and ledgers keep them: a JSON object, which
// is empty if there are none.
func EncodeDetails(details map[string]any) (json.RawMessage, error) {
	if len(details) == 0 {
		return json.RawMessage("{}"), nil
	}
	out, err := json.Marshal(details)
	if err != nil {
		return nil, fmt.Errorf("encode details: %w", err)
	}
	return out, nil
}
