package policy

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gpuaas/controlplane/internal/base/fault"
)

// Bounds of what can be set.
const (
	mostConcurrency = 10_000
	mostTimeout     = 24 * 60 * 60
	mostSize        = 1 << 53
	mostEntries     = 100
)

var (
	targetKinds = []string{"node", "allocation", "group"}
	sourceForm  = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]*(?:://)?[A-Za-z0-9._:/@%+-]*$`)
)

// check refuses values that say nothing or nonsense.
func (v Values) check(scope Scope) error {
	var bad []fault.Field
	refuse := func(key Key, message string) {
		bad = append(bad, fault.Field{Path: "body." + string(key), Message: message})
	}
	for _, n := range []struct {
		key  Key
		got  *int64
		most int64
	}{
		{MaxConcurrency, v.MaxConcurrency, mostConcurrency},
		{TimeoutSeconds, v.TimeoutSeconds, mostTimeout},
		{MaxArtifactSize, v.MaxArtifactSize, mostSize},
	} {
		if n.got != nil && (*n.got < 1 || *n.got > n.most) {
			refuse(n.key, "must be 1 to "+strconv.FormatInt(n.most, 10))
		}
	}
	if v.TargetKinds != nil && slices.ContainsFunc(*v.TargetKinds, func(k string) bool {
		return !slices.Contains(targetKinds, k)
	}) {
		refuse(TargetKinds, "must be of "+strings.Join(targetKinds, ", "))
	}
	if v.ArtifactSources != nil && (len(*v.ArtifactSources) > mostEntries ||
		slices.ContainsFunc(*v.ArtifactSources, func(s string) bool { return len(s) > 400 || !sourceForm.MatchString(s) })) {
		refuse(ArtifactSources, "must be at most 100 prefixes of sources, such as registry.example/team or https://example.com/")
	}
	if v.HardDeny && scope != Global {
		bad = append(bad, fault.Field{
			Path:    "body.hard_deny",
			Message: "only the platform denies for good; set enabled to false",
		})
	}
	if len(bad) > 0 {
		return fault.New(fault.Invalid, "validation_error",
			"the request has fields that cannot be accepted").WithFields(bad...)
	}
	return nil
}

// described is what a level settles, as the audit log keeps it.
func (v Values) described() map[string]any {
	out := map[string]any{}
	if v.HardDeny {
		out["hard_deny"] = true
	}
	put(out, Enabled, v.Enabled)
	put(out, MaxConcurrency, v.MaxConcurrency)
	put(out, TimeoutSeconds, v.TimeoutSeconds)
	put(out, ArtifactSources, v.ArtifactSources)
	put(out, TargetKinds, v.TargetKinds)
	put(out, RequireSignature, v.RequireSignature)
	put(out, MaxArtifactSize, v.MaxArtifactSize)
	return out
}

func put[T any](out map[string]any, key Key, value *T) {
	if value != nil {
		out[string(key)] = *value
	}
}

// stored is a list as rows keep it: NULL where it was never set.
func stored(list *[]string) []string {
	if list == nil {
		return nil
	}
	out := slices.Clone(*list)
	slices.Sort(out)
	if out = slices.Compact(out); out == nil {
		out = []string{}
	}
	return out
}
