package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"gpuaas/cli/internal/failure"
)

func (b *bench) file() string { return filepath.Join(b.home, ".config", "gpuaas", "config.yaml") }

func (b *bench) tokenFile(token string) string {
	b.t.Helper()
	path := filepath.Join(b.t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return path
}

func (b *bench) must(args ...string) outcome {
	b.t.Helper()
	got := b.run(args...)
	if got.exit != failure.OK {
		b.t.Fatalf("%v: %+v", args, got)
	}
	return got
}

func TestContexts(t *testing.T) {
	b := newBench(t)
	b.must("context", "set", "prod", "--url", "https://prod.example.com", "--token-file", b.tokenFile(canary))
	b.must("context", "set", "local", "--url", "http://127.0.0.1:8080")
	golden(t, "output/context-list.golden", b.must("context", "list").stdout)
	golden(t, "output/context-list-json.golden", b.must("context", "list", "-o", "json").stdout)
	b.must("context", "use", "local")
	golden(t, "output/context-show.golden", b.must("context", "show").stdout)
	golden(t, "output/context-show-prod.golden", b.must("context", "show", "prod", "-o", "yaml").stdout)
	b.must("context", "delete", "local")
	if got := b.run("context", "show"); got.exit != failure.Usage || !strings.Contains(got.err, "gpuaas login --url URL") {
		t.Error(got)
	}
	if got := b.run("tenant", "list"); got.exit != failure.Usage ||
		!strings.Contains(got.err, "no control plane is chosen") {
		t.Error(got)
	}
}

func TestContextsAreForTheirOwnerOnly(t *testing.T) {
	b := newBench(t)
	b.must("context", "set", "prod", "--url", "https://prod.example.com", "--token-file", b.tokenFile(canary))
	for path, want := range map[string]os.FileMode{b.file(): 0o600, filepath.Dir(b.file()): 0o700} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
	}
	if err := os.Chmod(b.file(), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := b.must("context", "list"); !strings.Contains(got.err, "chmod 600") {
		t.Error("no warning that others can read the tokens:", got.err)
	}
	b.must("context", "use", "prod")
	if info, err := os.Stat(b.file()); err != nil || info.Mode().Perm() != 0o600 {
		t.Error("a change must make the file private again", info.Mode(), err)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(b.file()), ".config-*"))
	if err != nil || len(left) > 0 {
		t.Error("temporary files are left:", left, err)
	}
}

func TestContextsInXDGFolderAndThroughLink(t *testing.T) {
	b := newBench(t)
	xdg, dotfiles := t.TempDir(), filepath.Join(t.TempDir(), "dotfile.yaml")
	b.environ = append(b.environ, "XDG_CONFIG_HOME="+xdg)
	if err := os.WriteFile(dotfiles, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(xdg, "gpuaas"), 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(xdg, "gpuaas", "config.yaml")
	if err := os.Symlink(dotfiles, link); err != nil {
		t.Fatal(err)
	}
	b.must("context", "set", "prod", "--url", "https://prod.example.com")
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Error("the link was replaced", err)
	}
	if text, err := os.ReadFile(dotfiles); err != nil || !strings.Contains(string(text), "prod.example.com") {
		t.Error(string(text), err)
	}
}

func TestContextsAreChangedOneAtATime(t *testing.T) {
	b := newBench(t)
	var all sync.WaitGroup
	for i := range 8 {
		one := *b
		all.Go(func() {
			if got := one.run("context", "set", fmt.Sprintf("c%d", i), "--url", "https://example.com"); got.exit != failure.OK {
				t.Errorf("%+v", got)
			}
		})
	}
	all.Wait()
	if got := b.must("context", "list", "--no-headers"); strings.Count(got.stdout, "\n") != 8 {
		t.Error("a change was lost:\n" + got.stdout)
	}
}

func TestBrokenContexts(t *testing.T) {
	b := newBench(t)
	b.must("context", "set", "prod", "--url", "https://prod.example.com")
	for _, text := range []string{
		"contexts: {prod: {url: x, token: " + canary + ", new_thing: 1}}", "current: [" + canary,
		canary,
	} {
		if err := os.WriteFile(b.file(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"context", "list"}, {"context", "set", "x", "--url", "https://x"}, {"whoami"}} {
			got := b.run(args...)
			if got.exit != failure.Usage || strings.Contains(got.err, canary) || !strings.Contains(got.err, b.file()) {
				t.Errorf("%q: %+v", text, got)
			}
		}
		if kept, err := os.ReadFile(b.file()); err != nil || string(kept) != text {
			t.Error("the file was changed although it was not understood", err)
		}
	}
}

// Which control plane is asked, and with which token. The token of a context must never go
// anywhere else.
func TestChoice(t *testing.T) {
	prod, other := newFakeAPI(t), newFakeAPI(t)
	for name, c := range map[string]struct {
		environ []string
		args    []string
		in      string
		asked   *fakeAPI
		token   string
	}{
		"current":     {asked: prod, token: "prod-token"},
		"flag":        {args: []string{"--context", "other"}, asked: other, token: "other-token"},
		"environment": {environ: []string{"GPUAAS_CONTEXT=other"}, asked: other, token: "other-token"},
		"flag before environment": {
			environ: []string{"GPUAAS_CONTEXT=other"}, args: []string{"--context", "prod"},
			asked: prod, token: "prod-token",
		},
		"other URL takes no token": {environ: []string{"GPUAAS_URL=" + other.URL}, asked: other},
		"other URL and token": {
			environ: []string{"GPUAAS_URL=" + other.URL, "GPUAAS_TOKEN=t"}, asked: other,
			token: "t",
		},
		"same URL keeps token": {environ: []string{"GPUAAS_URL=" + prod.URL}, asked: prod, token: "prod-token"},
		"other token":          {environ: []string{"GPUAAS_TOKEN=t"}, asked: prod, token: "t"},
		"token from standard input": {
			environ: []string{"GPUAAS_TOKEN=t"}, args: []string{"--token-file", "-"},
			in: " in \n", asked: prod, token: "in",
		},
		"flag sets environment aside": {
			environ: []string{"GPUAAS_URL=" + other.URL, "GPUAAS_TOKEN=t"},
			args:    []string{"--context", "prod"}, asked: prod, token: "prod-token",
		},
		"relative XDG folder is ignored": {environ: []string{"XDG_CONFIG_HOME=relative"}, asked: prod, token: "prod-token"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.must("context", "set", "prod", "--url", prod.URL, "--token-file", b.tokenFile("prod-token"))
			b.must("context", "set", "other", "--url", other.URL, "--token-file", b.tokenFile("other-token"))
			b.environ, b.in = append(b.environ, c.environ...), c.in
			before := len(c.asked.received())
			b.must(append([]string{"tenant", "list"}, c.args...)...)
			calls := c.asked.received()
			if len(calls) != before+1 {
				t.Fatal("somebody else was asked")
			}
			if got := strings.TrimPrefix(calls[before].header.Get("Authorization"), "Bearer "); got != c.token {
				t.Errorf("token %q, want %q", got, c.token)
			}
		})
	}
}

func TestChangedURLDropsToken(t *testing.T) {
	b := newBench(t)
	b.must("context", "set", "prod", "--url", "https://prod.example.com", "--token-file", b.tokenFile(canary))
	b.must("context", "set", "prod", "--url", "https://elsewhere.example.com")
	if text, err := os.ReadFile(b.file()); err != nil || strings.Contains(string(text), canary) {
		t.Error("the token would go to another control plane", err)
	}
}

func TestTokenInTheClear(t *testing.T) {
	for url, warned := range map[string]bool{
		"http://10.0.0.1": true, "http://gpuaas.example.com": true, "http://127.0.0.1:1": false, "http://localhost": false,
		"http://[::1]:1": false, "https://gpuaas.example.com": false,
	} {
		b := newBench(t)
		got := b.must("context", "set", "x", "--url", url, "--token-file", b.tokenFile(canary))
		if strings.Contains(got.err, "not encrypted") != warned {
			t.Errorf("%s: %s", url, got.err)
		}
	}
}

func TestBadTokenFiles(t *testing.T) {
	b := newBench(t)
	for _, text := range []string{"", "two words", "a\nb", strings.Repeat("x", 5000), "esc\x1b"} {
		got := b.run("context", "set", "x", "--url", "https://x", "--token-file", b.tokenFile(text))
		if got.exit != failure.Usage || !strings.Contains(got.err, "holds no token") {
			t.Errorf("%.20q: %+v", text, got)
		}
	}
}
