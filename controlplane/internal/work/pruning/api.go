package pruning

import (
	"context"
	"net/http"
	"time"

	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

// Survey is what a run would delete now.
type Survey struct {
	EverySeconds int64      `json:"every_seconds" doc:"how often old rows are deleted without being asked; 0: never"`
	KeepNewest   int32      `json:"keep_newest" doc:"how many of the newest rows of each node stay, whatever their age"`
	LastRunAt    *time.Time `json:"last_run_at,omitempty" doc:"when a run last began; absent: there was none"`
	Kinds        []Pruned   `json:"kinds" nullable:"false"`
}

// Outcome is what a run deleted.
type Outcome struct {
	Kinds    []Pruned `json:"kinds" nullable:"false"`
	Complete bool     `json:"complete" doc:"nothing is left to delete; false: time was up, ask again"`
}

type surveyOutput struct{ Body Survey }

type runOutput struct{ Body Outcome }

// Register adds the operations.
func (s *Service) Register(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "get-pruning", Method: http.MethodGet, Path: "/api/v1/admin/pruning", Tag: "System",
		Summary: "Say how many old rows a run would delete, and delete nothing",
		Description: "The settings prune.* decide. Audit entries, certificates about the cleaning of nodes and the " +
			"evidence that these rest on are never deleted.",
		Access: httpapi.Platform(auth.PruningRead),
	}, func(ctx context.Context, _ *struct{}) (*surveyOutput, error) {
		due, err := s.Survey(ctx)
		if err != nil {
			return nil, err
		}
		return &surveyOutput{Body: Survey{
			EverySeconds: int64(s.policy.Every.Seconds()), KeepNewest: s.policy.KeepNewest, LastRunAt: due.LastRun,
			Kinds: append([]Pruned{}, due.Kinds...),
		}}, nil
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "run-pruning", Method: http.MethodPost, Path: "/api/v1/admin/pruning/run", Tag: "System",
		Summary: "Delete old rows now, as the settings say",
		Description: "Deletes in small batches for a while and answers what was deleted. While `complete` is false, more is " +
			"left: repeat the request with another Idempotency-Key. What was deleted cannot be brought back.",
		Access: httpapi.Platform(auth.PruningRun),
	}, func(ctx context.Context, _ *struct{}) (*runOutput, error) {
		run, err := s.Request(ctx)
		if err != nil {
			return nil, err
		}
		return &runOutput{Body: Outcome{Kinds: append([]Pruned{}, run.Kinds...), Complete: run.Complete}}, nil
	})
}
