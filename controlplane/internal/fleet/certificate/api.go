package certificate

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"gpuaas/contract/certificate"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

const (
	pathCertificates = "/api/v1/admin/certificates"
	tag              = "Certificates"
)

// View is a certificate or handover receipt as lists show it.
type View struct {
	CertificateID  id.Certificate   `json:"certificate_id"`
	Kind           certificate.Kind `json:"kind" enum:"certificate,handover_receipt"`
	NodeID         id.Node          `json:"node_id"`
	Hostname       string           `json:"hostname" doc:"What the node was called then." example:"c07u31"`
	DecommissionID id.Decommission  `json:"decommission_id" doc:"The operation that it is about."`
	Mode           string           `json:"mode" enum:"soft_reset,reimage,full_decommission,retire"`
	Outcome        string           `json:"outcome" enum:"clean,with_gaps" doc:"with_gaps: it names downgrades or overrides, so that less was done than was asked for."`
	Seq            int              `json:"seq" doc:"Which one of the node it is, from 1."`
	Digest         string           `json:"digest" doc:"SHA-256 of the signed document; the next one of the node names it."`
	PreviousDigest string           `json:"previous_digest" doc:"That of the one before it; empty: it is the first one."`
	KeyID          string           `json:"key_id" doc:"The key that signed it."`
	IssuedAt       time.Time        `json:"issued_at"`
}

func show(i Issued) View {
	return View{
		CertificateID: i.ID, Kind: i.Kind, NodeID: i.Node, Hostname: i.Hostname, DecommissionID: i.Decommission, Mode: i.Mode,
		Outcome: i.Outcome, Seq: i.Seq,
		Digest: i.Digest, PreviousDigest: i.Previous, KeyID: i.KeyID, IssuedAt: i.IssuedAt.UTC(),
	}
}

// file is a signed document, passed on byte by byte.
type file struct{ json.RawMessage }

// MarshalJSON returns the bytes of the file.
func (f file) MarshalJSON() ([]byte, error) { return f.RawMessage, nil }

// Schema returns the schema of the file.
func (file) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[certificate.Signed](), true, "")
}

// Kinds filters a list.
type Kinds struct {
	Kind    string `query:"kind" enum:"certificate,handover_receipt" doc:"Only of this kind."`
	Outcome string `query:"outcome" enum:"clean,with_gaps" doc:"Only with this outcome."`
}

func (k Kinds) filter(node id.Node) Filter {
	return Filter{Node: node, Kind: certificate.Kind(k.Kind), Outcome: k.Outcome}
}

// Register adds the operations of the package to an API.
func (s *Service) Register(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-certificates", Method: http.MethodGet, Path: pathCertificates, Tag: tag,
		Summary: "List certificates and handover receipts, newest first", Access: httpapi.Platform(auth.CertificateRead),
	}, func(ctx context.Context, in *struct {
		httpapi.Page
		Kinds
		NodeID id.Node `query:"node_id" doc:"Only of this node."`
	},
	) (*httpapi.Listed[View], error) {
		page, err := httpapi.SliceOf[position](in.Page)
		if err != nil {
			return nil, err
		}
		rows, err := s.List(ctx, in.filter(in.NodeID), page)
		return httpapi.ListOf(in.Page, rows, err, show, place)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-certificate", Method: http.MethodGet, Path: pathCertificates + "/{certificate_id}", Tag: tag,
		Summary: "Read a signed certificate or handover receipt",
		Description: "The answer, byte by byte, is the signed file. Keep it: it is verified without this control plane, " +
			"with the public keys.",
		Access: httpapi.Platform(auth.CertificateRead),
	}, func(ctx context.Context, in *struct {
		CertificateID id.Certificate `path:"certificate_id" doc:"Id of the certificate or handover receipt."`
	},
	) (*httpapi.Plain[file], error) {
		raw, err := s.Signed(ctx, in.CertificateID)
		return &httpapi.Plain[file]{Body: file{raw}}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-node-certificates", Method: http.MethodGet, Path: "/api/v1/admin/nodes/{node_id}/certificates", Tag: tag,
		Summary: "List certificates and handover receipts of a node, newest first",
		Access:  httpapi.Platform(auth.CertificateRead),
	}, func(ctx context.Context, in *struct {
		httpapi.Page
		Kinds
		NodeID id.Node `path:"node_id" doc:"Id of the node."`
	},
	) (*httpapi.Listed[View], error) {
		page, err := httpapi.SliceOf[position](in.Page)
		if err != nil {
			return nil, err
		}
		rows, err := s.OfNode(ctx, in.filter(in.NodeID), page)
		return httpapi.ListOf(in.Page, rows, err, show, place)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-certificate-keys", Method: http.MethodGet, Path: "/api/v1/certificate-keys", Tag: tag,
		Summary: "List the public keys that certificates are verified with",
		Description: "All that sign or ever signed. Get them once, from a place you trust, and keep them beside the " +
			"certificates.",
		Access: httpapi.Authenticated(),
	}, func(ctx context.Context, _ *struct{}) (*httpapi.Plain[certificate.Keys], error) {
		keys, err := s.Keys(ctx)
		return &httpapi.Plain[certificate.Keys]{Body: certificate.Keys{Keys: keys}}, err
	})
}

func place(v View) any { return position{v.IssuedAt, v.CertificateID} }
