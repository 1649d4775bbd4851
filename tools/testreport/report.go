package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// event is one line of `go test -json`; `go doc test2json` explains the fields.
type event struct {
	Action     string
	Package    string
	ImportPath string // of what is built, in place of Package
	Test       string
	Elapsed    float64
	Output     string
}

// long is from how many seconds on the end of a single test is worth a line.
const long = 20

// worthTelling are the lines of a failed test that say what went wrong.
var worthTelling = regexp.MustCompile(
	`^(FAIL|panic:|fatal error:|WARNING: DATA RACE)|^ *--- FAIL|^ *[a-zA-Z0-9_]+_test\.go:\d+:`)

type took struct {
	name    string
	seconds float64
}

type report struct {
	progress io.Writer // nil: say nothing before the end

	packages, tests []took
	failures        []failure           // in the order in which they happened
	unsteady        []failure           // of packages that passed when they were tried again
	failed          map[string][]string // tests of packages that have not ended
	output          map[string][]line   // of packages that have not ended, and of builds
}

// failure is a package that failed, or that does not build.
type failure struct {
	of    string
	tests []string // that failed, without those within others
	lines []string // that say why
}

// line is one that a test printed, or a package outside of its tests.
type line struct{ test, text string }

func newReport() *report { return &report{failed: map[string][]string{}, output: map[string][]line{}} }

func (r *report) say(format string, args ...any) {
	if r.progress != nil {
		_, _ = fmt.Fprintf(r.progress, format, args...)
	}
}

func (r *report) take(e event) {
	switch e.Action {
	case "output":
		test, _, _ := strings.Cut(e.Test, "/")
		r.output[e.Package] = append(r.output[e.Package], line{test, e.Output})
	case "build-output":
		r.output[e.ImportPath] = append(r.output[e.ImportPath], line{"", e.Output})
	case "build-fail":
		r.fail(e.ImportPath, "FAIL "+e.ImportPath+doesNotBuild)
	case "pass", "fail", "skip":
		if e.Test != "" {
			r.testEnded(e)
		} else {
			r.packageEnded(e)
		}
	}
}

func (r *report) testEnded(e event) {
	if strings.Contains(e.Test, "/") {
		return // its time is that of the test it belongs to
	}
	name := strings.TrimPrefix(e.Package, "gpuaas/") + " " + e.Test
	r.tests = append(r.tests, took{name, e.Elapsed})
	if e.Elapsed >= long || e.Action == "fail" {
		r.say("     %-5s %7.1f s  %s\n", e.Action, e.Elapsed, name)
	}
	if e.Action == "fail" {
		r.failed[e.Package] = append(r.failed[e.Package], e.Test)
	} else {
		r.output[e.Package] = slices.DeleteFunc(r.output[e.Package], func(l line) bool { return l.test == e.Test })
	}
}

func (r *report) packageEnded(e event) {
	if e.Action == "skip" { // it has no tests
		delete(r.output, e.Package)
		return
	}
	r.packages = append(r.packages, took{strings.TrimPrefix(e.Package, "gpuaas/"), e.Elapsed})
	if e.Action == "fail" {
		r.fail(e.Package, "FAIL "+e.Package)
		return
	}
	r.say("ok   %12.1f s  %s\n", e.Elapsed, strings.TrimPrefix(e.Package, "gpuaas/"))
	delete(r.output, e.Package)
	// The last verdict counts, but nobody forgets that there was another.
	r.failures = slices.DeleteFunc(r.failures, func(f failure) bool {
		if f.of != e.Package || slices.Contains(f.lines, "FAIL "+f.of+doesNotBuild) {
			return false
		}
		r.unsteady = append(r.unsteady, f)
		return true
	})
}

const doesNotBuild = " [does not build]"

// fail prints what the tests said that did not pass, and keeps the lines that say why.
func (r *report) fail(of, headline string) {
	f := failure{of: of, tests: r.failed[of], lines: []string{headline}}
	for _, l := range r.output[of] {
		r.say("%s", l.text)
		if worthTelling.MatchString(l.text) || strings.HasSuffix(headline, doesNotBuild) {
			text := strings.TrimRight(l.text, "\n")
			f.lines = append(f.lines, text[:min(len(text), 600)])
		}
	}
	r.say("%s\n", headline)
	r.failures = append(r.failures, f)
	delete(r.output, of)
	delete(r.failed, of)
}

// end makes failures of packages that never said how they ended: their run was killed.
func (r *report) end() {
	for _, of := range slices.Sorted(maps.Keys(r.output)) {
		r.fail(of, "FAIL "+of+" [ended without a verdict]")
	}
}

func (r *report) summarise(out io.Writer, most int) {
	table := func(title string, rows []took) {
		slices.SortStableFunc(rows, func(a, b took) int { return cmp.Compare(b.seconds, a.seconds) })
		_, _ = fmt.Fprintf(out, "\nthe slowest %s:\n", title)
		for _, row := range rows[:min(len(rows), most)] {
			_, _ = fmt.Fprintf(out, "%9.1f s  %s\n", row.seconds, row.name)
		}
	}
	table("packages", r.packages)
	table("tests", r.tests)
	explain(out, "failed, and passed when it was tried again with little beside it: unsteady, mend it", r.unsteady)
	explain(out, "what failed", r.failures)
}

func explain(out io.Writer, title string, failures []failure) {
	if len(failures) == 0 {
		return
	}
	var lines []string
	for _, f := range failures {
		lines = append(lines, f.lines...)
	}
	const most = 60
	_, _ = fmt.Fprintf(out, "\n%s:\n", title)
	for _, line := range lines[:min(len(lines), most)] {
		_, _ = fmt.Fprintln(out, line)
	}
	if left := len(lines) - most; left > 0 {
		_, _ = fmt.Fprintf(out, "and %d more lines\n", left)
	}
}

// again says what to try once more: a line per package, with a pattern of the
// tests that failed. It says nothing where trying again would prove nothing:
// something does not build, or more failed than chance explains.
func (r *report) again(out io.Writer) {
	const most = 8
	var lines []string
	count := 0
	for _, f := range r.failures {
		if strings.HasSuffix(f.lines[0], doesNotBuild) {
			return
		}
		pattern := "." // the package failed outside of its tests
		if len(f.tests) > 0 {
			pattern = "^(" + strings.Join(f.tests, "|") + ")$"
		}
		count += max(1, len(f.tests))
		lines = append(lines, f.of+" "+pattern)
	}
	if count > most {
		return
	}
	for _, line := range lines {
		_, _ = fmt.Fprintln(out, line)
	}
}
