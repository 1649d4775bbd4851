package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
)

// Every command has a help text and a golden file of it; no file is left over.
func TestHelp(t *testing.T) {
	want := map[string]bool{}
	walk(testRoot(t), func(cmd *cobra.Command) {
		if cmd.Hidden {
			return
		}
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".golden"
		want[name] = true
		t.Run(cmd.CommandPath(), func(t *testing.T) {
			if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
				t.Errorf("short help %q", cmd.Short)
			}
			got := newBench(t).run(append(strings.Fields(cmd.CommandPath())[1:], "--help")...)
			if got.exit != failure.OK || got.err != "" {
				t.Error(got)
			}
			golden(t, "help/"+name, got.stdout)
		})
	})
	files, err := os.ReadDir(filepath.Join("testdata", "help"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !want[f.Name()] {
			t.Errorf("testdata/help/%s is the help of no command", f.Name())
		}
	}
}

func TestHelpTopics(t *testing.T) {
	for _, topic := range []string{"exit-codes", "environment"} {
		if got := newBench(t).run("help", topic); got.exit != failure.OK || !strings.Contains(got.stdout, "GPUAAS_") &&
			!strings.Contains(got.stdout, "130") {
			t.Errorf("%s: %v", topic, got)
		}
	}
}

// The flags of a client do not clutter the help of the server.
func TestServerCommands(t *testing.T) {
	b := newBench(t)
	if got := b.run("--help"); !strings.Contains(got.stdout, "\n  config ") {
		t.Error(got.stdout)
	}
	for _, args := range [][]string{{"serve", "--help"}, {"config", "check", "--help"}} {
		if got := b.run(args...); strings.Contains(got.stdout, "--token-file") || !strings.Contains(got.stdout, "Usage:") {
			t.Error(got.stdout)
		}
	}
	if got := b.run("serve"); got.exit != failure.Unexpected || got.err != "error: unexpected EOF\n" {
		t.Errorf("%+v", got)
	}
	if got := b.run("config", "check"); got.exit != failure.OK {
		t.Errorf("%+v", got)
	}
	if got := b.run("serve", "-o", "json"); got.err != `{"detail":"unexpected EOF","code":"unexpected","exit_code":1}`+
		"\n" {
		t.Errorf("%+v", got)
	}
}

func TestMisuse(t *testing.T) {
	f := newFakeAPI(t)
	b := signedIn(t, f)
	for _, args := range []string{
		"nonsense", "tenant nonsense", "config nonsense", "serve x", "tenant list --nonsense", "tenant get", "tenant get a b",
		"tenant list -o xml",
		"tenant list --limit -1", "tenant list --limit x", "tenant update acme", "project list", "project create x",
		"project get training",
		"project get acme/training --tenant other", "member list", "member set ada@example.com --tenant acme",
		"member set ada --tenant acme --role x",
		"user update " + userID, "user update " + userID + " --enable --disable", "token revoke x",
		"token list --project acme/training",
		"token create x --expires-in soon", "token create x --expires-in 99999999999d", "token create x --expires-in -1h",
		"audit list --since tomorrow", "node show c07u31 --at tomorrow",
		"outbox discard " + eventID, "self-check cancel " + checkID, "self-check get x",
		"system status --watch --interval 1ms",
		"context use nowhere", "context set x", "context set ../x --url http://h", "context set x --url ftp://h",
		"context show nowhere",
		"login", "logout --revoke --local", "tenant list --token-file /nonexistent/token", "tenant list --context nowhere",
	} {
		environ := b.environ
		if args == "login" {
			b.environ = environ[:1]
		}
		if got := b.run(strings.Fields(args)...); got.exit != failure.Usage || !strings.HasPrefix(got.err, "error: ") ||
			got.stdout != "" {
			t.Errorf("%s: %+v", args, got)
		}
		b.environ = environ
	}
	for _, c := range f.received() {
		if !strings.HasPrefix(c.operation, "list-") && !strings.HasPrefix(c.operation, "get-") {
			t.Errorf("%s was called in spite of misuse", c.operation)
		}
	}
	if got := b.run("tenant", "creat"); !strings.Contains(got.err, "did you mean: gpuaas tenant create") {
		t.Error(got.err)
	}
	for args, want := range map[string]string{
		"tenant list --limt 3":        "did you mean: --limit; see: gpuaas tenant list --help\n",
		"tenant list --limit abc":     "error: --limit must be a whole number, not \"abc\"\n",
		"onboard --csv a --timeout 5": "must be a duration such as 30s, 15m or 12h, not \"5\"\n",
		"tenant list --colour red":    "see: gpuaas tenant list --help\n",
	} {
		got := b.run(strings.Fields(args)...)
		if got.exit != failure.Usage || !strings.Contains(got.err, want) ||
			strings.Contains(got.err, "did you mean") != strings.HasPrefix(want, "did you mean") {
			t.Errorf("%s: %+v", args, got)
		}
	}
}

func TestCompletion(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"prod", "staging"} {
		if got := b.run("context", "set", name, "--url", "https://"+name+".example.com"); got.exit != failure.OK {
			t.Fatal(got)
		}
	}
	for args, want := range map[string]string{
		"context use ":                     "prod\nstaging\n:4\n",
		"context use x ":                   ":4\n",
		"tenant list --context ":           "prod\nstaging\n:4\n",
		"tenant list -o ":                  "table\nwide\njson\nyaml\n:4\n",
		"service-account create x --role ": "project_admin\nproject_member\nproject_viewer\n:4\n",
	} {
		last := ""
		words := strings.Fields(args)
		got := b.run(append(append([]string{"__complete"}, words...), last)...)
		if got.stdout != want {
			t.Errorf("%q: %q, want %q", args, got.stdout, want)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if got := b.run("completion", shell); got.exit != failure.OK || len(got.stdout) < 1000 {
			t.Errorf("%s: %d bytes, exit %d", shell, len(got.stdout), got.exit)
		}
	}
}
