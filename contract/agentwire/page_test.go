package agentwire

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the page of step kinds")

const pageOfKinds = "../../docs/step-kinds.md"

// The page of step kinds says what the catalog and the comments of its types say.
func TestThePageOfStepKindsIsUpToDate(t *testing.T) {
	want := stepKindsPage(t)
	if *update {
		if err := os.WriteFile(pageOfKinds, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(pageOfKinds)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the catalog says; run: make gen", pageOfKinds)
	}
	for _, k := range StepKinds() {
		if k.Checks == "" || k.Title == "" {
			t.Errorf("%s does not say what it does and checks", k.Kind)
		}
	}
}

func stepKindsPage(t *testing.T) string {
	t.Helper()
	says := fieldComments(t)
	var b strings.Builder
	b.WriteString("<!-- Generated from contract/agentwire by make gen. -->\n\n# Kinds of steps\n\n" +
		"What steps of [operations](how-to/define-an-operation.md) can do on a node, what they take under `with`, and what later steps can " +
		"refer to as `${steps.ID.FIELD}`. A parameter without *may be left out* must be given.\n\n" +
		"| kind | does | impact |\n| --- | --- | --- |\n")
	for _, k := range StepKinds() {
		anchor := strings.NewReplacer(".", "").Replace(k.Kind)
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s | %s |\n", k.Kind, anchor, k.Title, k.Impact)
	}
	b.WriteString("\nImpact: `none` changes nothing outside the task, `read` looks, `mutate` changes the node, `disrupt` may end what runs on it.\n")
	for _, k := range StepKinds() {
		fmt.Fprintf(&b, "\n## %s\n\nIt can %s. Impact: `%s`. ", k.Kind, k.Title, k.Impact)
		if k.Interruptible {
			b.WriteString("A cancel ends it in the middle.")
		} else {
			b.WriteString("A cancel waits for its end.")
		}
		fmt.Fprintf(&b, "\n\n%s\n", k.Checks)
		table(&b, "Takes", reflect.TypeOf(k.params()).Elem(), says, true)
		table(&b, "Returns", k.output, says, false)
		b.WriteString("\n```json\n" + k.Sound[0] + "\n```\n")
	}
	return b.String()
}

func table(b *strings.Builder, title string, t reflect.Type, says map[string]string, given bool) {
	rows := fieldRows("", t, says, given)
	if len(rows) == 0 {
		fmt.Fprintf(b, "\n%s nothing.\n", title)
		return
	}
	fmt.Fprintf(b, "\n| %s | type | what |\n| --- | --- | --- |\n%s", strings.ToLower(title), strings.Join(rows, ""))
}

// fieldRows are the rows of the fields of a type, and of what is in them.
func fieldRows(at string, t reflect.Type, says map[string]string, given bool) (rows []string) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			rows = append(rows, fieldRows(at, f.Type, says, given)...)
			continue
		}
		what := says[t.Name()+"."+f.Name]
		if given && strings.Contains(options, "omit") {
			what = strings.TrimSpace("May be left out. " + what)
		}
		path, inner, kind := at+name, f.Type, typeName(f.Type)
		for inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case inner == rawType || inner == secretType:
		case inner.Kind() == reflect.Slice:
			inner, path, kind = inner.Elem(), path+"[]", "array of "+typeName(inner.Elem())
		case inner.Kind() == reflect.Map:
			inner, path, kind = inner.Elem(), path+".NAME", "object of "+typeName(inner.Elem())
		}
		rows = append(rows, fmt.Sprintf("| `%s%s` | %s | %s |\n", at, name, kind, strings.ReplaceAll(what, "|", "\\|")))
		if inner.Kind() == reflect.Struct && inner.PkgPath() == t.PkgPath() {
			rows = append(rows, fieldRows(path+".", inner, says, given)...)
		}
	}
	return rows
}

// fieldComments are the comments of the fields of this package, by Type.Field.
func fieldComments(t *testing.T) map[string]string {
	t.Helper()
	says := map[string]string{}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, named := n.(*ast.TypeSpec)
			if !named {
				return true
			}
			if s, is := spec.Type.(*ast.StructType); is {
				for _, f := range s.Fields.List {
					text := sentence(f.Doc.Text(), f.Names)
					if line := strings.TrimSpace(f.Comment.Text()); line != "" {
						text = strings.TrimSpace(text + " " + strings.ToUpper(line[:1]) + line[1:] + ".")
					}
					for _, field := range f.Names {
						says[spec.Name.Name+"."+field.Name] = text
					}
				}
			}
			return true
		})
	}
	return says
}

// sentence is a comment without the name of the field that it begins with.
func sentence(doc string, of []*ast.Ident) string {
	text := strings.Join(strings.Fields(doc), " ")
	if len(of) == 0 || text == "" {
		return text
	}
	for _, verb := range []string{" is ", " are ", " says that ", " names ", " means "} {
		if rest, ok := strings.CutPrefix(text, of[0].Name+verb); ok {
			return strings.ToUpper(rest[:1]) + rest[1:]
		}
	}
	return text
}
