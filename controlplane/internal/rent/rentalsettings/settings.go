package rentalsettings

import (
	"fmt"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
)

// Owner is whose settings they are: a tenant's, or with a project the project's.
type Owner struct {
	Org     id.Org
	Project id.Project
}

// Values are what an owner has settled. What is nil is left to others: a project's to
// its tenant, a tenant's to the platform.
type Values struct {
	// DefaultExpiry is how long an allocation lasts whose request names no end; zero:
	// it never ends by itself.
	DefaultExpiry *time.Duration
	// MaxExpiry is how long it may last at most. Where there is a maximum, each has an end.
	MaxExpiry  *time.Duration
	RootAccess *bool
}

// Settings are the settings of one owner.
type Settings struct {
	Owner
	Values
	Version   int64 // zero: nothing was ever set
	UpdatedAt time.Time
	UpdatedBy string
}

// Source is who settled something.
type Source string

// The sources.
const (
	Platform Source = "platform"
	Tenant   Source = "tenant"
	Project  Source = "project"
)

// Rules are what is in force for a project, or for a tenant as a whole, and who
// settled each of it.
type Rules struct {
	DefaultExpiry     time.Duration // zero: never
	DefaultExpiryFrom Source
	MaxExpiry         time.Duration // zero: it may last for ever
	MaxExpiryFrom     Source
	RootAccess        bool
	RootAccessFrom    Source
}

// inForce puts the settings of a tenant and of one of its projects together.
func inForce(tenant, project Values) Rules {
	r := Rules{DefaultExpiryFrom: Platform, MaxExpiryFrom: Platform, RootAccess: true, RootAccessFrom: Platform}
	for _, level := range []struct {
		Values
		from Source
	}{{tenant, Tenant}, {project, Project}} {
		if d := level.DefaultExpiry; d != nil {
			r.DefaultExpiry, r.DefaultExpiryFrom = *d, level.from
		}
		if d := level.MaxExpiry; d != nil && (r.MaxExpiry == 0 || *d < r.MaxExpiry) {
			r.MaxExpiry, r.MaxExpiryFrom = *d, level.from
		}
		if may := level.RootAccess; may != nil && r.RootAccess {
			r.RootAccess, r.RootAccessFrom = *may, level.from
		}
	}
	if r.MaxExpiry > 0 && (r.DefaultExpiry == 0 || r.DefaultExpiry > r.MaxExpiry) {
		r.DefaultExpiry, r.DefaultExpiryFrom = r.MaxExpiry, r.MaxExpiryFrom
	}
	return r
}

// Lasts refuses an allocation that would last longer than the rules allow; zero is
// for ever.
func (r Rules) Lasts(asked time.Duration) error {
	if r.MaxExpiry == 0 || asked > 0 && asked <= r.MaxExpiry {
		return nil
	}
	wanted := "one without an end was asked for"
	if asked > 0 {
		wanted = span(asked) + " were asked for"
	}
	return fault.New(fault.Forbidden, "expiry_above_maximum",
		"an allocation of this project may last %s at most, and %s: the %s limits it", span(r.MaxExpiry), wanted,
		r.MaxExpiryFrom).
		WithFields(fault.Field{Path: "body.expires_in_seconds", Message: fmt.Sprintf("must be 1 to %d",
			int64(r.MaxExpiry.Seconds()))}).
		WithRemedy("ask for %s or less and extend it later, or have %s raise the limit", span(r.MaxExpiry),
			r.MaxExpiryFrom.lifts())
}

// Roots refuses root access where the rules do not allow it.
func (r Rules) Roots() error {
	if r.RootAccess {
		return nil
	}
	return fault.New(fault.Forbidden, "root_access_forbidden",
		"root access cannot be asked for in this project: the %s does not allow it", r.RootAccessFrom).
		WithFields(fault.Field{Path: "body.access", Message: "must be user"}).
		WithRemedy("ask without root access, or have %s allow it", r.RootAccessFrom.lifts())
}

// lifts names who may change what a source has settled.
func (s Source) lifts() string {
	if s == Tenant {
		return "an administrator of the tenant (gpuaas tenant settings set)"
	}
	return "an administrator of the project (gpuaas project settings set)"
}

// span is a duration as people read it.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d == day:
		return "1 day"
	case d%day == 0:
		return fmt.Sprintf("%d days", d/day)
	case d%time.Hour == 0:
		return fmt.Sprintf("%d hours", d/time.Hour)
	}
	return d.Round(time.Second).String()
}

const (
	shortest = 5 * time.Minute // as an allocation at least lasts
	longest  = 366 * 24 * time.Hour
)

// check refuses values that contradict themselves, or those of the tenant.
func (v Values) check(tenant Values) error {
	var bad, above []fault.Field
	for path, d := range map[string]*time.Duration{
		"body.default_expiry_seconds": v.DefaultExpiry, "body.max_expiry_seconds": v.MaxExpiry,
	} {
		never := path == "body.default_expiry_seconds" && d != nil && *d == 0
		if d != nil && !never && (*d < shortest || *d > longest) {
			bad = append(bad, fault.Field{Path: path, Message: "must be 5 minutes to 366 days"})
		}
	}
	if len(bad) == 0 && v.DefaultExpiry != nil && v.MaxExpiry != nil && exceeds(*v.DefaultExpiry, *v.MaxExpiry) {
		bad = append(bad, fault.Field{
			Path: "body.default_expiry_seconds", Message: "must not be above the maximum, " + span(*v.MaxExpiry),
		})
	}
	if len(bad) > 0 {
		return fault.New(fault.Invalid, "validation_error", "the request has fields that cannot be accepted").
			WithFields(bad...)
	}
	if most := tenant.MaxExpiry; most != nil {
		for path, d := range map[string]*time.Duration{
			"body.default_expiry_seconds": v.DefaultExpiry, "body.max_expiry_seconds": v.MaxExpiry,
		} {
			if d != nil && exceeds(*d, *most) {
				above = append(above, fault.Field{Path: path, Message: "the tenant allows " + span(*most) + " at most"})
			}
		}
	}
	if may := tenant.RootAccess; may != nil && !*may && v.RootAccess != nil && *v.RootAccess {
		above = append(above, fault.Field{Path: "body.root_access", Message: "the tenant does not allow root access"})
	}
	if len(above) > 0 {
		return fault.New(fault.Conflict, "settings_beyond_tenant", "a project cannot be allowed more than its tenant: %s",
			above[0].Message).WithFields(above...).WithRemedy("set less, or have %s change it", Tenant.lifts())
	}
	return nil
}

// exceeds reports whether an allocation that lasts so long, zero being for ever, is
// above a maximum.
func exceeds(d, most time.Duration) bool { return d == 0 || d > most }

func noTenant() error {
	return fault.New(fault.NotFound, "not_found", "there is no such tenant").
		WithRemedy("see which there are: gpuaas tenant list")
}
