package identity

import (
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
)

// DefaultProject is the slug of the project that every tenant starts with.
const DefaultProject = "default"

// Tenant is an organisation. Everything belongs to one.
type Tenant struct {
	ID                   id.Org
	Slug, Name           string
	Version              int64
	CreatedAt, UpdatedAt time.Time
	DisabledAt           *time.Time // nil: it may ask for something new
	DisabledBecause      string
}

// enabled refuses what a tenant that is disabled may not do.
func (t Tenant) enabled() error {
	if t.DisabledAt == nil {
		return nil
	}
	return fault.New(fault.Forbidden, "tenant_disabled",
		"tenant %s is disabled: what it has stays and can be read and released, and nothing new is made for it", t.Slug).
		WithRemedy("ask the operator of the platform to enable it; why it is disabled: gpuaas tenant get %s", t.Slug)
}

// Project is where the resources of a tenant live.
type Project struct {
	ID                   id.Project
	Org                  id.Org
	Slug, Name           string
	Version              int64
	CreatedAt, UpdatedAt time.Time
}

// Naming names a new tenant or project: the slug is for machines and never
// changes, the name is for people.
type Naming struct {
	Slug, Name string
}

// The database checks the same form.
var slugForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

func (n Naming) check() error {
	var fields []fault.Field
	if !slugForm.MatchString(n.Slug) {
		fields = append(fields, fault.Field{
			Path:    "body.slug",
			Message: "must be 1 to 63 lower-case letters, digits and inner hyphens",
		})
	}
	return rejected(append(fields, nameProblems(n.Name)...))
}

const maxNameLength = 200

func nameProblems(name string) []fault.Field {
	if strings.TrimSpace(name) == "" || utf8.RuneCountInString(name) > maxNameLength {
		return []fault.Field{{Path: "body.name", Message: "must be 1 to 200 characters and not only spaces"}}
	}
	for _, r := range name {
		if r < ' ' || r == 0x7f {
			return []fault.Field{{Path: "body.name", Message: "must not contain control characters"}}
		}
	}
	return nil
}

func checkName(name string) error { return rejected(nameProblems(name)) }

// rejected returns the fault for rejected inputs, or nil if there are none.
func rejected(fields []fault.Field) error {
	if len(fields) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, "validation_error",
		"the request has fields that cannot be accepted").WithFields(fields...)
}

// notFound is the fault for whatever does not exist, or must not be known to
// exist. It is the same that the frame returns for targets on which a caller
// has no role, so that the two cannot be told apart.
func notFound() error {
	return fault.New(fault.NotFound, "not_found", "it does not exist, or you have no access to it").
		WithRemedy("check the id, and that you are a member of the tenant or project")
}

// atVersion refuses a change that was based on an older version.
func atVersion(have, based int64) error {
	if have == based {
		return nil
	}
	return fault.New(fault.Stale, "version_stale",
		"it was changed since it was read: the newest version is %d, the change is based on %d", have, based).
		WithRemedy("read it again and repeat the change with the new ETag")
}
