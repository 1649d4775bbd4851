package allocation

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"gpuaas/contract/certificate"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

// ReceiptView is a paper of an allocation as the API lists it.
type ReceiptView struct {
	Moment        string         `json:"moment" enum:"handover,release" doc:"handover: about the node before the tenant had it; release: about its cleaning afterwards."`
	CertificateID id.Certificate `json:"certificate_id"`
	Kind          string         `json:"kind" enum:"certificate,handover_receipt"`
	Outcome       string         `json:"outcome" enum:"clean,with_gaps"`
	Digest        string         `json:"digest"`
	IssuedAt      time.Time      `json:"issued_at"`
}

func showReceipt(r Receipt) ReceiptView {
	return ReceiptView{
		Moment: r.Moment, CertificateID: r.ID, Kind: r.Kind, Outcome: r.Outcome, Digest: r.Digest, IssuedAt: r.IssuedAt.UTC(),
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

func (s *Service) registerReceipts(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-allocation-receipts", Method: http.MethodGet, Path: pathOne + "/receipts", Tag: tag,
		Summary: "List what proves that the node was clean before the allocation, and was cleaned after it",
		Description: "A node that nobody had before has none from before. Keep the files: they are verified without this " +
			"control plane, with the public keys of list-certificate-keys.",
		Access: httpapi.Project(auth.CertificateRead),
	}, func(ctx context.Context, in *struct {
		Both
		httpapi.Page
	},
	) (*httpapi.Listed[ReceiptView], error) {
		if _, err := s.of(ctx, in.AllocationID, in.ProjectID, auth.CertificateRead); err != nil {
			return nil, err
		}
		rows, err := s.Receipts(ctx, in.AllocationID)
		return httpapi.ListOf(in.Page, rows, err, showReceipt, func(r ReceiptView) any { return r.CertificateID })
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-allocation-receipt", Method: http.MethodGet, Path: pathOne + "/receipts/{certificate_id}", Tag: tag,
		Summary: "Read a signed paper of an allocation", Description: "The answer, byte by byte, is the signed file.",
		Access: httpapi.Project(auth.CertificateRead),
	}, func(ctx context.Context, in *struct {
		Both
		CertificateID id.Certificate `path:"certificate_id" doc:"Id of the paper."`
	},
	) (*httpapi.Plain[file], error) {
		if _, err := s.of(ctx, in.AllocationID, in.ProjectID, auth.CertificateRead); err != nil {
			return nil, err
		}
		rows, err := s.Receipts(ctx, in.AllocationID)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			if r.ID == in.CertificateID {
				raw, err := s.papers.Signed(ctx, r.ID)
				return &httpapi.Plain[file]{Body: file{raw}}, err
			}
		}
		return nil, fault.New(fault.NotFound, "receipt_not_found", "the allocation has no such paper").
			WithRemedy("see which it has: gpuaas allocation receipts %s", in.AllocationID)
	})
}
