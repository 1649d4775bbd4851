package archtest

import (
	"bytes"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// adapters are the packages that reach outside; only activities and stages use
// them.
var adapters = []string{"secrets", "maas", "bmc", "ssh", "courier", "registry"}

func TestLinesLieInTheirRooms(t *testing.T) {
	for _, s := range sources(t) {
		own := slice(s.path)
		if own == "" || s.test || s.made || level(s.path) <= slices.Index(floors, "adapter") {
			continue
		}
		for _, i := range s.imports {
			web := strings.HasPrefix(i, "github.com/danielgtaylor/huma") || slice(i) == "httpapi"
			database := strings.HasPrefix(i, "github.com/jackc/pgx")
			adapter := slices.Contains(adapters, slice(i))
			switch {
			case web && !strings.HasPrefix(s.name(), "api"):
				t.Errorf("%s imports %s: HTTP belongs in api.go", s.path, i)
			case strings.HasPrefix(s.name(), "workflow") && (database || adapter || i == "net/http" || slice(i) == "postgres"):
				t.Errorf("%s imports %s: a workflow only orchestrates", s.path, i)
			case adapter && !strings.HasPrefix(s.name(), "activities") && !strings.HasPrefix(s.name(), "stage_"):
				t.Errorf("%s imports %s: effects belong in activities*.go, or in stage_*.go where a stage is", s.path, i)
			case strings.HasPrefix(i, "go.temporal.io") && !strings.HasPrefix(s.name(), "workflow") &&
				!strings.HasPrefix(s.name(), "activities"):
				t.Errorf("%s imports %s: Temporal belongs in workflow*.go and activities*.go", s.path, i)
			}
		}
	}
}

// rooms are the names of files of a slice; a room may be split into
// <room>_<part>.go. stage and rule are always split: one file each.
var rooms = regexp.MustCompile(
	`^(?:(?:doc|states|service|hooks|events|stats|metrics)|(?:commands|workflow|activities|api|store|cycle)(?:_[a-z_]+)?|(?:stage|rule)_[a-z0-9_]+)\.go$`)

// machinery are the files of slices that are no room and no pure rules, because
// they hold something that lasts while the process runs. Prefer a room.
var machinery = map[string]string{
	"agentgateway/gateway.go":       "the listener for nodes: what it is made of",
	"agentgateway/serve.go":         "the listener for nodes: TLS and the server",
	"agenttask/queue.go":            "the queue that held polls wait at",
	"agenttask/task.go":             "the noun, and whom it asks who owns a reserved task",
	"decommission/allocations.go":   "what tenants have on nodes, and whom it asks and tells in its transactions",
	"identity/oidc_provider.go":     "the connection to the identity provider",
	"job/runner.go":                 "what carries jobs out: what it is made of",
	"job/work.go":                   "what a stage may call, fences within transactions among it",
	"node/contacts.go":              "who was heard of since the last flush",
	"onboarding/preflight.go":       "the checks of a request, before anything is begun",
	"onboarding/preflight_cheap.go": "the checks of a request that every request runs",
	"onboarding/preflight_maas.go":  "the checks of a request's machines in MAAS",
	"signer/signer.go":              "the noun, and whom it asks in its transactions",
	"site/probe.go":                 "the checks of a site, side by side",
}

// A file of a slice is a room, or a noun with pure rules that touches neither the
// database nor the network, or is listed as machinery with what it holds.
func TestEveryFileIsARoom(t *testing.T) {
	listed := map[string]bool{}
	for _, s := range sources(t) {
		floor, own := place(s.path)
		if slices.Index(floors, floor) <= slices.Index(floors, "adapter") || s.test || s.made ||
			s.dir() != inside+floor+"/"+own || rooms.MatchString(s.name()) {
			continue
		}
		if machinery[own+"/"+s.name()] != "" {
			listed[own+"/"+s.name()] = true
			continue
		}
		for _, i := range s.imports {
			touches := strings.HasPrefix(i, "github.com/jackc/pgx") || strings.HasSuffix(i, own+"db") || i == "net/http" ||
				slices.Contains([]string{"postgres", "outbox", "httpapi", "secrets", "maas", "bmc", "ssh"}, slice(i))
			if touches {
				t.Errorf("%s imports %s and is no room: name it as one of docs/architecture.md#rooms", s.path, i)
			}
		}
	}
	for file := range machinery {
		if !listed[file] {
			t.Errorf("archtest lists %s as machinery, which is a room or does not exist: remove it", file)
		}
	}
}

// The simulated BMCs are allowed, too: what speaks IPMI there is OpenIPMI's
// ipmi_sim, a program of its own, so that BMCs are not ours on both ends. So is
// the rack, whose machines are LXD's or processes. A test may type into the
// shell of such a machine.
func TestOnlyTheLauncherAndTheAgentStartPrograms(t *testing.T) {
	shell := regexp.MustCompile(`"(?:/bin/)?(?:ba)?sh",\s*"-c"`)
	for _, s := range sources(t) {
		allowed := strings.HasPrefix(s.dir(), "stack") || s.dir() == "agent/internal/hostexec" ||
			s.dir() == "sim/maas/ipmi" ||
			s.dir() == "sim/rack" || s.test
		if !allowed && slices.Contains(s.imports, "os/exec") {
			t.Errorf("%s imports os/exec", s.path)
		}
		if !s.test && shell.MatchString(s.text) {
			t.Errorf("%s runs a shell string", s.path)
		}
	}
}

func TestNamesSayWhatThingsAre(t *testing.T) {
	banned := regexp.MustCompile(`^(utils?|common|helpers?|models?|types|managers?|misc)$`)
	for _, s := range sources(t) {
		for _, part := range strings.Split(strings.TrimSuffix(s.path, ".go"), "/") {
			if banned.MatchString(strings.TrimSuffix(part, "_test")) && !s.made {
				t.Errorf("%s: the name %q says nothing", s.path, part)
			}
		}
	}
}

func TestFilesAreShort(t *testing.T) {
	const most = 500
	for _, s := range sources(t) {
		if !s.made && s.lines > most {
			t.Errorf("%s has %d lines, more than %d", s.path, s.lines, most)
		}
	}
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	documented, packages := map[string]bool{}, map[string]bool{}
	for _, s := range sources(t) {
		if s.test || s.made {
			continue
		}
		packages[s.dir()] = true
		if s.file.Doc != nil && (strings.HasPrefix(s.file.Doc.Text(), "Package "+s.file.Name.Name) ||
			s.file.Name.Name == "main") {
			documented[s.dir()] = true
		}
	}
	for p := range packages {
		if !documented[p] {
			t.Errorf("package %s has no doc comment", p)
		}
	}
}

func TestTestsNeitherSleepNorSkip(t *testing.T) {
	for _, s := range sources(t) {
		if !s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := sel.X.(*ast.Ident)
			if ok && (x.Name == "time" && sel.Sel.Name == "Sleep" || (x.Name == "t" || x.Name == "tb" || x.Name == "b") &&
				strings.HasPrefix(sel.Sel.Name, "Skip")) {
				t.Errorf("%s uses %s.%s", s.path, x.Name, sel.Sel.Name)
			}
			return true
		})
	}
}

// A table has one writer: the slice whose queries change it.
func TestOneWriterPerTable(t *testing.T) {
	noChange := regexp.MustCompile(`(?i)--.*|FOR\s+(?:NO\s+KEY\s+)?UPDATE(?:\s+OF\s+[a-z_]+)?|DO\s+UPDATE`)
	change := regexp.MustCompile(`(?i)\b(?:INSERT\s+INTO|UPDATE|DELETE\s+FROM)\s+([a-z_]+)`)
	writers := map[string]map[string]bool{}
	note := func(table, writer string) {
		if writers[table] == nil {
			writers[table] = map[string]bool{}
		}
		writers[table][writer] = true
	}
	walk(t, func(path string) {
		own := slice(path)
		if own == "" || own == "postgres" || !strings.HasSuffix(path, "queries.sql") {
			return
		}
		b, err := os.ReadFile(filepath.Join("..", path))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range change.FindAllStringSubmatch(noChange.ReplaceAllString(string(b), ""), -1) {
			note(strings.ToLower(m[1]), own)
		}
	})
	if len(writers) < 5 {
		t.Fatalf("only %d tables found: the rule is broken", len(writers))
	}
	for table, by := range writers {
		if len(by) > 1 {
			t.Errorf("table %s is changed by %v: it must have one owner", table, by)
		}
	}
}

// The project speaks of itself alone: nothing outside the repository is needed
// or named.
func TestNothingPointsOutsideTheRepository(t *testing.T) {
	outside := regexp.MustCompile(
		`\.\./shared|/work/(?:main|shared|\.library)|/root/(?:go|\.)|proxy\.golang\.org|registry\.npmjs`)
	// Most files hold none of these, which is found out sooner than by the expression.
	hints := [][]byte{
		[]byte("../shared"), []byte("/work/"), []byte("/root/"), []byte("proxy.golang"), []byte("registry.npmjs"),
	}
	walk(t, func(path string) {
		switch filepath.Ext(path) {
		case ".go", ".md", ".sql", ".sh", ".yaml", ".yml", ".hcl", ".mod", ".ts", ".tsx", ".json", "":
		default:
			return
		}
		if strings.HasPrefix(path, "archtest/") {
			return
		}
		b, err := os.ReadFile(filepath.Join("..", path))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(hints, func(h []byte) bool { return bytes.Contains(b, h) }) {
			return
		}
		if m := outside.Find(b); m != nil {
			t.Errorf("%s names %s", path, m)
		}
	})
}
