package signer

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

const (
	pathSigners = "/api/v1/admin/signers"
	tagSigners  = "Signers"
)

// Schema is the enum of the contract: the states of the lifecycle. It implements
// huma.SchemaProvider.
func (Status) Schema(huma.Registry) *huma.Schema { return httpapi.StatesOf(Lifecycle.Describe()) }

// View is a signer as the API shows it.
type View struct {
	ID              string       `json:"id" doc:"Its id; tasks name it as signer_version." example:"20260301-093000-5fa3c1"`
	Status          Status       `json:"status"`
	PublicKey       []byte       `json:"public_key" doc:"Ed25519, base64."`
	VerifierVersion int64        `json:"verifier_version" doc:"The first set of verifiers that it is part of."`
	PublishedAt     time.Time    `json:"published_at"`
	EffectiveAt     *time.Time   `json:"effective_at,omitempty" doc:"When it last became active."`
	RetiresAt       *time.Time   `json:"retires_at,omitempty" doc:"When its grace period ends."`
	FinishedAt      *time.Time   `json:"finished_at,omitempty" doc:"When it was retired or revoked."`
	WaitingFor      *WaitingView `json:"waiting_for,omitempty" doc:"What keeps a staged signer from signing, or which nodes do not know an active one."`
}

// WaitingView says what a signer waits for.
type WaitingView struct {
	NodesBehind int        `json:"nodes_behind" doc:"Nodes that do not accept it yet."`
	Nodes       []id.Node  `json:"nodes" nullable:"false" doc:"Some of them."`
	GraceOf     string     `json:"grace_of,omitempty" doc:"A signer whose grace period must end first."`
	GraceEnds   *time.Time `json:"grace_ends_at,omitempty"`
}

func show(l Listed) View {
	v := View{
		ID: l.ID, Status: l.Status, PublicKey: l.PublicKey, VerifierVersion: l.VerifierVersion,
		PublishedAt: l.PublishedAt.UTC(),
		EffectiveAt: utc(l.EffectiveAt), RetiresAt: utc(l.RetiresAt), FinishedAt: utc(l.FinishedAt),
	}
	if w := l.Waiting; !w.Over() {
		v.WaitingFor = &WaitingView{
			NodesBehind: w.NodesBehind, Nodes: append([]id.Node{}, w.Sample...), GraceOf: w.GraceOf,
			GraceEnds: utc(w.GraceEnds),
		}
	}
	return v
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

// ReasonBody says why.
type ReasonBody struct {
	Reason string `json:"reason" minLength:"3" maxLength:"500" doc:"Why; it goes into the audit log."`
}

// ForceBody says why, and whether to go on without waiting for nodes.
type ForceBody struct {
	Reason string `json:"reason" minLength:"3" maxLength:"500" doc:"Why; it goes into the audit log."`
	Force  bool   `json:"force,omitempty" doc:"Do not wait for nodes. Those that do not know the signer take it over at once if they know another one that is not revoked, and need a recovery token otherwise."`
}

// Register adds the operations of the package to an API.
func (s *Service) Register(api *httpapi.API) {
	s.registerTrust(api)
	httpapi.Register(api, httpapi.Operation{
		ID: "list-signers", Method: http.MethodGet, Path: pathSigners, Tag: tagSigners,
		Summary: "List the keys that tasks are signed with, newest first", Access: httpapi.Platform(auth.SignerRead),
	}, s.list)
	httpapi.Register(api, httpapi.Operation{
		ID: "rotate-signer", Method: http.MethodPost, Path: pathSigners + "/rotate", Tag: tagSigners,
		Summary: "Replace the key that tasks are signed with",
		Description: "Stages a new signer and makes it known to all nodes. It begins to sign when all of them accept it; " +
			"with force at once. While a rotation is under way, force brings it to its end.",
		Access: httpapi.Platform(auth.SignerManage),
	}, func(ctx context.Context, in *struct{ Body ForceBody }) (*httpapi.Plain[View], error) {
		return s.answer(ctx)(s.Rotate(ctx, in.Body.Reason, in.Body.Force))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "rollback-signer", Method: http.MethodPost, Path: pathSigners + "/rollback", Tag: tagSigners,
		Summary: "Let the signer in grace sign again", Access: httpapi.Platform(auth.SignerManage),
	}, func(ctx context.Context, in *struct{ Body ReasonBody }) (*httpapi.Plain[View], error) {
		return s.answer(ctx)(s.Rollback(ctx, in.Body.Reason))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "revoke-signer", Method: http.MethodPost, Path: pathSigners + "/{signer_id}/revoke", Tag: tagSigners,
		Summary: "Take all trust from a signer at once",
		Description: "When it is the active one, another takes over in the same moment: the staged one if all nodes accept " +
			"it, otherwise the one in grace; with force one that nodes do not know yet.",
		Access: httpapi.Platform(auth.SignerManage),
	}, func(ctx context.Context, in *struct {
		SignerID string `path:"signer_id" pattern:"^[a-z0-9-]{1,64}$" doc:"Id of the signer."`
		Body     ForceBody
	},
	) (*httpapi.Plain[View], error) {
		return s.answer(ctx)(s.Revoke(ctx, in.SignerID, in.Body.Reason, in.Body.Force))
	})
}

func (s *Service) list(ctx context.Context, in *struct{ httpapi.Page }) (*httpapi.Listed[View], error) {
	page, err := httpapi.SliceOf[position](in.Page)
	if err != nil {
		return nil, err
	}
	rows, err := s.List(ctx, page)
	return httpapi.ListOf(in.Page, rows, err, show, func(v View) any { return position{v.PublishedAt, v.ID} })
}

// answer shows a signer with what it waits for now.
func (s *Service) answer(ctx context.Context) func(Signer, error) (*httpapi.Plain[View], error) {
	return func(signer Signer, err error) (*httpapi.Plain[View], error) {
		if err != nil {
			return nil, err
		}
		now, err := current(ctx, s.reads)
		if err != nil {
			return nil, err
		}
		w, err := s.waiting(ctx, signer, now)
		if err != nil {
			return nil, err
		}
		return &httpapi.Plain[View]{Body: show(Listed{Signer: signer, Waiting: w})}, nil
	}
}
