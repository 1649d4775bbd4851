package controlplane

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// A failure can only be made of a declared code (archtest sees to that). Whoever
// meets one finds out what is behind it, what to do, and where to read more.
func TestEveryCodeHasACauseARemedyAndARunbook(t *testing.T) {
	codes := job.Codes()
	if len(codes) < 120 {
		t.Fatalf("only %d codes are declared: the rule is broken", len(codes))
	}
	index, err := os.ReadFile("../docs/runbooks/README.md")
	if err != nil {
		t.Fatal(err)
	}
	form := regexp.MustCompile(`^[a-z0-9]+(?:_[a-z0-9]+)+$`)
	var told strings.Builder // what the pages tell of the stages
	actions := map[string][]job.Trigger{}
	for _, k := range newHouse(t).jobs {
		d := k.Described()
		told.WriteString(k.Page())
		actions[d.Noun] = d.Life.AllActions()
		actions[job.AnyFamily] = append(actions[job.AnyFamily], d.Life.AllActions()...)
	}
	stages := told.String()
	for _, c := range codes {
		if !form.MatchString(c.Name) {
			t.Errorf("%q is no name of a code: use snake_case", c.Name)
		}
		if c.Class != "" && !slices.Contains(bringup.FailureClasses, c.Class) {
			t.Errorf("%s is of class %s, which does not exist", c, c.Class)
		}
		if !strings.HasSuffix(c.Cause, ".") || c.Cause[:1] != strings.ToUpper(c.Cause[:1]) {
			t.Errorf("%s: say in a sentence what is usually behind it: Cause is %q", c, c.Cause)
		}
		if c.Remedy == "" || strings.HasSuffix(c.Remedy, ".") {
			t.Errorf("%s: say what to do about it, without a full stop: Remedy is %q", c, c.Remedy)
		}
		if _, err := os.Stat(filepath.Join("../docs/runbooks", c.Runbook+".md")); c.Runbook == "" || err != nil {
			t.Errorf("%s: name a page of docs/runbooks: Runbook is %q", c, c.Runbook)
		} else if !strings.Contains(string(index), "("+c.Runbook+".md)") {
			t.Errorf("%s: docs/runbooks/README.md does not lead to %s", c, c.Runbook)
		}
		if c.Rewind != "" && !strings.Contains(stages, "(`"+c.Rewind+"`)") {
			t.Errorf("%s rewinds to %s, which is no stage", c, c.Rewind)
		}
		for noun, action := range c.Mends {
			if actions[noun] == nil {
				t.Errorf("%s: there is no family %q", c, noun)
			} else if !slices.Contains(actions[noun], action) {
				t.Errorf("%s is mended by %s, which is no action of %s", c, action, noun)
			}
		}
	}
}
