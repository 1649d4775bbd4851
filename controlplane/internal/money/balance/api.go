package balance

import (
	"context"
	"math"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"gpuaas/controlplane/internal/base/fault"
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
	AvailableMinor   *int64     `json:"available_minor,omitempty" doc:"What new allocations may use: the balance less what was used and set aside, plus the credit line. Left out: it is not limited."`
	BurnMinorPerHour int64      `json:"burn_minor_per_hour" doc:"What an hour costs with all that is rented now, rounded up."`
	RunwayHours      *float64   `json:"runway_hours,omitempty" doc:"For how many hours what is left lasts, what is set aside included, as things are. Left out: it does not end."`
	DepletesAt       *time.Time `json:"depletes_at,omitempty" doc:"When nothing is left, as things are."`
	Status           Status     `json:"status" doc:"healthy; low: it was warned; auto_release_pending: it was told that its allocations will be released; depleted: nothing new is let to it, and its allocations are released."`
	Since            time.Time  `json:"since" doc:"Since when it is in this state."`
	ReleasesAt       *time.Time `json:"releases_at,omitempty" doc:"When its allocations are released, or were; only while it is depleted."`
	Payment          Payment    `json:"payment"`
	CreditLineMinor  *int64     `json:"credit_line_minor,omitempty" doc:"How far below zero it may go. Left out: without limit."`
	LowMinor         int64      `json:"low_minor" doc:"It is warned when no more than this is left."`
	LowSeconds       int64      `json:"low_seconds" doc:"It is warned when what is left lasts no longer than this."`
	ReleaseSeconds   int64      `json:"release_seconds" doc:"It is told of releases when what is left lasts no longer than this."`
	GraceSeconds     int64      `json:"grace_seconds" doc:"How long after the end its allocations are released."`
	RearmPercent     int32      `json:"rearm_percent" doc:"A warning is told again only after this share of its threshold was reached."`
	Version          int64      `json:"version" doc:"Grows with every change of the limits; 0: nobody has set any."`
	MadeAt           time.Time  `json:"made_at" doc:"The moment at which all of this was so."`
}

func show(s Standing) View {
	v := View{
		OrgID: s.Org, Currency: s.Currency, BalanceMinor: s.Posted, AccruedMinor: s.Accrued, HeldMinor: s.Held,
		BurnMinorPerHour: s.Burn, DepletesAt: s.DepletesAt(), Status: s.Status, Since: s.Since.UTC(), Payment: s.Payment,
		CreditLineMinor: s.CreditLine, LowMinor: s.LowMinor, LowSeconds: int64(s.LowFor.Seconds()),
		ReleaseSeconds: int64(s.ReleaseFor.Seconds()), GraceSeconds: int64(s.Grace.Seconds()), RearmPercent: s.RearmPercent,
		Version: s.Version, MadeAt: s.At.UTC(),
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

// Body is how far a tenant may go. What it leaves out stays as it was.
type Body struct {
	Payment         *Payment `json:"payment,omitempty" doc:"prepaid: it may use what it has; postpaid: it pays afterwards. At first postpaid. Who changes it also says the credit line, or has none if prepaid, and no limit if postpaid."`
	CreditLineMinor *int64   `json:"credit_line_minor,omitempty" minimum:"0" maximum:"1000000000000000" doc:"How far below zero it may go. At first not at all if prepaid, without limit if postpaid."`
	Unlimited       bool     `json:"unlimited,omitempty" doc:"Take the credit line of a postpaid tenant away: it may go as far as it likes."`
	LowMinor        *int64   `json:"low_minor,omitempty" minimum:"0" maximum:"1000000000000000" doc:"Warn when no more than this is left. At first 0."`
	LowSeconds      *int64   `json:"low_seconds,omitempty" minimum:"0" maximum:"31622400" doc:"Warn when what is left lasts no longer than this. At first three days."`
	ReleaseSeconds  *int64   `json:"release_seconds,omitempty" minimum:"0" maximum:"31622400" doc:"Tell of releases when what is left lasts no longer than this. At first a day; never more than low_seconds."`
	GraceSeconds    *int64   `json:"grace_seconds,omitempty" minimum:"0" maximum:"2592000" doc:"How long after the end allocations are released. At first 0: at once."`
	RearmPercent    *int32   `json:"rearm_percent,omitempty" minimum:"100" maximum:"1000" doc:"A warning is told again only after this share of its threshold was reached. At first 125."`
	Release         bool     `json:"release,omitempty" doc:"Accept that allocations of the tenant are released because of the new limits. Without it such limits are refused."`
}

func (b Body) change(s *Settings) error {
	if b.Payment != nil && *b.Payment != s.Payment {
		s.Payment, s.CreditLine = *b.Payment, nil
	}
	if b.CreditLineMinor != nil || b.Unlimited {
		s.CreditLine = b.CreditLineMinor
	}
	given(&s.LowMinor, b.LowMinor)
	given(&s.RearmPercent, b.RearmPercent)
	givenSeconds(&s.LowFor, b.LowSeconds)
	s.ReleaseFor = min(s.ReleaseFor, s.LowFor)
	givenSeconds(&s.ReleaseFor, b.ReleaseSeconds)
	givenSeconds(&s.Grace, b.GraceSeconds)
	if b.Unlimited && (b.CreditLineMinor != nil || s.Payment == Prepaid) {
		return fault.New(fault.Invalid, "validation_error", "the request has fields that cannot be accepted").
			WithFields(fault.Field{
				Path: "body.unlimited", Message: "is for tenants that pay afterwards, and cannot be given with credit_line_minor",
			})
	}
	return nil
}

func given[T any](to *T, v *T) {
	if v != nil {
		*to = *v
	}
}

func givenSeconds(to *time.Duration, v *int64) {
	if v != nil {
		*to = seconds(*v)
	}
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
			"is let to it, and after the grace period its allocations are released: the newest first, protected ones last. " +
			"What is left out stays as it was. Limits that release something are refused unless release says that this is meant.",
		Access: httpapi.Tenant(auth.BillingManage),
	}, func(ctx context.Context, in *struct {
		TenantPath
		Body Body
	},
	) (*httpapi.Plain[View], error) {
		now, err := s.Set(ctx, in.OrgID, in.Body.change, in.Body.Release)
		return &httpapi.Plain[View]{Body: show(now)}, err
	})
}
