package price

import (
	"context"
	"net/http"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

const (
	tag        = "Billing"
	pathPrices = "/api/v1/admin/prices"
)

// View is a price as the API shows it.
type View struct {
	PriceID    id.Price   `json:"price_id" doc:"Id of the price."`
	SKU        string     `json:"sku" doc:"The SKU that it is of." example:"h200-sxm-baremetal-8g"`
	Meter      string     `json:"meter" enum:"held,reserved" doc:"What it is the price of: a node that somebody rents (held), or one that is reserved and not used (reserved)."`
	Currency   string     `json:"currency" doc:"Code of the currency, of ISO 4217." example:"USD"`
	PriceMinor int64      `json:"price_minor" doc:"Price of one GPU, or of a machine without GPUs, for one hour, in minor units." example:"350"`
	ValidFrom  time.Time  `json:"valid_from" doc:"When it begins."`
	ValidUntil *time.Time `json:"valid_until,omitempty" doc:"When the next price ends it. Left out: none is set."`
	InForce    bool       `json:"in_force" doc:"Whoever rents now rents at this price."`
	Reason     string     `json:"reason,omitempty" doc:"Why it was set."`
	SetAt      time.Time  `json:"set_at"`
	SetBy      string     `json:"set_by,omitempty" doc:"Id of who set it. Left out: it came with the SKU."`
}

func show(p Price) View {
	v := View{
		PriceID: p.ID, SKU: p.SKU, Meter: p.Meter, Currency: p.Currency, PriceMinor: p.Minor,
		ValidFrom: p.From.UTC(), InForce: p.InForce,
		Reason: p.Reason, SetAt: p.SetAt.UTC(), SetBy: p.SetBy,
	}
	if p.Until != nil {
		until := p.Until.UTC()
		v.ValidUntil = &until
	}
	return v
}

// NewBody describes a price to set.
type NewBody struct {
	SKU        string     `json:"sku" minLength:"1" maxLength:"63" doc:"The SKU that it is of." example:"h200-sxm-baremetal-8g"`
	Meter      string     `json:"meter,omitempty" enum:"held,reserved" doc:"What it is the price of: a node that somebody rents (held), or one that is reserved and not used (reserved). Left out: held."`
	Currency   string     `json:"currency" pattern:"^[A-Z]{3}$" doc:"Code of the currency, of ISO 4217." example:"USD"`
	PriceMinor int64      `json:"price_minor" minimum:"0" maximum:"1000000000000" doc:"Price of one GPU, or of a machine without GPUs, for one hour, in minor units." example:"350"`
	ValidFrom  *time.Time `json:"valid_from,omitempty" doc:"When it begins. Left out: now. It cannot be in the past."`
	Reason     string     `json:"reason,omitempty" maxLength:"500" doc:"Why it is set."`
	Free       bool       `json:"free,omitempty" doc:"Needed for a price of zero, which is otherwise taken for a mistake."`
	AtOnce     bool       `json:"at_once,omitempty" doc:"It begins before those were told in time whose price follows the list. Needs a reason."`
}

// Register adds the operations of the package to an API. Everybody who may rent
// reads the prices, as they read the catalog.
func (s *Service) Register(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-prices", Method: http.MethodGet, Path: pathPrices, Tag: tag,
		Summary:     "List the prices of SKUs",
		Description: "Those that were, those in force and those to come, by SKU, currency and meter, the newest first.",
		Access:      httpapi.Anywhere(auth.SKURead),
	}, func(ctx context.Context, in *struct {
		httpapi.Page
		SKU      string `query:"sku" maxLength:"63" doc:"Only prices of this SKU."`
		Currency string `query:"currency" pattern:"^[A-Z]{3}$" doc:"Only prices in this currency."`
	},
	) (*httpapi.Listed[View], error) {
		page, err := httpapi.SliceOf[position](in.Page)
		if err != nil {
			return nil, err
		}
		rows, err := s.List(ctx, in.SKU, in.Currency, page)
		return httpapi.ListOf(in.Page, rows, err, show, func(v View) any {
			return position{v.SKU, v.Currency, v.Meter, v.ValidFrom}
		})
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "create-price", Method: http.MethodPost, Path: pathPrices, Tag: tag,
		Summary: "Set a price of a SKU",
		Description: "It ends the price before it when it begins. What is rented already keeps the price that it was rented " +
			"at, unless its terms follow the list: then it must be set some time before it begins (billing.price_notice), " +
			"unless at_once says otherwise. A price that has begun is never changed.",
		Access: httpapi.Platform(auth.PriceManage), Status: http.StatusCreated,
	}, func(ctx context.Context, in *struct{ Body NewBody }) (*httpapi.Plain[View], error) {
		if in.Body.Free != (in.Body.PriceMinor == 0) {
			return nil, notMeant(in.Body.Free)
		}
		set, err := s.Set(ctx, Offer{
			SKU: in.Body.SKU, Meter: in.Body.Meter, Currency: in.Body.Currency, Minor: in.Body.PriceMinor,
			From: in.Body.ValidFrom, Reason: in.Body.Reason, AtOnce: in.Body.AtOnce,
		})
		set.InForce = in.Body.ValidFrom == nil
		return &httpapi.Plain[View]{Body: show(set)}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "withdraw-price", Method: http.MethodDelete, Path: pathPrices + "/{price_id}", Tag: tag,
		Summary: "Withdraw a price that has not begun", Access: httpapi.Platform(auth.PriceManage),
	}, func(ctx context.Context, in *struct {
		ID id.Price `path:"price_id" doc:"Id of the price."`
	},
	) (*httpapi.Nothing, error) {
		return nil, s.Withdraw(ctx, in.ID)
	})
}
