package node

import (
	"context"
	"net/http"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

// BootstrapMode is the form in which a bootstrap is handed out.
type BootstrapMode string

// The modes.
const (
	Shell     BootstrapMode = "shell"
	CloudInit BootstrapMode = "cloud_init"
)

// BootstrapView is a bootstrap for a machine that shall become a node. It holds
// a token.
type BootstrapView struct {
	Command       string    `json:"command,omitempty" doc:"Run it on the machine as root. It is shown this once."`
	Token         string    `json:"token" doc:"What both hold, for those who write a bootstrap of their own. It is shown this once."`
	UserData      string    `json:"user_data,omitempty" doc:"User data for the first boot of the machine. It is shown this once."`
	ExpiresAt     time.Time `json:"expires_at" doc:"Until when it works; it works once."`
	CAFingerprint string    `json:"ca_fingerprint" doc:"SHA-256 of the CA of the control plane, which the bootstrap pins."`
}

// BootstrapBody says which bootstrap the caller wants.
type BootstrapBody struct {
	Mode    BootstrapMode `json:"mode,omitempty" enum:"shell,cloud_init" default:"shell" doc:"How it is written down: as a command, or as user data for the first boot."`
	Purpose Purpose       `json:"purpose,omitempty" enum:"bootstrap,recovery" default:"bootstrap" doc:"recovery: a new certificate for a node that had enrolled; tasks that were meant for it before are void."`
}

// RevokeBody says why an identity is revoked.
type RevokeBody struct {
	Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"Why; it is part of the history." example:"the disk left the data centre"`
}

func (s *Service) registerIdentity(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "issue-node-bootstrap", Method: http.MethodPost, Path: pathNode + "/bootstrap", Tag: tag,
		Summary: "Issue a new bootstrap for a node",
		Description: "It is shown this once. Bootstraps of the same purpose that were issued before and not used stop " +
			"working.",
		Access: httpapi.Platform(auth.NodeManage), SecretResponse: true,
	}, func(ctx context.Context, in *struct {
		Path
		Body BootstrapBody
	},
	) (*httpapi.Plain[BootstrapView], error) {
		v, err := s.issueBootstrap(ctx, in.NodeID, in.Body.Purpose, in.Body.Mode)
		return &httpapi.Plain[BootstrapView]{Body: v}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "revoke-node-identity", Method: http.MethodPost, Path: pathNode + "/revoke-identity", Tag: tag,
		Summary:     "Take all certificates and tokens of a node back",
		Description: "Its agent is refused from now on. A bootstrap with purpose recovery gives it a new identity.",
		Access:      httpapi.Platform(auth.NodeManage),
	}, func(ctx context.Context, in *struct {
		Path
		Body RevokeBody
	},
	) (*httpapi.Nothing, error) {
		return nil, s.RevokeIdentity(ctx, in.NodeID, in.Body.Reason)
	})
}

// IssueBootstrap makes a command for the shell of a machine. It holds a token, which is
// shown to nobody else.
func (s *Service) IssueBootstrap(ctx context.Context, node id.Node, purpose Purpose) (BootstrapView, error) {
	return s.issueBootstrap(ctx, node, purpose, Shell)
}

func (s *Service) issueBootstrap(ctx context.Context, node id.Node, purpose Purpose, mode BootstrapMode) (
	BootstrapView, error,
) {
	token := s.newToken(purpose, s.settings.BootstrapTTL)
	v, err := s.render(ctx, token, mode)
	if err != nil {
		return BootstrapView{}, err
	}
	if err := s.issueToken(ctx, node, token); err != nil {
		return BootstrapView{}, err
	}
	return v, nil
}
