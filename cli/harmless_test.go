package cli

import (
	"strings"
	"testing"
	"time"

	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/output"
)

func TestWhen(t *testing.T) {
	a := newApp(Program{}, frame.Surroundings{Now: now, Zone: time.FixedZone("CET", 3600)})
	for d, want := range map[time.Duration]string{
		0: "06:09 (0s ago)", -59 * time.Second: "06:08 (59s ago)", -time.Hour: "05:09 (1h ago)", -47 * time.Hour: "(47h ago)",
		-49 * time.Hour: "(2d ago)",
		time.Hour:       "07:09 (in 1h)", 30 * 24 * time.Hour: "(in 30d)",
	} {
		if got := a.When(now().Add(d)); !strings.HasSuffix(got, want) {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
	if a.When(time.Time{}) != "" || a.Whenever(nil) != "" {
		t.Error("no time must show as nothing")
	}
}

// What a server sends cannot take over a terminal.
func TestHostileServer(t *testing.T) {
	f := newFakeAPI(t)
	f.on("list-tenants", pageOf(strings.Replace(tenantJSON, "Acme Inc.", `\u001b]0;owned\u0007\u202e\u009b2J`, 1)))
	b := signedIn(t, f)
	for _, format := range output.Formats() {
		got := b.must("tenant", "list", "-o", format)
		if strings.ContainsAny(got.stdout, "\x1b\x07\u009b") || format != output.YAML &&
			strings.Contains(got.stdout, "\u202e") {
			t.Errorf("%s: %q", format, got.stdout)
		}
	}
}
