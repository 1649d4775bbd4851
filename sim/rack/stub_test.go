package rack

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuaas/testkit"
)

// TestMain is also the agent of process machines, and the process that a test
// kills.
func TestMain(m *testing.M) {
	switch {
	case filepath.Base(os.Args[0]) == "gpuaas-agent":
		os.Exit(stubAgent(os.Args[1:]))
	case len(os.Args) > 1 && os.Args[1] == "stub-agent":
		os.Exit(stubAgent(os.Args[2:]))
	case os.Getenv("GPUAAS_TEST_RACK_TO_KILL") != "":
		os.Exit(serveRack(os.Getenv("GPUAAS_TEST_RACK_TO_KILL")))
	}
	os.Exit(m.Run())
}

// stubAgent writes down what it is asked; "run" lasts until it is ended.
func stubAgent(args []string) int {
	root := ""
	for i, a := range args {
		if a == "--host-root" {
			root = args[i+1]
		}
	}
	note := func(format string, v ...any) {
		f, err := os.OpenFile(filepath.Join(root, "var/log/agent"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			_, _ = fmt.Fprintf(f, format+"\n", v...)
			_ = f.Close()
		}
	}
	switch args[0] {
	case "enroll":
		token, err := os.ReadFile(args[len(args)-1])
		if err != nil || strings.TrimSpace(string(token)) != "the-token" {
			fmt.Fprintln(os.Stderr, "token refused")
			return 4
		}
		note("enrolled")
	case "guard":
		note("guarded")
	case "run":
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, syscall.SIGTERM)
		note("runs as %d", os.Getpid())
		<-ended
		note("ended")
	}
	return 0
}

// diary is what the stub wrote on a machine.
func diary(m Machine) []string {
	f, err := os.Open(filepath.Join(m.(*agentHost).root(), "var/log/agent"))
	if err != nil {
		return nil
	}
	defer f.Close()
	var lines []string
	for s := bufio.NewScanner(f); s.Scan(); {
		lines = append(lines, s.Text())
	}
	return lines
}

// entries waits until the diary has n lines that begin with word.
func entries(ctx context.Context, t *testing.T, m Machine, word string, n int) []string {
	t.Helper()
	var found []string
	testkit.Eventually(t, fmt.Sprintf("%d times %q in the diary of %s", n, word, m.Name()), func() bool {
		found = nil
		for _, line := range diary(m) {
			if strings.HasPrefix(line, word) {
				found = append(found, line)
			}
		}
		return len(found) >= n
	})
	return found
}

func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}
