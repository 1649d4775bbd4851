package node

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"gpuaas/controlplane/internal/base/fault"
)

// Grouping says which groups a node belongs to. Placement, operations and
// rollouts select nodes by them.
type Grouping struct {
	Rack   string            `json:"rack,omitempty"`   // where the machine stands; empty if nobody said
	Pool   string            `json:"pool,omitempty"`   // what the node is reserved for; empty for the general pool
	Labels map[string]string `json:"labels,omitempty"` // words of the operators
}

// PublicLabels is what the keys of labels begin with that tenants may know and ask for.
// The others are words of operators.
const PublicLabels = "public/"

// MaxLabels is how many labels a node may have.
const MaxLabels = 32

var (
	groupForm      = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$`)
	labelKeyForm   = regexp.MustCompile(`^[a-z0-9]([a-z0-9._/-]{0,61}[a-z0-9])?$`)
	labelValueForm = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9._/:+-]{0,61}[A-Za-z0-9])?)?$`)
)

// Rejected says which fields of a grouping can never be right. at is put before
// the name of each field.
func (g Grouping) Rejected(at string) []fault.Field {
	var bad []fault.Field
	reject := func(ok bool, path, message string) {
		if !ok {
			bad = append(bad, fault.Field{Path: at + path, Message: message})
		}
	}
	const words = "must be 1 to 63 letters, digits and inner . _ -, or empty"
	reject(groupForm.MatchString(g.Rack), "rack", words)
	reject(groupForm.MatchString(g.Pool), "pool", words)
	reject(len(g.Labels) <= MaxLabels, "labels", fmt.Sprintf("must be at most %d", MaxLabels))
	for _, key := range slices.Sorted(maps.Keys(g.Labels)) {
		reject(labelKeyForm.MatchString(key), "labels",
			fmt.Sprintf("the key %q must be 1 to 63 of a-z, 0-9 and inner . _ / -", key))
		reject(labelValueForm.MatchString(g.Labels[key]), "labels",
			fmt.Sprintf("the value of %q must be at most 63 letters, digits and inner . _ / : + -", key))
	}
	return bad
}

// Selected reads labels that are written key=value.
func Selected(words []string) (map[string]string, error) {
	out := map[string]string{}
	for _, word := range words {
		key, value, found := strings.Cut(word, "=")
		if !found || !labelKeyForm.MatchString(key) || !labelValueForm.MatchString(value) {
			return nil, rejected([]fault.Field{{
				Path: "query.label", Message: fmt.Sprintf("%q must be a label as key=value", word),
			}})
		}
		if before, twice := out[key]; twice && before != value {
			return nil, rejected([]fault.Field{{
				Path: "query.label", Message: fmt.Sprintf("no node has both %s=%s and %s=%s", key, before, key, value),
			}})
		}
		out[key] = value
	}
	return out, nil
}
