package payment

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

const tag = "Billing"

// Schema implements huma.SchemaProvider.
func (Provider) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(providers) }

// Schema implements huma.SchemaProvider.
func (Kind) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(kinds) }

// Schema implements huma.SchemaProvider.
func (Outcome) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(outcomes) }

// TakenView is what became of an event, as the API shows it.
type TakenView struct {
	Outcome Outcome `json:"outcome" doc:"booked; already_booked: it was told before; ignored: it is about nothing that is booked."`
}

// BookingView is a payment or a refund, as the API shows it.
type BookingView struct {
	EntryID     id.LedgerEntry `json:"entry_id" doc:"Id of the entry of the ledger."`
	OrgID       id.Org         `json:"org_id" doc:"Id of the tenant."`
	Provider    Provider       `json:"provider"`
	Kind        Kind           `json:"kind" doc:"payment: money that came; refund: what of a payment went back."`
	ObjectID    string         `json:"object_id" doc:"What the provider calls it."`
	PaymentID   string         `json:"payment_id" doc:"The payment at the provider; of a refund, the one that went back."`
	AmountMinor int64          `json:"amount_minor" doc:"In minor units."`
	Currency    string         `json:"currency" example:"USD"`
	ReceivedAt  time.Time      `json:"received_at"`
}

func show(b Booking) BookingView {
	return BookingView{
		EntryID: b.Entry, OrgID: b.Org, Provider: b.Provider, Kind: b.Kind, ObjectID: b.Object, PaymentID: b.Payment,
		AmountMinor: b.Minor, Currency: b.Currency, ReceivedAt: b.At.UTC(),
	}
}

// TenantPath names a tenant in the path.
type TenantPath struct {
	OrgID id.Org `path:"org_id" doc:"Id of the tenant."`
}

// SecretBody is the secret that a provider signs with.
type SecretBody struct {
	Secret string `json:"secret" minLength:"16" maxLength:"200" doc:"It is kept in the secrets engine, and never shown."`
}

// AsItCame is a body that the framework neither parses nor validates: its signature comes
// first. It is exported because the framework finds resolvers only in exported types.
type AsItCame struct{ bytes []byte }

// Resolve implements huma.Resolver.
func (b *AsItCame) Resolve(ctx huma.Context) []error {
	body, err := io.ReadAll(ctx.BodyReader()) // the frame has bounded it
	if err != nil {
		return []error{err}
	}
	b.bytes = body
	return nil
}

// Path names a provider in the path.
type Path struct {
	Provider Provider `path:"provider" doc:"The payment provider."`
}

// Register adds the operations of the package to an API.
func (s *Service) Register(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "take-payment-event", Method: http.MethodPost, Path: "/api/v1/payments/{provider}/events", Tag: tag,
		Summary: "Take in what a payment provider tells",
		Description: "For the provider alone: the signature is checked on the body as it came, before it is read. " +
			"An event is booked once. The body is the event, as JSON.",
		Access: httpapi.Public(),
	}, func(ctx context.Context, in *struct {
		Path
		Signature string `header:"Stripe-Signature" maxLength:"2000" doc:"Time and signatures: t=…,v1=…"`
		AsItCame
	},
	) (*httpapi.Plain[TakenView], error) {
		outcome, err := s.Take(ctx, in.Provider, in.Signature, in.bytes)
		return &httpapi.Plain[TakenView]{Body: TakenView{Outcome: outcome}}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "put-payment-secret", Method: http.MethodPut, Path: "/api/v1/admin/payments/{provider}/secret", Tag: tag,
		Summary:     "Set the secret that a payment provider signs with",
		Description: "The one before is accepted, too, until it is set again.",
		Access:      httpapi.Platform(auth.BillingManage), SecretRequest: true,
	}, func(ctx context.Context, in *struct {
		Path
		Body SecretBody
	},
	) (*httpapi.Nothing, error) {
		return nil, s.SetSecret(ctx, in.Provider, redact.New(in.Body.Secret))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-payments", Method: http.MethodGet, Path: "/api/v1/tenants/{org_id}/payments", Tag: tag,
		Summary: "List what came to a tenant through payment providers, and went back", Description: "The newest first.",
		Access: httpapi.Tenant(auth.BillingRead),
	}, func(ctx context.Context, in *struct {
		TenantPath
		httpapi.Page
	},
	) (*httpapi.Listed[BookingView], error) {
		page, err := httpapi.SliceOf[id.LedgerEntry](in.Page)
		if err != nil {
			return nil, err
		}
		rows, err := s.List(ctx, in.OrgID, page)
		return httpapi.ListOf(in.Page, rows, err, show, func(v BookingView) any { return v.EntryID })
	})
}
