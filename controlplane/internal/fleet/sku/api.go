package sku

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

const (
	pathSKUs = "/api/v1/admin/skus"
	pathSKU  = pathSKUs + "/{sku_id}"
	tag      = "SKUs"
)

// Schema implements huma.SchemaProvider.
func (Status) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(statuses) }

// View is a SKU as the API shows it.
type View struct {
	SKUID string `json:"sku_id" example:"h200-sxm-baremetal-8g"`
	Terms
	Status    Status    `json:"status" doc:"A disabled SKU keeps its nodes and gets no new ones."`
	Version   int64     `json:"version" doc:"Grows with every change."`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

func show(s SKU) View {
	return View{
		SKUID: s.ID, Terms: s.Terms, Status: s.Status, Version: s.Version, CreatedAt: s.CreatedAt.UTC(),
		UpdatedAt: s.UpdatedAt.UTC(),
	}
}

// NewBody describes a SKU to add.
type NewBody struct {
	SKUID string `json:"sku_id" minLength:"1" maxLength:"63" doc:"Its id, a name that is never used for another." example:"h200-sxm-baremetal-8g"`
	Terms
}

// Path names a SKU in the path.
type Path struct {
	SKUID string `path:"sku_id" maxLength:"63" doc:"Id of the SKU." example:"h200-sxm-baremetal-8g"`
}

// Register adds the operations of the package to an API.
func (s *Service) Register(api *httpapi.API) {
	s.registerReads(api)
	httpapi.Register(api, httpapi.Operation{
		ID: "create-sku", Method: http.MethodPost, Path: pathSKUs, Tag: tag,
		Summary: "Add a SKU to the catalog", Access: httpapi.Platform(auth.SKUManage), Status: http.StatusCreated,
	}, func(ctx context.Context, in *struct{ Body NewBody }) (*httpapi.Versioned[View], error) {
		made, err := s.Create(ctx, in.Body.SKUID, in.Body.Terms)
		return httpapi.AtVersion(made.Version, show(made)), err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "update-sku", Method: http.MethodPatch, Path: pathSKU, Tag: tag,
		Summary: "Change, disable or enable a SKU", Access: httpapi.Platform(auth.SKUManage),
	}, func(ctx context.Context, in *struct {
		Path
		httpapi.IfMatch
		Body Change
	},
	) (*httpapi.Versioned[View], error) {
		version, err := in.Version()
		if err != nil {
			return nil, err
		}
		after, err := s.Update(ctx, in.SKUID, version, in.Body)
		return httpapi.AtVersion(after.Version, show(after)), err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "delete-sku", Method: http.MethodDelete, Path: pathSKU, Tag: tag,
		Summary: "Take a SKU out of the catalog", Description: "Refused while nodes are of it. Its id is not used again.",
		Access: httpapi.Platform(auth.SKUManage),
	}, func(ctx context.Context, in *Path) (*httpapi.Nothing, error) {
		return nil, s.Delete(ctx, in.SKUID)
	})
}

// Everybody who may rent reads the catalog, so the caller needs the permission
// in any tenant or project, not on the platform.
func (s *Service) registerReads(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-skus", Method: http.MethodGet, Path: pathSKUs, Tag: tag,
		Summary: "List the SKUs", Access: httpapi.Anywhere(auth.SKURead),
	}, func(ctx context.Context, in *struct {
		httpapi.Page
		Status Status `query:"status" doc:"Only SKUs of this status."`
	},
	) (*httpapi.Listed[View], error) {
		page, err := httpapi.SliceOf[position](in.Page)
		if err != nil {
			return nil, err
		}
		rows, err := s.List(ctx, in.Status, page)
		return httpapi.ListOf(in.Page, rows, err, show, func(v View) any { return position{v.SKUID} })
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-sku", Method: http.MethodGet, Path: pathSKU, Tag: tag,
		Summary: "Read a SKU", Access: httpapi.Anywhere(auth.SKURead),
	}, func(ctx context.Context, in *Path) (*httpapi.Versioned[View], error) {
		found, err := s.Get(ctx, in.SKUID)
		return httpapi.AtVersion(found.Version, show(found)), err
	})
}
