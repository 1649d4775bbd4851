package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "gpuaas"

// source is one Go file of the project, as the rules see it.
type source struct {
	path    string // from the root of the repository
	imports []string
	lines   int
	test    bool
	made    bool // by a generator
	file    *ast.File
	text    string
}

func (s source) dir() string  { return filepath.ToSlash(filepath.Dir(s.path)) }
func (s source) name() string { return filepath.Base(s.path) }

var (
	once   sync.Once
	parsed []source
)

// sources reads every Go file of the product's module, once for all rules.
func sources(t *testing.T) []source {
	t.Helper()
	once.Do(func() { parsed = read(t) })
	if len(parsed) < 20 {
		t.Fatalf("only %d Go files found: the walk is broken", len(parsed))
	}
	return parsed
}

func read(t *testing.T) []source {
	t.Helper()
	var out []source
	walk(t, func(path string) {
		if !strings.HasSuffix(path, ".go") {
			return
		}
		b, err := os.ReadFile(filepath.Join("..", path))
		if err != nil {
			t.Fatal(err)
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, b, parser.ParseComments)
		if err != nil {
			t.Fatalf("parse %s: %v", path, err)
		}
		s := source{
			path: path, file: f, text: string(b), lines: strings.Count(string(b), "\n"),
			test: strings.HasSuffix(path, "_test.go"), made: ast.IsGenerated(f),
		}
		for _, i := range f.Imports {
			p, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			s.imports = append(s.imports, p)
		}
		out = append(out, s)
	})
	return out
}

// walk visits every file that belongs to the project, whatever its kind.
func walk(t *testing.T, visit func(path string)) {
	t.Helper()
	err := filepath.WalkDir("..", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel("..", p)
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch d.Name() {
			case ".git", ".gpuaas", "bin", "node_modules", "dist":
				return filepath.SkipDir
			}
			return nil
		}
		visit(filepath.ToSlash(rel))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

const inside = "controlplane/internal/"

// place is the floor and the package below controlplane/internal that a path or
// import lies in; empty when it lies elsewhere.
func place(path string) (floor, pkg string) {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(path, module+"/"), inside)
	if !ok {
		return "", ""
	}
	floor, rest, _ = strings.Cut(rest, "/")
	pkg, _, _ = strings.Cut(rest, "/")
	return floor, pkg
}

// slice is the package of place.
func slice(path string) string {
	_, pkg := place(path)
	return pkg
}

// placeholder finds printed commands with something to fill in where the command asks for it.
var placeholder = regexp.MustCompile(`gpuaas [a-z][^;\n]*--reason [A-Z]+\b`)

// A command is pasted as it is printed: without --reason, it asks for the reason.
func TestPrintedCommandsCanBePasted(t *testing.T) {
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		for _, found := range placeholder.FindAllString(s.text, -1) {
			t.Errorf("%s: leave --reason out of: %s", s.path, found)
		}
	}
}
