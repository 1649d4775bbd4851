package agentpackage

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
)

// versionForm is that of semantic versions, with numbers that fit into an int.
var versionForm = regexp.MustCompile(`^(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})` +
	`(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?$`)

const longestVersion = 64

// Version is a version that has an order: 1.4.0 or 1.5.0-rc.1.
type Version struct {
	numbers [3]int
	before  []string // what comes before the version proper: rc, 1
}

// ParseVersion reads a semantic version. It reports false for all other texts, such as
// the commit that an agent of a working copy is named after: those have no order.
func ParseVersion(text string) (Version, bool) {
	parts := versionForm.FindStringSubmatch(text)
	if parts == nil || len(text) > longestVersion {
		return Version{}, false
	}
	var v Version
	for i := range v.numbers {
		v.numbers[i], _ = strconv.Atoi(parts[i+1]) // the form admits digits only
	}
	if parts[4] != "" {
		v.before = strings.Split(parts[4], ".")
	}
	return v, true
}

// Compare orders versions as semantic versioning does; what follows a plus sign does
// not count.
func (v Version) Compare(o Version) int {
	for i := range v.numbers {
		if c := cmp.Compare(v.numbers[i], o.numbers[i]); c != 0 {
			return c
		}
	}
	if len(v.before) == 0 || len(o.before) == 0 {
		return cmp.Compare(len(o.before), len(v.before)) // the one that has none is the version proper
	}
	for i := range min(len(v.before), len(o.before)) {
		if c := compareWord(v.before[i], o.before[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(v.before), len(o.before))
}

// compareWord orders numbers before words, and numbers as numbers.
func compareWord(a, b string) int {
	x, aNumber := number(a)
	y, bNumber := number(b)
	switch {
	case aNumber && bNumber:
		return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y))
	case aNumber:
		return -1
	case bNumber:
		return 1
	}
	return strings.Compare(a, b)
}

// number is a text of digits without the zeros that it begins with.
func number(text string) (string, bool) {
	return strings.TrimLeft(text, "0"), strings.Trim(text, "0123456789") == ""
}
