package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The page on dependencies has a line for each direct dependency that says why
// we have it.
func TestEveryDependencyHasAReason(t *testing.T) {
	page, err := os.ReadFile("../docs/adr/0015-dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	required := regexp.MustCompile(`(?m)^(?:require )?\s*([a-z0-9.-]+\.[a-z]+/\S+) v\S+$`)
	found := 0
	walk(t, func(path string) {
		if filepath.Base(path) != "go.mod" {
			return
		}
		b, err := os.ReadFile(filepath.Join("..", path))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range required.FindAllStringSubmatch(string(b), -1) {
			found++
			if !strings.Contains(string(page), "`"+m[1]+"`") {
				t.Errorf("%s requires %s, and docs/adr/0015-dependencies.md does not say why", path, m[1])
			}
		}
	})
	if found < 20 {
		t.Fatalf("only %d dependencies found: the rule is broken", found)
	}
}
