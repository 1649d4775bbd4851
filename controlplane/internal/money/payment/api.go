package payment

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

const tag = "Billing"

// Schema implements huma.SchemaProvider.
func (Provider) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(providers) }

// Schema implements huma.SchemaProvider.
func (Outcome) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(outcomes) }

// TakenView is what became of an event, as the API shows it.
type TakenView struct {
	Outcome Outcome `json:"outcome" doc:"booked; already_booked: it was told before; ignored: it is about nothing that is booked."`
}

// SecretBody is the secret that a provider signs with.
type SecretBody struct {
	Secret string `json:"secret" minLength:"16" maxLength:"200" doc:"It is kept in the secrets engine, and never shown."`
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
			"An event is booked once.",
		Access: httpapi.Public(),
	}, func(ctx context.Context, in *struct {
		Path
		Signature string `header:"Stripe-Signature" maxLength:"2000" doc:"Time and signatures: t=…,v1=…"`
		RawBody   []byte `contentType:"application/json"`
	},
	) (*httpapi.Plain[TakenView], error) {
		outcome, err := s.Take(ctx, in.Provider, in.Signature, in.RawBody)
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
}
