package simcmd_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gpuaas/sim/maas/simcmd"
)

func TestItPrintsWhereItIsAndRunsUntilItIsStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, in := io.Pipe()
	c := simcmd.Command()
	c.SetArgs([]string{
		"--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--machines", "2", "--timing", "zero",
		"--image", "custom/gpuaas-h200",
	})
	c.SetOut(in)
	ended := make(chan error, 1)
	go func() { ended <- c.ExecuteContext(ctx) }()
	b := make([]byte, 4096)
	text := ""
	for !strings.Contains(text, "Control API") {
		n, err := out.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		text += string(b[:n])
	}
	m := regexp.MustCompile(`MAAS URL: +(\S+)\nAPI token: +\S{18}:\S{18}:\S{32}\n`).FindStringSubmatch(text)
	if m == nil || !strings.Contains(text, "Machines:       2") {
		t.Fatalf("printed %q", text)
	}
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, m[1]+"/api/2.0/version/", nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := http.DefaultClient.Do(q)
	if err != nil || p.StatusCode != http.StatusOK {
		t.Fatalf("version: %v %v", p, err)
	}
	p.Body.Close()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestBadFlagsAreExplained(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("faults: [{fault: explode}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	for complaint, args := range map[string][]string{
		`timing "often"`:            {"--timing", "often"},
		"--speed is positive":       {"--speed", "0"},
		`shape "abacus"`:            {"--shape", "abacus"},
		`not "broken"`:              {"--stage", "broken"},
		"open scenario":             {"--scenario", "nowhere.yaml"},
		`fault "explode"`:           {"--scenario", bad},
		"listen":                    {"--listen", "256.0.0.1:1"},
		"unknown command \"extra\"": {"extra"},
	} {
		c := simcmd.Command()
		c.SetArgs(append([]string{"--machines", "1", "--timing", "zero"}, args...))
		c.SetOut(&bytes.Buffer{})
		c.SetErr(&bytes.Buffer{})
		if err := c.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), complaint) {
			t.Errorf("%v: %v", args, err)
		}
	}
}
