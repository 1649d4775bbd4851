package cli

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
)

// clumsy is somebody who types everything wrong once, and reads what the command line says.
type clumsy struct {
	t    *testing.T
	said map[string]map[string]string // by group of commands and shape: an example
}

// Every command is called with a flag that is not there, without an argument, with one too many,
// with a value that its flag cannot have, with names, ids and files that do not exist, and
// where nobody can be asked. What it says is compared with golden files, one for each group, with one example of
// each kind of sentence.
func TestClumsyUser(t *testing.T) {
	u := &clumsy{t: t, said: map[string]map[string]string{}}
	u.misspell()
	u.mistakeValues()
	u.mistakeObjects()
	files, err := os.ReadDir("testdata/clumsy")
	if err != nil && !*update {
		t.Fatal(err)
	}
	for _, f := range files {
		if u.said[strings.TrimSuffix(f.Name(), ".golden")] == nil {
			t.Errorf("testdata/clumsy/%s is of no group of commands", f.Name())
		}
	}
	for group, shapes := range u.said {
		var examples []string
		for _, example := range shapes {
			examples = append(examples, example)
		}
		slices.Sort(examples)
		golden(t, filepath.Join("clumsy", group+".golden"), strings.Join(examples, "\n"))
	}
}

// misspell does what no command gets to see: one tree of commands is enough for all of it,
// because nothing of it is ever set.
func (u *clumsy) misspell() {
	b := newBench(u.t)
	b.err = &buffer{}
	a := newApp(Program{Version: "1.2.3", Err: b.err, Out: io.Discard, Server: serverCommands()}, b.around)
	root := a.root()
	try := func(want string, args ...string) {
		b.err = &buffer{}
		a.Program.Err = b.err
		root.SetArgs(args)
		u.read(args, outcome{exit: a.execute(u.t.Context(), root), err: b.err.String()}, failure.Usage, want)
	}
	walk(root, func(cmd *cobra.Command) {
		path := strings.Fields(cmd.CommandPath())[1:]
		typed := func(more ...string) []string { return append(slices.Clone(path), more...) }
		if cmd.Hidden || len(path) > 0 && slices.Contains([]string{"help", "completion"}, path[0]) ||
			cmd.IsAdditionalHelpTopicCommand() {
			return
		}
		if cmd.HasSubCommands() && !strings.Contains(cmd.Use, " ") { // else what is typed may be a name
			for _, c := range cmd.Commands() {
				if !c.Hidden && len(c.Name()) > 4 && cmd.Name() != "gpuaas" {
					try("did you mean: "+cmd.CommandPath()+" ", typed(c.Name()[:2]+c.Name()[3:])...)
					break
				}
			}
		}
		if !cmd.Runnable() || cmd.HasSubCommands() {
			return
		}
		try("--nonsense", typed("--nonsense", "x")...)
		if cmd.Args != nil && cmd.Args(cmd, nil) != nil {
			try("missing ", typed()...)
		}
		if many := []string{"a", "b", "c", "d", "e"}; cmd.Args != nil && cmd.Args(cmd, many) != nil {
			try("unexpected ", typed(many...)...)
		}
		near := true
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" {
				return
			}
			if wrong := misspelt(f.Name); near && cmd.Flags().Lookup(wrong) == nil && len(wrong) > 3 {
				try("did you mean: --"+f.Name, typed("--"+wrong, "x")...)
				near = false
			}
			if bad := badValue(f.Value.Type()); bad != "" {
				try("--"+f.Name+" must be ", typed("--"+f.Name+"="+bad)...)
			}
			if f.NoOptDefVal == "" {
				try("--"+f.Name+" ", typed("--"+f.Name)...)
			}
		})
	})
}

func misspelt(name string) string { return name[:len(name)/2] + name[len(name)/2+1:] }

// badValue is what flags of a type cannot be; empty when they can be anything.
func badValue(kind string) string {
	switch {
	case kind == "duration":
		return "soon"
	case kind == "bool":
		return "maybe"
	case strings.HasPrefix(kind, "int"), strings.HasPrefix(kind, "uint"), strings.HasPrefix(kind, "float"):
		return "many"
	}
	return ""
}

// mistakeValues gives flags words and times that they do not take.
func (u *clumsy) mistakeValues() {
	f := newFakeAPI(u.t)
	b := signedIn(u.t, f)
	walk(testRoot(u.t), func(cmd *cobra.Command) {
		cmd.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) {
			if values := frame.Proposed(flag); len(values) > 0 {
				for _, bad := range []string{"purple", values[0] + "s"} {
					args := slices.Concat(strings.Fields(cmd.CommandPath())[1:], enough(cmd), []string{"--" + flag.Name, bad})
					u.read(args, b.run(args...), failure.Usage, "--"+flag.Name+" must be one of "+strings.Join(values, ", "))
				}
			}
		})
	})
	for _, line := range []string{
		"audit list --since never", "audit list --until 31.12.2026", "node show c07u31 --at never",
		"drift findings --since never", "billing usage --from never", "billing usage --to soon",
		"maintenance announce c07u31 --kind release --by soon --reason x",
		"maintenance announce c07u31 --kind release --by 2027-01-01 --not-before soon --reason x",
		"reservation create --tenant acme --sku h200-sxm-baremetal-8g --nodes 4 --from never --until 2027-01-01",
		"reservation create --tenant acme --sku h200-sxm-baremetal-8g --nodes 4 --until never",
		"reservation create --tenant acme --sku h200-sxm-baremetal-8g --nodes 4 --for ever",
		"token create x --expires-in soon", "login --url http://h --expires-in soon",
		"billing prices set h200-sxm-baremetal-8g --price 3.50 --from never",
		"billing prices set h200-sxm-baremetal-8g --price much", "billing credit --tenant acme --amount much --currency USD --reference x --reason x",
		"allocation extend train --project acme/training --for ever",
		"allocation create --project acme/training --sku h200-sxm-baremetal-8g --wait-up-to ever",
		"billing budget set --project acme/training --amount much",
	} {
		args := strings.Fields(line)
		bad := slices.IndexFunc(args, func(a string) bool {
			return slices.Contains([]string{"never", "soon", "ever", "much", "31.12.2026"}, a)
		})
		u.read(args, b.run(args...), failure.Usage, args[bad-1])
	}
	for _, c := range f.received() {
		if verb, _, _ := strings.Cut(c.operation, "-"); verb != "list" && verb != "get" {
			u.t.Errorf("%s was called in spite of misuse", c.operation)
		}
	}
}

// enough are as many arguments as a command takes at least.
func enough(cmd *cobra.Command) (args []string) {
	for len(args) < 5 && cmd.Args != nil && cmd.Args(cmd, args) != nil {
		args = append(args, "x")
	}
	return args
}

// mistakeObjects runs the errands with names, ids and files that there are not, and without the
// answer to a question.
func (u *clumsy) mistakeObjects() {
	f := newFakeAPI(u.t)
	b := signedIn(u.t, f)
	root := testRoot(u.t)
	done := map[string]bool{}
	for _, e := range errands {
		e.args = strings.ReplaceAll(e.args, " -o json", "")
		args := strings.Fields(e.args)
		path := pathOf(u.t, root, args)
		for _, mistake := range [][2]string{
			{"name", wrongName.Replace(e.args)},
			{"id", anID.ReplaceAllString(e.args, "0190b2f4")},
			{"file", aFile.ReplaceAllString(e.args, "testdata/nowhere")},
			{"content", aFile.ReplaceAllString(e.args, "doc.go")},
			{"question", strings.ReplaceAll(e.args, " --yes", "")},
		} {
			kind, wrong := mistake[0], mistake[1]
			if wrong == e.args || done[path+kind] {
				continue
			}
			done[path+kind] = true
			args := strings.Fields(wrong)
			if got := b.run(args...); got.exit != failure.OK {
				u.read(args, got, got.exit, "")
			} else if kind != "content" && kind != "question" && kind != "name" {
				u.t.Errorf("%s succeeded", wrong)
			}
		}
	}
}

var (
	wrongName = strings.NewReplacer(
		"c07u31", "no-such-node", "c07u43", "no-such-node", "dc1", "no-such-site", "acme/", "no-such-tenant/",
		"tenant acme", "tenant no-such-tenant", "get acme", "get no-such-tenant", "disable acme", "disable no-such-tenant",
		"ada@example.com", "nobody@example.com", "pager", "no-such-webhook", "llm", "no-such-artifact", " train ",
		" no-such-allocation ", " ci ", " no-such-account ", "laptop", "no-such-key",
	)
	anID  = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	aFile = regexp.MustCompile(`testdata/\S+`)
)

// inner are words of the program itself, which nobody who uses it knows.
var inner = regexp.MustCompile(`strconv|regexp|\bbody\.|\b(path|query|header)\.[a-z]|\^\[|\b(u?int|float)(8|16|32|64)?\b|\bstringSlice\b|` +
	`unknown unit|invalid duration|\*[a-z]+\.[A-Z]|\b[a-z]+\.[A-Z][a-z]+(Error|View|Body)\b|json: |unmarshal|invalid syntax|pflag|cobra|goroutine|panic|` +
	`<nil>|%!|UUID of|EOF`)

// read is what somebody does with what the command line said.
func (u *clumsy) read(args []string, got outcome, exit int, want string) {
	u.t.Helper()
	line := "gpuaas " + strings.Join(args, " ")
	switch {
	case got.exit != exit || got.exit == failure.OK:
		u.t.Errorf("%s: exit code %d\n%s", line, got.exit, got.err)
	case !strings.Contains(got.err, want):
		u.t.Errorf("%s: does not say %q:\n%s", line, want, got.err)
	case !strings.HasPrefix(got.err, "error: ") && !strings.Contains(got.err, "\nerror: "):
		u.t.Errorf("%s: says no error:\n%s", line, got.err)
	case inner.MatchString(got.err):
		u.t.Errorf("%s: says %q, a word of the program:\n%s", line, inner.FindString(got.err), got.err)
	}
	group := args[0]
	if u.said[group] == nil {
		u.said[group] = map[string]string{}
	}
	if shape := shapeOf(got.err); u.said[group][shape] == "" {
		u.said[group][shape] = "$ " + line + "\n" + got.err
	}
}

// differing is what sentences of the same kind differ in from one command to the next.
var differing = []struct {
	what *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`gpuaas( [a-z][a-z-]*)*`), "COMMAND"},
	{regexp.MustCompile(`--[a-z-]+`), "--FLAG"},
	{regexp.MustCompile(`"[^"]*"`), "VALUE"},
	{regexp.MustCompile(`one of [^\n]*, not`), "one of WORDS, not"},
	{regexp.MustCompile(`missing [^\n]*`), "missing ARGUMENT"},
	{regexp.MustCompile(`did you mean: [^;\n]*`), "did you mean"},
	{regexp.MustCompile(`[0-9]+`), "N"},
}

func shapeOf(text string) string {
	for _, d := range differing {
		text = d.what.ReplaceAllString(text, d.by)
	}
	return text
}
