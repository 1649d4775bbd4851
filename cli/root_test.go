package cli

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
)

// pathOf is the command of a tree that arguments lead to.
func pathOf(t *testing.T, root *cobra.Command, args []string) string {
	t.Helper()
	cmd, _, err := root.Find(args)
	if err != nil {
		t.Fatal(err)
	}
	return cmd.CommandPath()
}

func testRoot(t *testing.T) *cobra.Command {
	t.Helper()
	b := newBench(t)
	return newApp(Program{Version: "1.2.3", Server: serverCommands()}, b.around).root()
}

func declaredOperations(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	walk(testRoot(t), func(cmd *cobra.Command) {
		if text := cmd.Annotations[operations]; text != "" {
			out[cmd.CommandPath()] = strings.Fields(text)
		}
	})
	return out
}

func walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, c := range cmd.Commands() {
		walk(c, visit)
	}
}

// browsersOnly are operations that are of no use to a program: their answer is a cookie.
var browsersOnly = []string{"create-session"}

// providersOnly are operations that only others can sign.
var providersOnly = []string{"take-payment-event"}

// aliases are other paths to what a command does already.
var aliases = []string{"create-allocation-flat", "get-allocation", "release-allocation"}

// A new operation needs a command.
func TestEveryOperationHasACommand(t *testing.T) {
	declared := map[string]bool{}
	for _, ops := range declaredOperations(t) {
		for _, op := range ops {
			declared[op] = true
		}
	}
	for _, r := range contractRoutes(t) {
		if !declared[r.id] && !slices.Contains(slices.Concat(browsersOnly, providersOnly, aliases), r.id) {
			t.Errorf("operation %s (%s %s) has no command: see docs/how-to/add-a-cli-command.md", r.id, r.method,
				strings.Join(r.parts, "/"))
		}
		delete(declared, r.id)
	}
	for op := range declared {
		t.Errorf("a command says that it uses %s, which is not in the contract", op)
	}
}

func TestBodies(t *testing.T) {
	for args, want := range map[string]string{
		"tenant create acme":                                          `{"name":"acme","slug":"acme"}`,
		"user update " + userID + " --enable":                         `{"disabled":false}`,
		"user update " + userID + " --name A --platform-role auditor": `{"name":"A","platform_role":"auditor"}`,
		"user create a@example.com":                                   `{"email":"a@example.com"}`,
		"token create t --expires-in 12h --scope a,b --scope c":       `{"expires_in":43200,"name":"t","scopes":["a","b","c"]}`,
		"token create t --expires-in 2d":                              `{"expires_in":172800,"name":"t"}`,
		"service-account update ci --project acme/training --disable": `{"status":"disabled"}`,
		"self-check cancel " + checkID + " --reason slow":             `{"reason":"slow"}`,
		"node hold c07u31 --reason fan":                               `{"reason":"fan"}`,
		"node unhold c07u31":                                          `{"schedulable":true}`,
		"node unhold c07u31 --hold complaint --reason fixed":          `{"reason":"fixed"}`,
		"node quarantine c07u31 --reason fan":                         `{"reason":"fan"}`,
		"node return c07u31 --reason fixed":                           `{"reason":"fixed"}`,
		"node task run c07u31 a.b --param x=y --param n=3 --reason r": `{"params":{"n":3,"x":"y"},"reason":"r","type":"a.b"}`,
	} {
		f := newFakeAPI(t)
		if got := signedIn(t, f).run(strings.Fields(args)...); got.exit != failure.OK {
			t.Errorf("%s: %v", args, got)
			continue
		}
		calls := f.received()
		if got := calls[len(calls)-1].body; got != want {
			t.Errorf("%s: sent %s, want %s", args, got, want)
		}
	}
}

func TestAuditFilters(t *testing.T) {
	f := newFakeAPI(t)
	signedIn(t, f).run("audit", "list", "--action", "a.b", "--actor", "x", "--target-kind", "k", "--target", "t",
		"--result", "denied",
		"--correlation-id", "c", "--since", "1h", "--until", "2026-01-01T00:00:00Z", "--limit", "7")
	want := "action=a.b&actor=x&correlation_id=c&page_size=7&result=denied&since=2026-03-04T04%3A09%3A07Z&target=t&target_kind=k&until=2026-01-01T00%3A00%3A00Z"
	if got := f.received()[0].query; !sameQuery(got, want) {
		t.Errorf("asked %s, want %s", got, want)
	}
}

// People come first, and everybody where something is named.
func TestWhoseAuditEntriesAreShown(t *testing.T) {
	const people, all = "actor_kinds=user&actor_kinds=anonymous&page_size=7", "page_size=7"
	for args, want := range map[string]string{
		"": people, "--by people": people, "--by all": all,
		"--target t": "target=t&" + all, "--by people --target t": "target=t&" + people,
		"--by programs": "actor_kinds=service_account&" + all, "--by platform": "actor_kinds=system&actor_kinds=node&" + all,
		"--action node.trust_refused": "action=node.trust_refused&" + all,
	} {
		f := newFakeAPI(t)
		got := signedIn(t, f).run(append([]string{"audit", "list", "--limit", "7"}, strings.Fields(args)...)...)
		if asked := f.received(); len(asked) != 1 || !sameQuery(asked[0].query, want) {
			t.Errorf("%q asked %v, want %s: %v", args, asked, want, got)
		}
	}
	if got := signedIn(t, newFakeAPI(t)).run("audit", "list", "--by", "robots"); got.exit != failure.Usage ||
		!strings.Contains(got.err, "all, people, platform, programs") {
		t.Errorf("%+v", got)
	}
}

func sameQuery(a, b string) bool {
	x, y := strings.Split(a, "&"), strings.Split(b, "&")
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}

func TestPagesAreFollowed(t *testing.T) {
	second := strings.Replace(tenantJSON, "acme", "other", 1)
	byCursor := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("cursor") == "" {
			answer(200, `{"items":[`+tenantJSON+`],"next_cursor":"n1"}`)(w, r)
			return
		}
		pageOf(second)(w, r)
	}
	f := newFakeAPI(t)
	f.on("list-tenants", byCursor)
	b := signedIn(t, f)
	if got := b.run("tenant", "list"); !strings.Contains(got.stdout, "other") || strings.Contains(got.err, "more") {
		t.Error(got)
	}
	if got := b.run("tenant", "get", "other"); got.exit != failure.OK {
		t.Error("a slug on the second page was not found:", got)
	}
	if got := b.run("tenant", "list", "--limit", "1"); strings.Contains(got.stdout, "other") ||
		!strings.Contains(got.err, "there are more") {
		t.Error(got)
	}
	f.on("list-tenants", answer(200, `{"items":[],"next_cursor":"n1"}`))
	if got := b.run("tenant", "list"); got.exit != failure.Unexpected {
		t.Error("an endless list must end:", got)
	}
}
