package ledger

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
	tag        = "Billing"
	pathTenant = "/api/v1/tenants/{org_id}"
)

// Schema implements huma.SchemaProvider.
func (Kind) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(kinds) }

// Schema implements huma.SchemaProvider.
func (Purse) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(purses) }

// PostingView is a posting as the API shows it.
type PostingView struct {
	Account     Purse `json:"account" doc:"tenant: what the tenant has left; revenue: what was earned; credits: what was given; payments: what came through payment providers."`
	AmountMinor int64 `json:"amount_minor" doc:"In minor units; negative: out of the account."`
}

// View is an entry of the ledger as the API shows it.
type View struct {
	EntryID         id.LedgerEntry  `json:"entry_id" doc:"Id of the entry."`
	OrgID           id.Org          `json:"org_id" doc:"Id of the tenant."`
	Kind            Kind            `json:"kind" doc:"credit: money that was given; usage: a charge; relief: a charge that is given back because the node could not be used; correction: the opposite of another entry; payment: money that came through a payment provider; refund: what of it went back."`
	AmountMinor     int64           `json:"amount_minor" doc:"What it changed in the balance of the tenant, in minor units."`
	Currency        string          `json:"currency" example:"USD"`
	Reference       string          `json:"reference,omitempty" doc:"What names it elsewhere."`
	Reason          string          `json:"reason"`
	AllocationID    *id.Allocation  `json:"allocation_id,omitempty" doc:"The allocation that is charged."`
	ReservationID   *id.Reservation `json:"reservation_id,omitempty" doc:"The reservation that is charged, for nodes of it that are not used."`
	WindowStart     *time.Time      `json:"window_start,omitempty" doc:"Beginning of the time that is charged."`
	WindowEnd       *time.Time      `json:"window_end,omitempty" doc:"Its end, which does not belong to it."`
	CorrectsEntryID *id.LedgerEntry `json:"corrects_entry_id,omitempty" doc:"The entry that it corrects."`
	CorrectedBy     *id.LedgerEntry `json:"corrected_by,omitempty" doc:"The entry that corrects it."`
	Postings        []PostingView   `json:"postings" nullable:"false" doc:"They sum to zero."`
	MadeBy          string          `json:"made_by" doc:"Id of who made it."`
	BookedAt        time.Time       `json:"booked_at"`
}

func show(e Entry) View {
	v := View{
		EntryID: e.ID, OrgID: e.Org, Kind: e.Kind, Currency: e.Currency, Reference: e.Reference, Reason: e.Reason,
		MadeBy: e.MadeBy, BookedAt: e.BookedAt.UTC(), Postings: make([]PostingView, len(e.Postings)),
	}
	for i, p := range e.Postings {
		v.Postings[i] = PostingView{Account: p.Purse, AmountMinor: p.Minor}
		if p.Purse == Tenant {
			v.AmountMinor = p.Minor
		}
	}
	if w := e.Window; w != nil {
		start, end := w.Start.UTC(), w.End.UTC()
		v.WindowStart, v.WindowEnd = &start, &end
		if w.Reservation.IsZero() {
			v.AllocationID = &w.Allocation
		} else {
			v.ReservationID = &w.Reservation
		}
	}
	if !e.Corrects.IsZero() {
		v.CorrectsEntryID = &e.Corrects
	}
	if !e.Corrected.IsZero() {
		v.CorrectedBy = &e.Corrected
	}
	return v
}

// CreditBody is a credit to give.
type CreditBody struct {
	AmountMinor int64  `json:"amount_minor" minimum:"1" maximum:"1000000000000000" doc:"In minor units." example:"100000"`
	Currency    string `json:"currency" pattern:"^[A-Z]{3}$" doc:"Must be the currency of the tenant." example:"USD"`
	Reference   string `json:"reference" minLength:"1" maxLength:"200" doc:"What names it elsewhere, such as the number of an invoice. Used once per tenant."`
	Reason      string `json:"reason" minLength:"1" maxLength:"500" doc:"Why it is given."`
}

// CorrectionBody says why an entry is corrected.
type CorrectionBody struct {
	Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"Why the entry is wrong."`
}

// TenantPath names a tenant in the path.
type TenantPath struct {
	OrgID id.Org `path:"org_id" doc:"Id of the tenant."`
}

// Register adds the operations of the package to an API.
func (s *Service) Register(api *httpapi.API) {
	s.registerReads(api)
	httpapi.Register(api, httpapi.Operation{
		ID: "create-credit", Method: http.MethodPost, Path: pathTenant + "/credits", Tag: tag,
		Summary: "Give a tenant money", Description: "A reference is used once: a second credit with it is refused.",
		Access: httpapi.Tenant(auth.BillingManage), Status: http.StatusCreated,
	}, func(ctx context.Context, in *struct {
		TenantPath
		Body CreditBody
	},
	) (*httpapi.Plain[View], error) {
		e, err := s.Credit(ctx, in.OrgID, Grant{
			Minor: in.Body.AmountMinor, Currency: in.Body.Currency, Reference: in.Body.Reference, Reason: in.Body.Reason,
		})
		return &httpapi.Plain[View]{Body: show(e)}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "correct-ledger-entry", Method: http.MethodPost, Path: pathTenant + "/ledger/{entry_id}/corrections", Tag: tag,
		Summary:     "Reverse an entry of the ledger",
		Description: "By another entry, which names it. An entry is corrected once at most.",
		Access:      httpapi.Tenant(auth.BillingManage), Status: http.StatusCreated,
	}, func(ctx context.Context, in *struct {
		TenantPath
		ID   id.LedgerEntry `path:"entry_id" doc:"Id of the entry that is wrong."`
		Body CorrectionBody
	},
	) (*httpapi.Plain[View], error) {
		e, err := s.Correct(ctx, in.OrgID, in.ID, in.Body.Reason)
		return &httpapi.Plain[View]{Body: show(e)}, err
	})
}

func (s *Service) registerReads(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-ledger", Method: http.MethodGet, Path: pathTenant + "/ledger", Tag: tag,
		Summary: "List the entries of a tenant's ledger", Description: "The newest first. They are never changed.",
		Access: httpapi.Tenant(auth.BillingRead),
	}, func(ctx context.Context, in *struct {
		TenantPath
		httpapi.Page
		Kind Kind `query:"kind" doc:"Only entries of this kind."`
	},
	) (*httpapi.Listed[View], error) {
		page, err := httpapi.SliceOf[id.LedgerEntry](in.Page)
		if err != nil {
			return nil, err
		}
		rows, err := s.List(ctx, in.OrgID, in.Kind, page)
		return httpapi.ListOf(in.Page, rows, err, show, func(v View) any { return v.EntryID })
	})
}
