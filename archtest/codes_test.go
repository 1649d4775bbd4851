package archtest

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

// A job fails with a code that somebody declared, with its cause, remedy and
// runbook: there is no other way to make a failure, or a code. That every declared
// code has all of these, TestEveryCodeHasACauseARemedyAndARunbook of package
// controlplane proves.
func TestFailuresAreMadeOfDeclaredCodes(t *testing.T) {
	found := 0
	for _, s := range sources(t) {
		floor, own := place(s.path)
		if floor != "work" || s.test || s.made || own == "job" && s.name() == "code.go" {
			continue
		}
		declared := map[ast.Node]bool{}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				switch called(n.Fun) {
				case "DeclareCode":
					declared[n.Args[0]] = true
					found++
				case "CodeNamed":
					if lit, ok := n.Args[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
						t.Errorf("%s makes the code %s of a text: declare it", s.path, lit.Value)
					}
				}
			case *ast.CompositeLit:
				switch of := called(n.Type); {
				case of == "Failure":
					t.Errorf("%s makes a failure without its code: use Failed of a declared code", s.path)
				case of == "Code" && !declared[n]:
					t.Errorf("%s makes a code that it does not declare: use job.DeclareCode", s.path)
				}
			}
			return true
		})
	}
	if found < 100 {
		t.Fatalf("only %d codes are declared: the rule is broken", found)
	}
}

// called is the last part of a name such as job.Code.
func called(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.IndexExpr:
		return called(e.X)
	}
	return ""
}

// Only the file of a stage, or one that is named after codes, declares codes: so
// whoever looks for one finds it.
func TestCodesAreDeclaredWhereTheyBelong(t *testing.T) {
	for _, s := range sources(t) {
		home := strings.HasPrefix(s.name(), "stage_") || strings.HasPrefix(s.name(), "codes") || s.test
		if floor, _ := place(s.path); floor == "work" && !home && strings.Contains(s.text, "DeclareCode(") &&
			!strings.Contains(s.text, "func DeclareCode(") {
			t.Errorf("%s declares codes: that belongs in stage_<name>.go, or in codes.go", s.path)
		}
	}
}
