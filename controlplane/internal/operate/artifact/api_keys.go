package artifact

import (
	"context"
	"net/http"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

// KeyView is a key as the API shows it.
type KeyView struct {
	KeyID        id.ArtifactKey `json:"key_id" doc:"Id of the key."`
	Scope        string         `json:"scope" enum:"global,tenant" doc:"Whose it is."`
	Name         string         `json:"name"`
	PEM          string         `json:"pem" doc:"The public key."`
	Fingerprint  string         `json:"fingerprint" doc:"SHA-256 of the public key as PKIX DER."`
	Algorithm    string         `json:"algorithm" example:"ecdsa-p256"`
	Repositories []string       `json:"repositories" nullable:"false" doc:"Beginnings of repositories that it may sign for."`
	NotBefore    time.Time      `json:"not_before"`
	NotAfter     time.Time      `json:"not_after"`
	CreatedAt    time.Time      `json:"created_at"`
	CreatedBy    string         `json:"created_by"`
	WithdrawnAt  *time.Time     `json:"withdrawn_at,omitempty" doc:"Absent: it is trusted within its time."`
	WithdrawnBy  string         `json:"withdrawn_by,omitempty"`
	Because      string         `json:"withdrawn_because,omitempty"`
}

func showKey(k Key) KeyView {
	v := KeyView{
		KeyID: k.ID, Scope: Owner{Org: k.Org}.Scope(), Name: k.Name, PEM: k.PEM, Fingerprint: k.Fingerprint,
		Algorithm: k.Algorithm, Repositories: k.Repositories, NotBefore: k.NotBefore.UTC(), NotAfter: k.NotAfter.UTC(),
		CreatedAt: k.CreatedAt.UTC(), CreatedBy: k.CreatedBy, WithdrawnBy: k.WithdrawnBy, Because: k.Because,
	}
	if k.WithdrawnAt != nil {
		v.WithdrawnAt = new(k.WithdrawnAt.UTC())
	}
	return v
}

func answerKey(k Key, err error) (*httpapi.Plain[KeyView], error) {
	if err != nil {
		return nil, err
	}
	return &httpapi.Plain[KeyView]{Body: showKey(k)}, nil
}

// KeyBody is a key to trust.
type KeyBody struct {
	Name         string    `json:"name" minLength:"1" maxLength:"100" example:"release"`
	PEM          string    `json:"pem" minLength:"1" maxLength:"4000" doc:"The public key in PEM." example:"-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEA7OLlP/63eMpASV6D2Ih/53tSs4U\nxVgwnZfNvwHvbiX21YWZnTFe1oA26x9ROoXFsplQDRJDG2MYAa7vUWjLPw==\n-----END PUBLIC KEY-----\n"`
	Repositories []string  `json:"repositories" maxItems:"64" nullable:"false" doc:"Beginnings of repositories that it may sign for." example:"[\"registry.example/team\"]"`
	NotBefore    time.Time `json:"not_before,omitempty" doc:"Since when it counts; absent: now." example:"2026-06-30T00:00:00Z"`
	NotAfter     time.Time `json:"not_after" doc:"Until when it counts; ten years at most." example:"2027-06-30T00:00:00Z"`
}

// WithdrawBody says why a key is withdrawn.
type WithdrawBody struct {
	Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"Why; the audit log keeps it."`
}

// KeyPath names a key in the path.
type KeyPath struct {
	KeyID id.ArtifactKey `path:"key_id" doc:"Id of the key."`
}

func (s *Service) listKeys(ctx context.Context, org id.Org, p httpapi.Page) (*httpapi.Listed[KeyView], error) {
	page, err := httpapi.SliceOf[id.ArtifactKey](p)
	if err != nil {
		return nil, err
	}
	rows, err := s.ListKeys(ctx, org, page)
	return httpapi.ListOf(p, rows, err, showKey, func(v KeyView) any { return v.KeyID })
}

func (s *Service) registerKeys(api *httpapi.API) {
	s.registerGlobalKeys(api)
	s.registerTenantKeys(api)
}

func (s *Service) registerGlobalKeys(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "trust-global-artifact-key", Method: http.MethodPost, Path: keysGlobal, Tag: tag, Status: http.StatusCreated,
		Summary: "Trust a key for the platform and all tenants", Description: aboutTrust,
		Access: httpapi.Platform(auth.ArtifactTrustManage),
	}, func(ctx context.Context, in *struct {
		Body KeyBody
	},
	) (*httpapi.Plain[KeyView], error) {
		return answerKey(s.Trust(ctx, id.Org{}, KeyWish(in.Body)))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-global-artifact-keys", Method: http.MethodGet, Path: keysGlobal, Tag: tag,
		Summary: "List the keys that are trusted for the platform and all tenants", Access: httpapi.Platform(auth.ArtifactRead),
	}, func(ctx context.Context, in *struct {
		httpapi.Page
	},
	) (*httpapi.Listed[KeyView], error) {
		return s.listKeys(ctx, id.Org{}, in.Page)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "withdraw-global-artifact-key", Method: http.MethodPost, Path: keysGlobal + "/{key_id}/withdraw", Tag: tag,
		Summary: "Withdraw a key that is trusted for the platform and all tenants", Description: aboutWithdraw,
		Access: httpapi.Platform(auth.ArtifactTrustManage),
	}, func(ctx context.Context, in *struct {
		KeyPath
		Body WithdrawBody
	},
	) (*httpapi.Plain[KeyView], error) {
		return answerKey(s.Withdraw(ctx, id.Org{}, in.KeyID, in.Body.Reason))
	})
}

func (s *Service) registerTenantKeys(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "trust-tenant-artifact-key", Method: http.MethodPost, Path: keysTenant, Tag: tag, Status: http.StatusCreated,
		Summary: "Trust a key for the artifacts of a tenant", Description: aboutTrust,
		Access: httpapi.Tenant(auth.ArtifactTrustManage),
	}, func(ctx context.Context, in *struct {
		TenantPath
		Body KeyBody
	},
	) (*httpapi.Plain[KeyView], error) {
		by, err := s.tenant(ctx, in.OrgID)
		if err != nil {
			return nil, err
		}
		return answerKey(s.Trust(ctx, by.Org, KeyWish(in.Body)))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-tenant-artifact-keys", Method: http.MethodGet, Path: keysTenant, Tag: tag,
		Summary: "List the keys that are trusted for the artifacts of a tenant", Access: httpapi.Tenant(auth.ArtifactRead),
	}, func(ctx context.Context, in *struct {
		TenantPath
		httpapi.Page
	},
	) (*httpapi.Listed[KeyView], error) {
		by, err := s.tenant(ctx, in.OrgID)
		if err != nil {
			return nil, err
		}
		return s.listKeys(ctx, by.Org, in.Page)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "withdraw-tenant-artifact-key", Method: http.MethodPost, Path: keysTenant + "/{key_id}/withdraw", Tag: tag,
		Summary: "Withdraw a key that is trusted for the artifacts of a tenant", Description: aboutWithdraw,
		Access: httpapi.Tenant(auth.ArtifactTrustManage),
	}, func(ctx context.Context, in *struct {
		TenantPath
		KeyPath
		Body WithdrawBody
	},
	) (*httpapi.Plain[KeyView], error) {
		by, err := s.tenant(ctx, in.OrgID)
		if err != nil {
			return nil, err
		}
		return answerKey(s.Withdraw(ctx, by.Org, in.KeyID, in.Body.Reason))
	})
}
