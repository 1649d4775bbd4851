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
	failures        []string          // lines, in the order in which they happened
	output          map[string][]line // of packages that have not ended, and of builds
}

// line is one that a test printed, or a package outside of its tests.
type line struct{ test, text string }

func newReport() *report { return &report{output: map[string][]line{}} }

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
		r.fail(e.ImportPath, "FAIL "+e.ImportPath+" [does not build]")
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
	if e.Action != "fail" {
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
}

// fail prints what the tests said that did not pass, and keeps the lines that say why.
func (r *report) fail(of, headline string) {
	r.failures = append(r.failures, headline)
	for _, l := range r.output[of] {
		r.say("%s", l.text)
		if worthTelling.MatchString(l.text) || strings.HasSuffix(headline, "[does not build]") {
			text := strings.TrimRight(l.text, "\n")
			r.failures = append(r.failures, text[:min(len(text), 600)])
		}
	}
	r.say("%s\n", headline)
	delete(r.output, of)
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
	if len(r.failures) == 0 {
		return
	}
	const lines = 60
	_, _ = fmt.Fprintln(out, "\nwhat failed:")
	for _, line := range r.failures[:min(len(r.failures), lines)] {
		_, _ = fmt.Fprintln(out, line)
	}
	if left := len(r.failures) - lines; left > 0 {
		_, _ = fmt.Fprintf(out, "and %d more lines\n", left)
	}
}
