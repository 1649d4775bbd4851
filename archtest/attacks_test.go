package archtest

import (
	"go/ast"
	"os"
	"regexp"
	"strings"
	"testing"
)

// docs/security.md says what stops which attacker and names the test that shows
// it. Every test that carries out an attack must be there, and no other name.
func TestEveryAttackIsOnThePageAboutSecurity(t *testing.T) {
	page, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, name := range regexp.MustCompile(`TestAttack\w+`).FindAllString(string(page), -1) {
		named[name] = true
	}
	exists := map[string]bool{}
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !s.test || !strings.HasPrefix(f.Name.Name, "TestAttack") {
				continue
			}
			exists[f.Name.Name] = true
			if !named[f.Name.Name] {
				t.Errorf("docs/security.md does not name %s of %s", f.Name.Name, s.path)
			}
		}
	}
	for name := range named {
		if !exists[name] {
			t.Errorf("docs/security.md names %s, which does not exist", name)
		}
	}
}
