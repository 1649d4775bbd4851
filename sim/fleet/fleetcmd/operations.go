package fleetcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oapi-codegen/runtime/types"

	"gpuaas/contract/agentwire"
	"gpuaas/contract/apiclient"
	"gpuaas/sim/fleet"
)

// What is measured of operations.
const (
	singleRuns   = 100  // one after the other, on one node each
	printers     = 8    // agents that print at the same time
	chunks       = 60   // that each of them sends
	chunkLines   = 1000 // of a chunk
	followed     = 100  // lines that somebody follows
	followedRate = 50   // of them in a second
)

// runs measures operations. The control plane runs on this machine, so that all times
// come from one clock.
type runs struct {
	mu      sync.Mutex
	arrived map[string]chan time.Time // by operation
	prints  map[string]printer        // by operation
}

type printer func(p *agentwire.OperationRunParams, send func([]agentwire.LogLine) error) error

func newRuns() *runs {
	return &runs{arrived: map[string]chan time.Time{}, prints: map[string]printer{}}
}

// arrival gets when an agent has verified the first task of an operation, whether that
// was before or after the API has named the operation.
func (r *runs) arrival(operation string) chan time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.arrived[operation] == nil {
		r.arrived[operation] = make(chan time.Time, 1)
	}
	return r.arrived[operation]
}

func (r *runs) received(e agentwire.Envelope, at time.Time) {
	var p struct {
		OperationID string `json:"operation_id"`
	}
	if e.Type != agentwire.TypeOperationRun || json.Unmarshal(e.Params, &p) != nil {
		return
	}
	select {
	case r.arrival(p.OperationID) <- at:
	default: // another node of the same operation was first
	}
}

// print has agents print what the operation that is measured is to print.
func (r *runs) print(p *agentwire.OperationRunParams, send func([]agentwire.LogLine) error) error {
	r.mu.Lock()
	does := r.prints[p.Digest]
	r.mu.Unlock()
	if does == nil {
		return nil
	}
	return does(p, send)
}

// printing has all operations print so, until it is called with nothing.
func (r *runs) printing(digest string, does printer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prints[digest] = does
}

func (r *runs) run(ctx context.Context, out io.Writer, api *apiclient.Client, agents []*fleet.Agent, f flags) error {
	nodes, err := nodeIDs(agents)
	if err == nil {
		err = allActive(ctx, api, f)
	}
	if err != nil {
		return err
	}
	digest, err := r.firstSteps(ctx, out, api, nodes, f)
	if err == nil {
		err = r.ingestion(ctx, out, api, nodes, f, digest)
	}
	if err == nil {
		err = r.follow(ctx, out, api, nodes, f, digest)
	}
	if err == nil {
		say(out, "operations measured")
	}
	return err
}

// submit asks for a run on nodes, all at once.
func submit(ctx context.Context, api *apiclient.Client, f flags, nodes []types.UUID) (*apiclient.OperationView, error) {
	yes, most := true, int32(min(len(nodes), 1000))
	answer, err := api.SubmitFleetOperationWithResponse(ctx, &apiclient.SubmitFleetOperationParams{},
		apiclient.OperationSubmitBody{
			Operation: f.operation, Targets: apiclient.OperationTargetsBody{Nodes: &nodes}, NoRamp: &yes, MaxConcurrency: &most,
		})
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", f.operation, err)
	}
	if answer.JSON == nil {
		return nil, fmt.Errorf("run %s: the control plane answered %s", f.operation, answer.HTTP.Status)
	}
	return answer.JSON, nil
}

// firstSteps measures from the request to the node that has verified the task.
func (r *runs) firstSteps(ctx context.Context, out io.Writer, api *apiclient.Client, nodes []types.UUID, f flags) (
	digest string, err error,
) {
	var took []time.Duration
	for i := range singleRuns {
		began := time.Now()
		o, err := submit(ctx, api, f, nodes[i%len(nodes):i%len(nodes)+1])
		if err != nil {
			return "", err
		}
		digest = o.Digest
		select {
		case at := <-r.arrival(o.OperationId.String()):
			took = append(took, at.Sub(began))
		case <-time.After(patience):
			return "", errors.New("a run did not reach its node within a minute")
		}
	}
	say(out, "submission to first step on the node, %d runs one after the other: %s", len(took), quantiles(took))
	return digest, nil
}

func quantiles(took []time.Duration) string {
	slices.Sort(took)
	at := func(q float64) float64 { return float64(took[int(q*float64(len(took)-1))].Microseconds()) / 1000 }
	return fmt.Sprintf("p50 %.1f ms, p90 %.1f ms, p99 %.1f ms, max %.1f ms", at(.5), at(.9), at(.99), at(1))
}

// ingestion measures how fast what steps print is kept.
func (r *runs) ingestion(ctx context.Context, out io.Writer, api *apiclient.Client, nodes []types.UUID, f flags,
	digest string,
) error {
	var mu sync.Mutex
	var first, last time.Time
	bytes, ended := 0, make(chan error, printers)
	r.printing(digest, func(p *agentwire.OperationRunParams, send func([]agentwire.LogLine) error) error {
		began := time.Now()
		sent, err := printMuch(p.Steps[0].ID, send)
		mu.Lock()
		defer mu.Unlock()
		if first.IsZero() || began.Before(first) {
			first = began
		}
		last, bytes = time.Now(), bytes+sent
		ended <- err
		return err
	})
	defer r.printing(digest, nil)
	count := min(printers, len(nodes))
	if _, err := submit(ctx, api, f, nodes[:count]); err != nil {
		return err
	}
	for range count {
		select {
		case err := <-ended:
			if err != nil {
				return fmt.Errorf("send logs: %w", err)
			}
		case <-time.After(5 * patience):
			return errors.New("logs were not kept within five minutes")
		}
	}
	mu.Lock()
	defer mu.Unlock()
	took := last.Sub(first).Seconds()
	say(out, "logs of %d nodes at once: %.1f MB in %.1f s, %.1f MB/s", count, float64(bytes)/1e6, took,
		float64(bytes)/1e6/took)
	return nil
}

// printMuch sends lines as programs print them, and gives their size.
func printMuch(step string, send func([]agentwire.LogLine) error) (sent int, err error) {
	seq := int64(0)
	for range chunks {
		lines := make([]agentwire.LogLine, chunkLines)
		for i := range lines {
			seq++
			lines[i] = agentwire.LogLine{
				Seq: seq, Step: step, Stream: agentwire.StreamStdout, At: time.Now().UTC(),
				Text: fmt.Sprintf("%s INFO worker[%d]: epoch=%d loss=0.%06d throughput=%d samples/s device=cuda:%d path=/data/shard-%05d",
					time.Now().UTC().Format(time.RFC3339Nano), seq%8, seq/1000, seq*7919%1_000_000, 1000+seq%997, seq%8, seq%4096),
			}
			sent += len(lines[i].Text)
		}
		if err := send(lines); err != nil {
			return sent, err
		}
	}
	return sent, nil
}

// follow measures how late somebody who follows a run sees what it prints.
func (r *runs) follow(ctx context.Context, out io.Writer, api *apiclient.Client, nodes []types.UUID, f flags,
	digest string,
) error {
	listening := make(chan struct{})
	r.printing(digest, func(p *agentwire.OperationRunParams, send func([]agentwire.LogLine) error) error {
		<-listening
		ticker := time.NewTicker(time.Second / followedRate)
		defer ticker.Stop()
		for seq := range int64(followed) {
			<-ticker.C
			now := time.Now().UTC()
			if err := send([]agentwire.LogLine{{
				Seq: seq + 1, Step: p.Steps[0].ID, Stream: agentwire.StreamStdout, At: now, Text: "tick",
			}}); err != nil {
				return err
			}
		}
		return nil
	})
	defer r.printing(digest, nil)
	o, err := submit(ctx, api, f, nodes[:1])
	if err != nil {
		close(listening)
		return err
	}
	yes := true
	resp, err := api.GetFleetOperationLogs(ctx, o.OperationId, &apiclient.GetFleetOperationLogsParams{Follow: &yes},
		apiclient.AsStream)
	close(listening)
	if err != nil {
		return fmt.Errorf("follow the logs: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	var took []time.Duration
	errEnd := errors.New("the run has ended")
	err = apiclient.Messages(resp.Body, func(_, name string, data []byte) error {
		var line apiclient.OperationLineView
		switch {
		case name == "end":
			return errEnd
		case name != "line":
			return nil
		}
		if err := json.Unmarshal(data, &line); err != nil {
			return fmt.Errorf("read a line: %w", err)
		}
		if strings.Contains(line.Text, "tick") {
			took = append(took, time.Since(line.At))
		}
		return nil
	})
	if !errors.Is(err, errEnd) {
		return fmt.Errorf("follow the logs: %w", err)
	}
	if len(took) != followed {
		return fmt.Errorf("%d of %d lines were seen", len(took), followed)
	}
	say(out, "printed to seen by a follower, %d lines: %s", len(took), quantiles(took))
	return nil
}
