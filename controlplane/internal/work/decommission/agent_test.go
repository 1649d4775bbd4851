package decommission_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// signer signs tasks.
type signer struct{ key ed25519.PrivateKey }

func (s signer) SignEnvelope(_ context.Context, e *agentwire.Envelope) error {
	e.SignerVersion = "s1"
	signed, err := e.SignedBytes()
	e.Signature = ed25519.Sign(s.key, signed)
	return err
}

// answer is what an agent does with a task.
type answer func(a *agent, e *agentwire.Envelope) error

// agent stands for the agents of all nodes: it fetches tasks from the queue and
// reports what its script says.
type agent struct {
	queue *agenttask.Queue
	owner *postgres.DB
	mu    sync.Mutex
	does  map[string][]answer // by the type of the task; the last one stays
	asked []string            // types, in the order in which they were handed out
	// away: nobody fetches anything, and time passes.
	away bool
	// lazy: nobody fetches anything, and no time passes.
	lazy bool
	// stubborn: what is under way cannot be stopped.
	stubborn bool
}

// on says what is done with tasks of a type, one after the other; the last
// answer is given from then on.
func (a *agent) on(typ string, answers ...answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.does[typ] = answers
}

func (a *agent) set(away, lazy bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.away, a.lazy = away, lazy
}

func (a *agent) take(typ string) answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, typ)
	list := a.does[typ]
	if len(list) == 0 {
		return obeys
	}
	if len(list) > 1 {
		a.does[typ] = list[1:]
	}
	return list[0]
}

// visit is what happens on a node between two looks of the control plane: its
// agent does all that it is given.
func (a *agent) visit(ctx context.Context, node id.Node, generation int64) error {
	a.mu.Lock()
	away, lazy, stubborn := a.away, a.lazy, a.stubborn
	a.mu.Unlock()
	if lazy {
		return nil
	}
	if away {
		return a.pass(ctx, 4*time.Minute)
	}
	if !stubborn {
		if err := a.stop(ctx, node); err != nil {
			return err
		}
	}
	for {
		e, err := a.queue.Wait(ctx, node, generation, 0)
		if err != nil || e == nil {
			return err
		}
		if err := a.take(e.Type)(a, e); err != nil {
			return err
		}
	}
}

// stop ends what the agent works at and was told to stop.
func (a *agent) stop(ctx context.Context, node id.Node) error {
	rows, err := a.owner.Query(ctx, `SELECT id::text, type, attempt FROM node_tasks WHERE node_id = $1 AND status = 'dispatched' AND cancel_requested`, node)
	if err != nil {
		return err
	}
	told, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (agentwire.Envelope, error) {
		e := agentwire.Envelope{NodeID: node.String()}
		err := row.Scan(&e.TaskID, &e.Type, &e.Attempt)
		return e, err
	})
	for _, e := range told {
		err = errors.Join(err, a.report(&e, agentwire.ResultRequest{Status: agentwire.ResultCancelled}))
	}
	return err
}

func (a *agent) report(e *agentwire.Envelope, r agentwire.ResultRequest) error {
	node, err := id.Parse[id.Node](e.NodeID)
	if err != nil {
		return err
	}
	task, err := id.Parse[id.NodeTask](e.TaskID)
	if err != nil {
		return err
	}
	r.Attempt, r.StartedAt, r.Build = e.Attempt, time.Now().UTC(), agentwire.Build{Version: "1.2.3"}
	return a.queue.Result(context.Background(), node, task, r)
}

func succeeds(output any) answer {
	return func(a *agent, e *agentwire.Envelope) error {
		raw, err := json.Marshal(during(output, time.Now().UTC()))
		return errors.Join(err, a.report(e, agentwire.ResultRequest{Status: agentwire.ResultSucceeded, Output: raw}))
	}
}

// obeys is an agent on whose node everything is as it should be.
func obeys(a *agent, e *agentwire.Envelope) error {
	var p agentwire.DrainParams
	if e.Type == agentwire.TypeDrain {
		if err := json.Unmarshal(e.Params, &p); err != nil {
			return err
		}
	}
	if p.Resume {
		return succeeds(agentwire.DrainOutput{UsersRevoked: []string{}, UsersLeft: []string{}})(a, e)
	}
	return succeeds(clean(e.Type))(a, e)
}

func fails(code, message string) answer {
	return func(a *agent, e *agentwire.Envelope) error {
		return a.report(e, agentwire.ResultRequest{
			Status: agentwire.ResultFailed,
			Error:  &agentwire.TaskError{Code: code, Message: message},
		})
	}
}

// expires is an agent that takes the task and is never heard of again.
func expires(a *agent, _ *agentwire.Envelope) error { return a.pass(context.Background(), 3*time.Hour) }

// pass lets time pass for the tasks that have not ended.
func (a *agent) pass(ctx context.Context, d time.Duration) error {
	_, err := a.owner.Exec(ctx, `UPDATE node_tasks SET created_at = created_at - $1::interval, deadline_at = deadline_at - $1::interval,
		dispatched_at = dispatched_at - $1::interval, lease_expires_at = lease_expires_at - $1::interval WHERE status IN ('queued', 'dispatched')`, d)
	if err != nil {
		return err
	}
	_, err = a.queue.Sweep(ctx)
	return err
}

// keeps is an agent that works at the task and has not finished.
func keeps(*agent, *agentwire.Envelope) error { return nil }

// clean is the output of a node on which everything is as it should be.
func clean(typ string) any {
	switch typ {
	case agentwire.TypeDrain:
		return agentwire.DrainOutput{
			Draining: true, SessionsClosed: 1, UsersRevoked: []string{"alice"},
			UsersLeft: []string{},
		}
	case agentwire.TypeStorageCleanup:
		return cleaned()
	case agentwire.TypeGPUScrub:
		return agentwire.GPUScrubOutput{Outcome: "scrubbed", Vendor: "nvidia", GPUs: scrubbed(yardGPUs)}
	case agentwire.TypeValidateClean:
		return agentwire.ValidateCleanOutput{
			Clean: true, Findings: []agentwire.CleanFinding{},
			Checked: []agentwire.CheckedKind{
				{Kind: "users", Result: "clean", Detail: "looked at 3"}, {Kind: "disks", Result: "clean", Detail: "looked at 2"},
			},
		}
	case agentwire.TypeUninstall:
		return agentwire.UninstallOutput{Removed: []string{"/usr/bin/gpuaas-agent"}, Residue: []string{}}
	}
	return struct{}{}
}

// scrubbed are GPUs whose memory was overwritten.
func scrubbed(number int) (out []agentwire.GPUScrubbed) {
	for i := range number {
		out = append(out, agentwire.GPUScrubbed{
			UUID: fmt.Sprintf("GPU-%d", i+1), Method: "overwrite", BytesTotal: 1000,
			BytesCovered: 990, Reset: "done",
		})
	}
	return out
}

func cleaned() agentwire.StorageCleanupOutput {
	return agentwire.StorageCleanupOutput{
		Scope: "local", EntriesRemoved: 7, BytesFreed: 700, Unmounted: []string{}, ConfigRemoved: []string{},
		Residue: []string{},
		Folders: []agentwire.FolderCleaned{
			{Path: "/tmp", EntriesRemoved: 7, BytesFreed: 700, Outcome: agentwire.OutcomeEmptied},
			{Path: "/scratch", Outcome: agentwire.OutcomeNotThere},
		},
		Devices: []agentwire.DeviceSanitized{{
			Device: "/dev/nvme1n1", MountPoint: "/share0", Serial: "S4X1", Model: "PM1733", Transport: "nvme", SizeBytes: 4096,
			Method: "nvme_sanitize_crypto",
			Level:  agentwire.LevelPurge, Outcome: agentwire.OutcomeSanitized, BytesCovered: 4096, CanariesPlanted: 8,
			SamplesRead: 16, SampleBytes: 1024,
			VerifiedBy: agentwire.VerifiedByZeroes, Verified: true, Tool: "nvme-cli 2.8", FilesystemRestored: true,
		}},
	}
}

// during is an output of which all that has no time of its own happened then.
func during(output any, at time.Time) any {
	out, ok := output.(agentwire.StorageCleanupOutput)
	if !ok {
		return output
	}
	out.Devices = slices.Clone(out.Devices)
	for i := range out.Devices {
		if d := &out.Devices[i]; d.StartedAt.IsZero() {
			d.StartedAt, d.EndedAt = at, at
		}
	}
	return out
}

// kept is a disk that says it did and did not.
func kept() agentwire.StorageCleanupOutput {
	out := cleaned()
	d := &out.Devices[0]
	d.Outcome, d.Verified, d.CanariesFound, d.SamplesUnclean, d.Level, d.Reason = agentwire.OutcomeFailed, false, 2, 3, "",
		"2 of 8 canaries came back"
	return out
}

// dirty is a node on which a tenant left something.
func dirty() agentwire.ValidateCleanOutput {
	return agentwire.ValidateCleanOutput{
		Findings: []agentwire.CleanFinding{{Kind: "processes", Subject: "pid 4711", Detail: "runs as alice"}},
		Checked:  []agentwire.CheckedKind{{Kind: "processes", Result: "findings", Detail: "looked at 200"}},
	}
}

// Around implements job.Mischief[*bringup.Work]: the agent does its work between two looks.
func (y *yard) Around(ctx context.Context, call durable.StageCall, w *bringup.Work, stage bringup.Stage) (job.Result,
	error,
) {
	if y.before != nil {
		if err := y.before(call); err != nil {
			return job.Result{}, err
		}
	}
	if err := y.visit(ctx, call); err != nil {
		return job.Result{}, err
	}
	if y.equip != nil {
		y.equip(call, w)
	}
	result, err := stage(ctx, w)
	if y.after != nil {
		if replaced := y.after(call, err); replaced != nil {
			return result, replaced
		}
	}
	return result, err
}

// visit is the agent of a job's node, which does its work.
func (y *yard) visit(ctx context.Context, call durable.StageCall) error {
	var node id.Node
	var generation int64
	err := y.db.QueryRow(ctx, `SELECT n.id, n.generation FROM nodes n JOIN node_decommissions d ON d.node_id = n.id WHERE d.id = $1`, call.Job).Scan(&node, &generation)
	if err != nil {
		return err
	}
	y.watch(ctx, node)
	return y.agent.visit(ctx, node, generation)
}
