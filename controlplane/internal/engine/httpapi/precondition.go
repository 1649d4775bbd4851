package httpapi

import (
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"gpuaas/controlplane/internal/base/fault"
)

// ETag returns the entity tag of a version of a resource.
func ETag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// IfMatch is the input of every update: embed it. The change is made only if
// the resource still has this version.
type IfMatch struct {
	IfMatchHeader string `header:"If-Match" maxLength:"64" doc:"The ETag of the version that the change is based on." example:"\"7\""`
}

// Version returns the version that the caller has seen.
func (m IfMatch) Version() (int64, error) {
	tag := strings.TrimSpace(m.IfMatchHeader)
	if tag == "" {
		return 0, fault.New(fault.Invalid, codePreconditionRequired, "an update must say which version it is based on").
			WithRemedy("read the resource and send its ETag as If-Match")
	}
	if tag == "*" {
		return 0, ifMatchInvalid("\"*\" would overwrite changes that were never seen")
	}
	if strings.HasPrefix(tag, "W/") {
		return 0, ifMatchInvalid("a weak entity tag does not name one version")
	}
	number, quoted := strings.CutPrefix(tag, `"`)
	number, closed := strings.CutSuffix(number, `"`)
	version, err := strconv.ParseInt(number, 10, 64)
	if !quoted || !closed || err != nil || version < 0 || ETag(version) != tag {
		return 0, ifMatchInvalid("it must be one entity tag as it was answered, such as \"7\" with its quotes")
	}
	return version, nil
}

func ifMatchInvalid(why string) error {
	return fault.New(fault.Invalid, "if_match_invalid", "If-Match is not usable: %s", why).
		WithRemedy("read the resource and send its ETag as If-Match").
		WithFields(fault.Field{Path: "header.If-Match", Message: why})
}

// Resolve refuses a request before its handler runs. The framework calls it.
func (m IfMatch) Resolve(huma.Context) []error {
	if _, err := m.Version(); err != nil {
		return []error{err}
	}
	return nil
}
