package definition

import (
	"regexp"
	"slices"
)

var (
	typeForm    = regexp.MustCompile(`^[a-z][a-z0-9_]{0,30}(?:\.[a-z][a-z0-9_]{0,30}){1,4}$`)
	versionForm = regexp.MustCompile(`^v[1-9][0-9]{0,5}$`)
)

func sortedNames[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func contains(list []string, one string) bool { return slices.Contains(list, one) }
