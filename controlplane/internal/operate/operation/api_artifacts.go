package operation

import (
	"context"
	"net/http"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

// ArtifactView is something that a step left on a node, or found there.
type ArtifactView struct {
	TargetID      id.OperationTarget `json:"target_id"`
	NodeID        id.Node            `json:"node_id"`
	Hostname      string             `json:"hostname"`
	AttemptNumber int32              `json:"attempt_number"`
	StepIndex     int32              `json:"step_index"`
	StepID        string             `json:"step_id"`
	Kind          string             `json:"kind" enum:"file,backup,package" doc:"backup: the copy of what a step replaced, kept on the node."`
	Role          string             `json:"role" enum:"produced,used,removed" doc:"produced: the step made or changed it; used: it was there as wanted."`
	Name          string             `json:"name" doc:"Path of a file, name of a package."`
	Digest        string             `json:"digest,omitempty" doc:"Of the content; absent: the node does not tell it, because it holds a secret."`
	Before        string             `json:"before,omitempty" doc:"Digest or version that was there."`
	After         string             `json:"after,omitempty" doc:"Version that is there."`
	Bytes         int64              `json:"bytes,omitempty"`

	position, seq int32
}

func showArtifact(a Artifact) ArtifactView {
	return ArtifactView{
		TargetID: a.Target, NodeID: a.Node, Hostname: a.Hostname, AttemptNumber: a.Attempt, StepIndex: a.Index,
		StepID: a.Step, Kind: a.Kind, Role: a.Role, Name: a.Name, Digest: a.Digest, Before: a.Before, After: a.After,
		Bytes: a.Bytes, position: a.Position, seq: a.Seq,
	}
}

// ArtifactFilter says which artifacts a list gives.
type ArtifactFilter struct {
	Target id.OperationTarget `query:"target" doc:"Only those of this target."`
	Kind   string             `query:"kind" enum:"file,backup,package" doc:"Only of this kind."`
	httpapi.Page
}

func (s *Service) listedArtifacts(ctx context.Context, of id.Operation, in ArtifactFilter) (
	*httpapi.Listed[ArtifactView], error,
) {
	at, err := httpapi.SliceOf[ArtifactPosition](in.Page)
	if err != nil {
		return nil, err
	}
	rows, err := s.Artifacts(ctx, of, in.Target, in.Kind, at.After, at.Limit)
	return httpapi.ListOf(in.Page, rows, err, showArtifact, func(v ArtifactView) any {
		return ArtifactPosition{Position: v.position, Attempt: v.AttemptNumber, Step: v.StepIndex, Seq: v.seq}
	})
}

func (s *Service) registerArtifacts(api *httpapi.API) {
	const what = "List what the steps of a run left on nodes, or found there"
	httpapi.Register(api, httpapi.Operation{
		ID: "list-operation-artifacts", Method: http.MethodGet, Path: pathProject + "/{operation_id}/artifacts", Tag: tag,
		Summary: what, Access: httpapi.Project(auth.OperationRead),
	}, func(ctx context.Context, in *struct {
		ProjectPath
		ArtifactFilter
	},
	) (*httpapi.Listed[ArtifactView], error) {
		if _, err := s.of(ctx, in.OperationID, in.ProjectID); err != nil {
			return nil, err
		}
		return s.listedArtifacts(ctx, in.OperationID, in.ArtifactFilter)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-fleet-operation-artifacts", Method: http.MethodGet, Path: pathAdmin + "/{operation_id}/artifacts",
		Tag: tag, Summary: what + ", whoever's it is", Access: httpapi.Platform(auth.OperationRead),
	}, func(ctx context.Context, in *struct {
		Path
		ArtifactFilter
	},
	) (*httpapi.Listed[ArtifactView], error) {
		if _, err := s.of(ctx, in.OperationID, id.Project{}); err != nil {
			return nil, err
		}
		return s.listedArtifacts(ctx, in.OperationID, in.ArtifactFilter)
	})
}
