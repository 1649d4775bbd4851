package decommission

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

// EvidenceKind is the kind of a piece of evidence, as the API names it.
type EvidenceKind string

// Schema implements huma.SchemaProvider.
func (EvidenceKind) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(evidenceKinds) }

// EvidenceView shows what a stage saw.
type EvidenceView struct {
	Seq        int64        `json:"seq" doc:"Grows with every piece of evidence; certificates name it."`
	Stage      string       `json:"stage"`
	Attempt    int          `json:"attempt"`
	Epoch      int64        `json:"epoch"`
	Kind       EvidenceKind `json:"kind" doc:"What it is about, and so which fields it has."`
	Value      any          `json:"value" doc:"What was seen."`
	RecordedAt time.Time    `json:"recorded_at"`
}

func showEvidence(e Evidence) (EvidenceView, error) {
	v := EvidenceView{
		Seq: e.Seq, Stage: e.Stage, Attempt: e.Attempt, Epoch: e.Epoch, Kind: EvidenceKind(e.Kind),
		RecordedAt: e.RecordedAt.UTC(),
	}
	if err := json.Unmarshal(e.Value, &v.Value); err != nil {
		return v, fmt.Errorf("decode evidence %d: %w", e.Seq, err)
	}
	return v, nil
}

func (s *Service) registerEvidence(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-decommission-evidence", Method: http.MethodGet, Path: pathOne + "/evidence", Tag: tag,
		Summary:     "Read what the stages of a decommission saw, oldest first",
		Description: "All of it, in one page. The certificate names each piece by its number and digest.",
		Access:      httpapi.Platform(auth.DecommissionRead),
	}, func(ctx context.Context, in *Path) (*httpapi.Listed[EvidenceView], error) {
		if _, err := s.Get(ctx, in.DecommissionID); err != nil {
			return nil, err
		}
		rows, err := s.EvidenceOf(ctx, in.DecommissionID)
		if err != nil {
			return nil, err
		}
		out := httpapi.List[EvidenceView]{Items: make([]EvidenceView, len(rows))}
		for i, e := range rows {
			if out.Items[i], err = showEvidence(e); err != nil {
				return nil, err
			}
		}
		return &httpapi.Listed[EvidenceView]{Body: out}, nil
	})
}
