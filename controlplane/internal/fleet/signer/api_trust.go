package signer

import (
	"context"
	"crypto/x509"
	"net/http"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

const (
	pathBundle = "/api/v1/admin/trust-bundle"
	tagTrust   = "Trust"
)

// BundleView is the bundle with which nodes verify the control plane, and how
// many use it.
type BundleView struct {
	Version     int64           `json:"version" doc:"Grows with every change; nodes take over newer ones only."`
	Fingerprint string          `json:"sha256_fingerprint" doc:"SHA-256 of the bundle as nodes keep it."`
	CreatedAt   time.Time       `json:"created_at"`
	Authorities []AuthorityView `json:"authorities" nullable:"false"`
	Nodes       int             `json:"nodes" doc:"Nodes that have an agent and are not on their way out."`
	NodesBehind int             `json:"nodes_behind" doc:"Nodes that have not taken this version over, or whose agent is too old to say."`
	Behind      []id.Node       `json:"behind" nullable:"false" doc:"Some of them."`
}

// AuthorityView is one CA of the bundle.
type AuthorityView struct {
	Fingerprint string    `json:"sha256_fingerprint" doc:"SHA-256 of the certificate."`
	Subject     string    `json:"subject"`
	NotAfter    time.Time `json:"not_after"`
}

func showAuthority(c *x509.Certificate) AuthorityView {
	return AuthorityView{Fingerprint: Authority(c), Subject: c.Subject.String(), NotAfter: c.NotAfter.UTC()}
}

// AuthorityBody is an authority to add.
type AuthorityBody struct {
	PEM    string `json:"pem" minLength:"1" maxLength:"65536" doc:"Certificates of the CA, in PEM."`
	Reason string `json:"reason" minLength:"3" maxLength:"500" doc:"Why; it goes into the audit log."`
}

// RemoveBody says why an authority goes, and whether to wait for nodes.
type RemoveBody struct {
	Reason string `json:"reason" minLength:"3" maxLength:"500" doc:"Why; it goes into the audit log."`
	Force  bool   `json:"force,omitempty" doc:"Do not wait for nodes. Those that know no other authority need a recovery token."`
}

func (s *Service) registerTrust(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "get-trust-bundle", Method: http.MethodGet, Path: pathBundle, Tag: tagTrust,
		Summary: "Show what nodes verify the control plane with, and how many nodes do",
		Access:  httpapi.Platform(auth.SignerRead),
	}, func(ctx context.Context, _ *struct{}) (*httpapi.Plain[BundleView], error) {
		return s.showBundle(ctx)(s.CurrentBundle(ctx))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "add-trust-authority", Method: http.MethodPost, Path: pathBundle + "/authorities", Tag: tagTrust,
		Summary: "Have nodes accept the listener by one more CA",
		Description: "The first step of replacing the CA of the node listener. The new bundle is signed by the task " +
			"signers and taken over by nodes within minutes; nodes_behind says how many are missing.",
		Access: httpapi.Platform(auth.SignerManage),
	}, func(ctx context.Context, in *struct{ Body AuthorityBody }) (*httpapi.Plain[BundleView], error) {
		return s.showBundle(ctx)(s.AddAuthority(ctx, in.Body.PEM, in.Body.Reason))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "remove-trust-authority", Method: http.MethodPost, Path: pathBundle + "/authorities/{fingerprint}/remove",
		Tag:     tagTrust,
		Summary: "Have nodes accept the listener by a CA no more",
		Description: "The last step of replacing the CA of the node listener. It is refused while nodes have not taken the " +
			"present bundle over, unless it is forced, and while the listener still shows a certificate of that CA.",
		Access: httpapi.Platform(auth.SignerManage),
	}, func(ctx context.Context, in *struct {
		Fingerprint string `path:"fingerprint" pattern:"^[0-9a-f]{64}$" doc:"SHA-256 of the certificate of the CA."`
		Body        RemoveBody
	},
	) (*httpapi.Plain[BundleView], error) {
		return s.showBundle(ctx)(s.RemoveAuthority(ctx, in.Fingerprint, in.Body.Reason, in.Body.Force))
	})
}

func (s *Service) showBundle(ctx context.Context) func(Bundle, error) (*httpapi.Plain[BundleView], error) {
	return func(b Bundle, err error) (*httpapi.Plain[BundleView], error) {
		if err != nil {
			return nil, err
		}
		p, err := s.Progress(ctx, b)
		if err != nil {
			return nil, err
		}
		v := BundleView{
			Version: b.Version, Fingerprint: b.Fingerprint, CreatedAt: b.CreatedAt.UTC(), Authorities: []AuthorityView{},
			Nodes: p.Nodes, NodesBehind: p.NodesBehind, Behind: append([]id.Node{}, p.Sample...),
		}
		for _, c := range b.Authorities {
			v.Authorities = append(v.Authorities, showAuthority(c))
		}
		return &httpapi.Plain[BundleView]{Body: v}, nil
	}
}
