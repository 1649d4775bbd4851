package cli

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets scripts run this test program as the command gpuaas.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"gpuaas": func() {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
			defer stop()
			os.Exit(Main(ctx, Program{
				Version: "1.2.3", Args: os.Args[1:], In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Environ: os.Environ(),
				Server: serverCommands(),
			}))
		},
	})
}

type fakeKey struct{}

// The scripts below testdata/script run the whole program, as a person would.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			f := newFakeAPI(e.T().(testing.TB))
			f.on("get-tenant", refuse(404, "not_found", "there is no such tenant", "see which there are: gpuaas tenant list"))
			f.on("update-user", refuse(412, "stale_version", "somebody else changed it", "read it again"))
			f.on("get-self-check", answer(200, failed))
			f.on("list-users", refuse(403, "forbidden", "you may not do this", "ask an administrator"))
			f.on("get-metrics", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
			e.Values[fakeKey{}] = f
			e.Setenv("URL", f.URL)
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("XDG_CONFIG_HOME", "")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			// called OPERATION: wait until the API was asked for it.
			"called": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Value(fakeKey{}).(*fakeAPI).await(args[0])
			},
			// exits CODE ARGS...: run gpuaas and expect an exit code.
			"exits": func(ts *testscript.TestScript, _ bool, args []string) {
				err := ts.Exec("gpuaas", args[1:]...)
				code := "0"
				if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
					code = strconv.Itoa(exit.ExitCode())
				} else if err != nil {
					ts.Fatalf("%v", err)
				}
				if code != args[0] {
					ts.Fatalf("exit code %s, want %s", code, args[0])
				}
			},
		},
	})
}
