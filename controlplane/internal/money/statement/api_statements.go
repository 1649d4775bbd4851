package statement

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

// View is a statement in a list, as the API shows it.
type View struct {
	StatementID      id.Statement `json:"statement_id" doc:"Id of the statement."`
	OrgID            id.Org       `json:"org_id" doc:"Id of the tenant."`
	Number           int32        `json:"number" doc:"Number of the statement; the tenant's are numbered without gaps."`
	Label            string       `json:"label" doc:"Number with the tenant." example:"ACME-0007"`
	Currency         string       `json:"currency" example:"USD"`
	PeriodStart      time.Time    `json:"period_start" doc:"Beginning of the month, in UTC."`
	PeriodEnd        time.Time    `json:"period_end" doc:"Its end, which does not belong to it."`
	OpeningMinor     int64        `json:"opening_minor" doc:"What the tenant had left before, in minor units."`
	UsageMinor       int64        `json:"usage_minor" doc:"What was charged for usage."`
	ReliefMinor      int64        `json:"relief_minor" doc:"What was given back because nodes could not be used."`
	CorrectionsMinor int64        `json:"corrections_minor" doc:"What corrections changed in the balance."`
	MoneyInMinor     int64        `json:"money_in_minor" doc:"What came in."`
	ClosingMinor     int64        `json:"closing_minor" doc:"What the tenant has left then."`
	Entries          int64        `json:"entries" doc:"How many entries of the ledger it has."`
	LateEntries      int64        `json:"late_entries" doc:"How many of them belong to a time before."`
	Digest           string       `json:"digest" doc:"SHA-256 of the frozen document, in hexadecimal."`
	IssuedAt         time.Time    `json:"issued_at"`
	IssuedBy         string       `json:"issued_by" doc:"Id of who issued it."`
}

func show(s Statement) View {
	return View{
		StatementID: s.ID, OrgID: s.Org, Number: s.Number, Label: s.Label, Currency: s.Currency, PeriodStart: s.Start,
		PeriodEnd: s.End, OpeningMinor: s.Opening, UsageMinor: s.Usage, ReliefMinor: s.Relief,
		CorrectionsMinor: s.Corrections, MoneyInMinor: s.MoneyIn, ClosingMinor: s.Closing, Entries: s.Entries,
		LateEntries: s.Late, Digest: s.Digest, IssuedAt: s.IssuedAt, IssuedBy: s.IssuedBy,
	}
}

// CloseBody says which month to close.
type CloseBody struct {
	Month string `json:"month" pattern:"^[0-9]{4}-(0[1-9]|1[0-2])$" doc:"The first month that is open; it must be over." example:"2026-03"`
}

// CheckView is how the ledger compares with rated usage, as the API shows it.
type CheckView struct {
	CheckedAt     *time.Time     `json:"checked_at,omitempty" doc:"When it was compared. Left out: never yet."`
	Agrees        bool           `json:"agrees" doc:"Whether ledger and rated usage are the same to the minor unit."`
	Allocations   int64          `json:"allocations" doc:"How many allocations were compared."`
	Tenants       int64          `json:"tenants" doc:"How many balances were compared."`
	Disagreements int64          `json:"disagreements" doc:"How many are not as they should be."`
	Found         []Disagreement `json:"found" nullable:"false" doc:"The first hundred of them."`
	NeverCharged  int64          `json:"never_charged" doc:"How many allocations are used and will never be charged, because they were rented without terms or without a billing account."`
	Unmetered     []Unmetered    `json:"unmetered" nullable:"false" doc:"The first hundred of those, the oldest first."`
}

func showCheck(c Comparison) CheckView {
	at := c.At.UTC()
	return CheckView{
		CheckedAt: &at, Agrees: c.Disagreements == 0, Allocations: c.Allocations, Tenants: c.Tenants,
		Disagreements: c.Disagreements, Found: c.Found, NeverCharged: c.NeverCharged, Unmetered: c.Unmetered,
	}
}

// position is where a list of statements goes on.
type position struct {
	Number int32 `json:"number"`
}

// file is an answer that is no JSON.
type file struct {
	ContentType string `header:"Content-Type"`
	Disposition string `header:"Content-Disposition"`
	Policy      string `header:"Content-Security-Policy"`
	Body        []byte
}

const (
	pathStatements = pathTenant + "/statements"
	pathOpen       = pathTenant + "/open-statement"
)

func (s *Service) registerStatements(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-statements", Method: http.MethodGet, Path: pathStatements, Tag: tag,
		Summary: "List the statements of a tenant", Description: "The newest first. They are never changed.",
		Access: httpapi.Tenant(auth.BillingRead),
	}, func(ctx context.Context, in *struct {
		TenantPath
		httpapi.Page
	},
	) (*httpapi.Listed[View], error) {
		var before position
		if _, err := in.After(&before); err != nil {
			return nil, err
		}
		rows, err := s.List(ctx, in.OrgID, before.Number, in.Limit())
		return httpapi.ListOf(in.Page, rows, err, show, func(v View) any { return position{v.Number} })
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "close-period", Method: http.MethodPost, Path: pathStatements, Tag: tag,
		Summary: "Close a month of a tenant and issue its statement",
		Description: "The month must be over, the first that is open, and charged to its end. It happens by itself some hours " +
			"after its end. What is booked later goes to a later statement.",
		Access: httpapi.Tenant(auth.BillingManage), Status: http.StatusCreated,
	}, func(ctx context.Context, in *struct {
		TenantPath
		Body CloseBody
	},
	) (*httpapi.Plain[Document], error) {
		month, err := monthOf(in.Body.Month)
		if err != nil {
			return nil, err
		}
		d, err := s.Close(ctx, in.OrgID, month)
		return &httpapi.Plain[Document]{Body: d}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-statement", Method: http.MethodGet, Path: pathStatements + "/{statement_id}", Tag: tag,
		Summary: "Read a statement", Description: "As it was when it was issued.", Access: httpapi.Tenant(auth.BillingRead),
	}, func(ctx context.Context, in *struct {
		TenantPath
		ID id.Statement `path:"statement_id" doc:"Id of the statement."`
	},
	) (*httpapi.Plain[Document], error) {
		d, err := s.Get(ctx, in.OrgID, in.ID)
		return &httpapi.Plain[Document]{Body: d}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-open-statement", Method: http.MethodGet, Path: pathOpen, Tag: tag,
		Summary: "Read what the open month of a tenant has until now",
		Description: "As its statement would be if nothing more was booked; of the first month that is not closed. What is used " +
			"and not booked yet is not in it.",
		Access: httpapi.Tenant(auth.BillingRead),
	}, func(ctx context.Context, in *TenantPath) (*httpapi.Plain[Document], error) {
		d, err := s.Open(ctx, in.OrgID)
		return &httpapi.Plain[Document]{Body: d}, err
	})
	for _, f := range forms {
		registerFile(api, f, "get-statement-"+f.name, pathStatements+"/{statement_id}/"+f.name, "Read a statement "+f.what,
			func(ctx context.Context, in *struct {
				TenantPath
				ID id.Statement `path:"statement_id" doc:"Id of the statement."`
			},
			) (Document, error) {
				return s.Get(ctx, in.OrgID, in.ID)
			})
		registerFile(api, f, "get-open-statement-"+f.name, pathOpen+"/"+f.name,
			"Read what the open month of a tenant has until now, "+f.what,
			func(ctx context.Context, in *TenantPath) (Document, error) { return s.Open(ctx, in.OrgID) })
	}
}

// form is a way to write a statement that is no JSON.
type form struct {
	name, media, what, suffix, shown string
	written                          func(Document) ([]byte, error)
}

var forms = []form{
	{"csv", "text/csv", "as comma-separated values", ".csv", "attachment", Document.CSV},
	{"html", "text/html", "as a page", ".html", "inline", Document.HTML},
	{
		"focus", "text/csv", "in the columns of FOCUS, as comma-separated values", "-focus.csv", "attachment",
		Document.Focus,
	},
}

// registerFile adds an operation that gives a statement in another form.
func registerFile[In any](
	api *httpapi.API, f form, operation, path, summary string, read func(context.Context, *In) (Document, error),
) {
	httpapi.Register(api, httpapi.Operation{
		ID: operation, Method: http.MethodGet, Path: path, Tag: tag, Summary: summary,
		Access: httpapi.Tenant(auth.BillingRead),
	}, func(ctx context.Context, in *In) (*file, error) {
		d, err := read(ctx, in)
		if err != nil {
			return nil, err
		}
		body, err := f.written(d)
		if err != nil {
			return nil, err
		}
		return &file{
			ContentType: f.media + "; charset=utf-8", Disposition: f.shown + `; filename="` + d.Label + f.suffix + `"`,
			Policy: pagePolicy, Body: body,
		}, nil
	})
	// The framework takes bytes for something encoded in JSON.
	api.OpenAPI().Paths[path].Get.Responses["200"] = &huma.Response{
		Description: "OK", Content: map[string]*huma.MediaType{f.media: {Schema: &huma.Schema{Type: huma.TypeString}}},
	}
}

func (s *Service) registerChecks(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "get-tenant-ledger-check", Method: http.MethodGet, Path: pathTenant + "/ledger-check", Tag: tag,
		Summary: "Compare the ledger of a tenant with rated usage",
		Description: "Now: of each allocation, what rating says, what its windows say and what was booked; and what is used and " +
			"will never be charged.",
		Access: httpapi.Tenant(auth.BillingRead),
	}, func(ctx context.Context, in *TenantPath) (*httpapi.Plain[CheckView], error) {
		if err := s.exists(ctx, in.OrgID); err != nil {
			return nil, err
		}
		c, err := s.Check(ctx, in.OrgID, func() {})
		return &httpapi.Plain[CheckView]{Body: showCheck(c)}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-ledger-check", Method: http.MethodGet, Path: "/api/v1/admin/ledger-check", Tag: tag,
		Summary:     "Read how the ledgers of all tenants compare with rated usage",
		Description: "As they were compared last, which happens every hour (billing.compare_every).",
		Access:      httpapi.Platform(auth.BillingRead),
	}, func(ctx context.Context, _ *struct{}) (*httpapi.Plain[CheckView], error) {
		c, some, err := s.LastCheck(ctx)
		if err != nil || !some {
			return &httpapi.Plain[CheckView]{Body: CheckView{Found: []Disagreement{}, Unmetered: []Unmetered{}}}, err
		}
		return &httpapi.Plain[CheckView]{Body: showCheck(c)}, nil
	})
}
