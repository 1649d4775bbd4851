package balance

import (
	"context"
	"math"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

const (
	tag         = "Billing"
	pathBalance = "/api/v1/tenants/{org_id}/balance"
)

// Schema implements huma.SchemaProvider.
func (Payment) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(payments) }

// Schema implements huma.SchemaProvider.
func (Status) Schema(huma.Registry) *huma.Schema {
	return httpapi.EnumOf([]Status{Healthy, Low, Pending, Depleted})
}

// View is how a tenant stands, as the API shows it.
type View struct {
	OrgID            id.Org     `json:"org_id" doc:"Id of the tenant."`
	Currency         string     `json:"currency" example:"USD"`
	BalanceMinor     int64      `json:"balance_minor" doc:"The sum of all that was booked, in minor units; negative: what is owed."`
	AccruedMinor     int64      `json:"accrued_minor" doc:"What was used and is not booked yet."`
	HeldMinor        int64      `json:"held_minor" doc:"What is set aside for the first window of allocations."`
	AvailableMinor   *int64     `json:"available_minor,omitempty" doc:"What may still be used: the balance less what was used and set aside, plus the credit line. Left out: it is not limited."`
	BurnMinorPerHour int64      `json:"burn_minor_per_hour" doc:"What an hour costs with all that is rented now, rounded up."`
	RunwayHours      *float64   `json:"runway_hours,omitempty" doc:"For how many hours what is available lasts, as things are. Left out: it does not end."`
	DepletesAt       *time.Time `json:"depletes_at,omitempty" doc:"When nothing is left, as things are."`
	Status           Status     `json:"status" doc:"healthy; low: it was warned; auto_release_pending: it was told that its allocations will be released; depleted: nothing new is let to it, and its allocations are released."`
	Since            time.Time  `json:"since" doc:"Since when it is in this state."`
	ReleasesAt       *time.Time `json:"releases_at,omitempty" doc:"When its allocations are released, or were; only while it is depleted."`
	Payment          Payment    `json:"payment"`
	CreditLineMinor  *int64     `json:"credit_line_minor,omitempty" doc:"How far below zero it may go. Left out: without limit."`
	LowMinor         int64      `json:"low_minor" doc:"It is warned when no more than this is available."`
	LowSeconds       int64      `json:"low_seconds" doc:"It is warned when what is available lasts no longer than this."`
	ReleaseSeconds   int64      `json:"release_seconds" doc:"It is told of releases when what is available lasts no longer than this."`
	GraceSeconds     int64      `json:"grace_seconds" doc:"How long after the end its allocations are released."`
	RearmPercent     int32      `json:"rearm_percent" doc:"A warning is told again only after this share of its threshold was reached."`
	Version          int64      `json:"version" doc:"Grows with every change of the limits; 0: nobody has set any."`
}

func show(s Standing) View {
	v := View{
		OrgID: s.Org, Currency: s.Currency, BalanceMinor: s.Posted, AccruedMinor: s.Accrued, HeldMinor: s.Held,
		BurnMinorPerHour: s.Burn, DepletesAt: s.DepletesAt(), Status: s.Status, Since: s.Since.UTC(), Payment: s.Payment,
		CreditLineMinor: s.CreditLine, LowMinor: s.LowMinor, LowSeconds: int64(s.LowFor.Seconds()),
		ReleaseSeconds: int64(s.ReleaseFor.Seconds()), GraceSeconds: int64(s.Grace.Seconds()), RearmPercent: s.RearmPercent,
		Version: s.Version,
	}
	// As the next look will find it: who has just paid reads that.
	if next := s.Next(); next != s.Status {
		v.Status, v.Since = next, s.At.UTC()
	}
	if left, limited := s.Available(); limited {
		v.AvailableMinor = &left
	}
	if lasts, ends := s.Runway(); ends {
		hours := math.Floor(lasts.Hours()*10_000) / 10_000
		v.RunwayHours = &hours
	}
	if v.Status == Depleted {
		at := v.Since.Add(s.Grace)
		v.ReleasesAt = &at
	}
	return v
}

// Body is how far a tenant may go.
type Body struct {
	Payment         Payment `json:"payment" doc:"prepaid: it may use what it has; postpaid: it pays afterwards."`
	CreditLineMinor *int64  `json:"credit_line_minor,omitempty" minimum:"0" maximum:"1000000000000000" doc:"How far below zero it may go. Left out: not at all if prepaid, without limit if postpaid."`
	LowMinor        int64   `json:"low_minor,omitempty" minimum:"0" maximum:"1000000000000000" doc:"Warn when no more than this is available."`
	LowSeconds      *int64  `json:"low_seconds,omitempty" minimum:"0" maximum:"31622400" doc:"Warn when what is available lasts no longer than this. Left out: three days."`
	ReleaseSeconds  *int64  `json:"release_seconds,omitempty" minimum:"0" maximum:"31622400" doc:"Tell of releases when what is available lasts no longer than this. Left out: a day, or low_seconds if that is less."`
	GraceSeconds    int64   `json:"grace_seconds,omitempty" minimum:"0" maximum:"2592000" doc:"How long after the end allocations are released. Left out: at once."`
	RearmPercent    *int32  `json:"rearm_percent,omitempty" minimum:"100" maximum:"1000" doc:"A warning is told again only after this share of its threshold was reached. Left out: 125."`
}

func (b Body) settings() Settings {
	s := unlimited()
	s.Payment, s.CreditLine, s.LowMinor, s.Grace = b.Payment, b.CreditLineMinor, b.LowMinor, seconds(b.GraceSeconds)
	if b.LowSeconds != nil {
		s.LowFor = seconds(*b.LowSeconds)
	}
	if s.ReleaseFor = min(s.ReleaseFor, s.LowFor); b.ReleaseSeconds != nil {
		s.ReleaseFor = seconds(*b.ReleaseSeconds)
	}
	if b.RearmPercent != nil {
		s.RearmPercent = *b.RearmPercent
	}
	return s
}

// TenantPath names a tenant in the path.
type TenantPath struct {
	OrgID id.Org `path:"org_id" doc:"Id of the tenant."`
}

// Register adds the operations of the package to an API.
func (s *Service) Register(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "get-balance", Method: http.MethodGet, Path: pathBalance, Tag: tag,
		Summary:     "Read what a tenant has left, and how long it lasts",
		Description: "Computed at this moment from what was booked and what is rented.",
		Access:      httpapi.Tenant(auth.BillingRead),
	}, func(ctx context.Context, in *TenantPath) (*httpapi.Plain[View], error) {
		now, err := s.Of(ctx, in.OrgID)
		return &httpapi.Plain[View]{Body: show(now)}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "put-balance-limits", Method: http.MethodPut, Path: pathBalance + "/limits", Tag: tag,
		Summary: "Say how far a tenant may go, and when it is warned",
		Description: "A tenant for which nobody has said so pays afterwards, without limit. At the end of what it has, nothing new " +
			"is let to it, and after the grace period its allocations are released: the newest first, protected ones last.",
		Access: httpapi.Tenant(auth.BillingManage),
	}, func(ctx context.Context, in *struct {
		TenantPath
		Body Body
	},
	) (*httpapi.Plain[View], error) {
		now, err := s.Set(ctx, in.OrgID, in.Body.settings())
		return &httpapi.Plain[View]{Body: show(now)}, err
	})
}
