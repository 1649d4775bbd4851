package reconciliation

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const docs = "../../../../docs"

func TestPageNamesEveryFinding(t *testing.T) {
	page := Page()
	for _, d := range Rules {
		for what, text := range map[string]string{
			"section": "\n## " + string(d.Type) + "\n", "title": d.Title,
			"when": d.Holds, "meaning": d.Means,
		} {
			if text == "" || !strings.Contains(page, text) {
				t.Errorf("the page lacks the %s of %s", what, d.Type)
			}
		}
		if !strings.HasSuffix(d.Holds, ".") || d.Action != None &&
			(actionShort[d.Action] == "" || actionMeans[d.Action] == "") {
			t.Errorf("%s: when it holds is no sentence, or %q is not explained", d.Type, d.Action)
		}
	}
	if len(actions) != len(actionShort) || len(actions) != len(actionMeans) {
		t.Error("not every action is listed with what it is")
	}
}

// Whatever wakes somebody at night says where to read on.
func TestSevereFindingsHaveARunbookThatNamesThem(t *testing.T) {
	index, err := os.ReadFile(filepath.Join(docs, "runbooks", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range Rules {
		if d.Runbook == "" {
			if d.Severity == Critical || d.Severity == Warning {
				t.Errorf("%s is %s and has no runbook", d.Type, d.Severity)
			}
			continue
		}
		text, err := os.ReadFile(filepath.Join(docs, "runbooks", d.Runbook+".md"))
		if err != nil {
			t.Errorf("read runbook of %s: %v", d.Type, err)
			continue
		}
		if !strings.Contains(string(text), "`"+string(d.Type)+"`") {
			t.Errorf("runbook %s does not name %s", d.Runbook, d.Type)
		}
		if !regexp.MustCompile("`" + string(d.Type) + "`.*" + d.Runbook + `\.md`).Match(index) {
			t.Errorf("the list of runbooks does not lead from %s to %s", d.Type, d.Runbook)
		}
		if lines := strings.Count(string(text), "\n"); lines > 60 && d.Runbook != "node-offline" {
			t.Errorf("runbook %s has %d lines: nobody reads that at night", d.Runbook, lines)
		}
	}
}

// Links of the page resolve; the lifecycle is a generated page too.
func TestLinksOfThePage(t *testing.T) {
	page := Page()
	for _, m := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(page, -1) {
		if anchor, inside := strings.CutPrefix(m[1], "#"); inside {
			if !strings.Contains(page, "\n## "+anchor+"\n") {
				t.Errorf("nothing on the page is named %s", anchor)
			}
			continue
		}
		if m[1] == "lifecycles/finding.md" {
			continue
		}
		if _, err := os.Stat(filepath.Join(docs, m[1])); err != nil {
			t.Errorf("%s: %v", m[1], err)
		}
	}
}
