// Package system answers questions about the control plane itself: what runs,
// what it depends on, and which lifecycles its nouns have.
package system

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/lifecycle"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/engine/health"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/telemetry"
)

// Source is where the answers come from.
type Source struct {
	Version    string
	Roles      []string
	Monitor    *health.Monitor
	Outbox     func(ctx context.Context) ([]outbox.DestinationStats, error)
	Metrics    func(io.Writer) error
	Workers    func(ctx context.Context) ([]durable.Queue, error)
	TemporalUI string // empty: there is none
	Notices    func(ctx context.Context) ([]Notice, error)
	Lifecycles []lifecycle.Description
}

// askWorkers is how long to wait for Temporal, because the rest of the answer
// is more important.
const askWorkers = 2 * time.Second

// Status is the state of the control plane as this replica sees it.
type Status struct {
	Version      string         `json:"version"`
	Roles        []string       `json:"roles" doc:"what this replica does"`
	Ready        bool           `json:"ready" doc:"whether every dependency is up"`
	Dependencies []health.State `json:"dependencies"`
	Insecure     []string       `json:"insecure,omitempty" nullable:"false" doc:"What this replica does without TLS although it leaves the machine, because the setting insecure names it; absent: nothing."`
	Outbox       []Backlog      `json:"outbox" doc:"what waits to be delivered"`
	Workers      []Workers      `json:"workers" nullable:"false" doc:"what waits for workers; empty when Temporal does not say"`
	WorkersError string         `json:"workers_error,omitempty" doc:"why Temporal does not say what waits for workers; absent: it does"`
	Links        Links          `json:"links" doc:"where to see more"`
	Notices      []Notice       `json:"notices" nullable:"false" doc:"what an operator should see to before it becomes a failure"`
}

// Notice is something that works now but will soon fail.
type Notice struct {
	Code    string `json:"code" doc:"stable code of what it is" example:"admin_access_ends"`
	Message string `json:"message"`
	Remedy  string `json:"remedy"`
}

// Workers are the workers of one queue of Temporal, and what waits for them.
type Workers struct {
	TaskQueue        string       `json:"task_queue"`
	Kind             durable.Work `json:"kind" enum:"workflow,activity" doc:"decisions of workflows, or activities that they ask for"`
	Pollers          int64        `json:"pollers" doc:"workers that asked for work within the last minutes"`
	Backlog          int64        `json:"backlog" doc:"tasks that wait for a worker, approximately"`
	OldestAgeSeconds float64      `json:"oldest_age_seconds" doc:"how long the oldest of them has waited"`
}

// Links are pages outside the control plane.
type Links struct {
	TemporalUI string `json:"temporal_ui,omitempty" format:"uri" doc:"web interface of Temporal; absent: there is none"`
}

// Backlog counts what waits for one destination.
type Backlog struct {
	Destination      string  `json:"destination" enum:"nats,temporal"`
	Pending          int64   `json:"pending"`
	Failed           int64   `json:"failed" doc:"dead letters; see list-failed-outbox-events"`
	OldestAgeSeconds float64 `json:"oldest_age_seconds" doc:"age of the oldest pending message"`
}

type statusOutput struct {
	Body Status
}

type metricsOutput struct {
	ContentType string `header:"Content-Type"`
	Body        []byte
}

type lifecyclesOutput struct {
	Body httpapi.List[lifecycle.Description]
}

// Register adds the operations about the control plane itself.
func (s Source) Register(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "get-system-status", Method: http.MethodGet, Path: "/api/v1/admin/system", Tag: "System",
		Summary: "Read the state of the control plane and its dependencies", Access: httpapi.Platform(auth.SystemRead),
	}, s.status)
	httpapi.Register(api, httpapi.Operation{
		ID: "list-lifecycles", Method: http.MethodGet, Path: "/api/v1/lifecycles", Tag: "System",
		Summary:     "List the lifecycles of all nouns",
		Description: "States, what may happen in each, who may do it, and after how long a noun counts as stuck.",
		Access:      httpapi.Anywhere(auth.LifecycleRead),
	}, func(context.Context, *struct{}) (*lifecyclesOutput, error) {
		return &lifecyclesOutput{Body: httpapi.List[lifecycle.Description]{Items: s.Lifecycles}}, nil
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-metrics", Method: http.MethodGet, Path: "/metrics", Tag: "System",
		Summary: "Read the metrics of this replica, in the text format of Prometheus",
		Access:  httpapi.Platform(auth.SystemRead),
	}, s.metrics)
	// The framework takes bytes for something encoded in JSON.
	api.OpenAPI().Paths["/metrics"].Get.Responses["200"] = &huma.Response{
		Description: "OK", Content: map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: huma.TypeString}}},
	}
	for _, l := range s.Lifecycles {
		api.Schema(schemaName(l.Noun), l.Names())
	}
	// The console draws states, and offers what may happen in them, by the tables.
	states := map[string][]lifecycle.StateDescription{}
	for _, l := range s.Lifecycles {
		states[l.Noun] = l.States
	}
	api.Extend("x-gpuaas-states", states)
}

// schemaName turns self_check into SelfCheckState.
func schemaName(noun string) string {
	var b strings.Builder
	for _, word := range strings.Split(noun, "_") {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String() + "State"
}

func (s Source) metrics(context.Context, *struct{}) (*metricsOutput, error) {
	var text bytes.Buffer
	if err := s.Metrics(&text); err != nil {
		return nil, err
	}
	return &metricsOutput{ContentType: telemetry.MetricsType, Body: text.Bytes()}, nil
}

func (s Source) status(ctx context.Context, _ *struct{}) (*statusOutput, error) {
	out := &statusOutput{Body: Status{
		Version: s.Version, Roles: s.Roles, Ready: true, Insecure: s.Monitor.Insecure, Outbox: []Backlog{},
		Links: Links{TemporalUI: s.TemporalUI},
	}}
	// Ask beside the rest, so that a Temporal that hangs is waited for only
	// once.
	var asking sync.WaitGroup
	asking.Go(func() { out.Body.Workers, out.Body.WorkersError = s.workers(ctx) })
	defer asking.Wait()
	out.Body.Dependencies = s.Monitor.States(ctx)
	for _, d := range out.Body.Dependencies {
		out.Body.Ready = out.Body.Ready && d.Up
	}
	stats, err := s.Outbox(ctx)
	if err != nil {
		return nil, err
	}
	for _, st := range stats {
		out.Body.Outbox = append(out.Body.Outbox, Backlog{
			Destination: st.Destination, Pending: st.Pending, Failed: st.Failed,
			OldestAgeSeconds: st.Lag.Round(time.Millisecond).Seconds(),
		})
	}
	if out.Body.Notices, err = s.notices(ctx); err != nil {
		return nil, err
	}
	asking.Wait()
	return out, nil
}

func (s Source) notices(ctx context.Context) ([]Notice, error) {
	if s.Notices == nil {
		return []Notice{}, nil
	}
	found, err := s.Notices(ctx)
	return append([]Notice{}, found...), err
}

func (s Source) workers(ctx context.Context) (workers []Workers, problem string) {
	ctx, cancel := context.WithTimeout(ctx, askWorkers)
	defer cancel()
	queues, err := s.Workers(ctx)
	if err != nil {
		problem = "Temporal does not answer"
		if f, told := fault.As(err); told {
			problem = f.Message
		}
		return []Workers{}, problem
	}
	for _, q := range queues {
		workers = append(workers, Workers{
			TaskQueue: q.Name, Kind: q.Work, Pollers: q.Pollers, Backlog: q.Backlog,
			OldestAgeSeconds: q.Oldest.Round(time.Millisecond).Seconds(),
		})
	}
	return workers, ""
}
