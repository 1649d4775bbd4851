package archtest

import (
	"os/exec"
	"strings"
	"testing"
)

// The agent runs as root on other people's machines, so it links few packages,
// and none of the control plane, its engines or the simulators.
func TestTheAgentIsLinkedFromLittle(t *testing.T) {
	banned := []string{
		"github.com/jackc/pgx", "go.temporal.io", "github.com/nats-io", "github.com/danielgtaylor/huma",
		"github.com/spf13/cobra",
		"google.golang.org", "go.opentelemetry.io", module + "/controlplane", module + "/sim", module + "/stack", module +
			"/cli",
		module + "/contract/apiclient", module + "/agent/internal/planetest", "testing", "plugin",
	}
	allowed := []string{
		module + "/agent", module + "/cmd/gpuaas-agent", module + "/contract/agentwire",
		"github.com/coder/websocket", "github.com/creack/pty", "golang.org/x/sys",
	}
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", module+"/cmd/gpuaas-agent")
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list what the agent is linked from: %v", err)
	}
	packages := strings.Fields(string(out))
	if len(packages) < 50 {
		t.Fatalf("only %d packages found: the rule is broken", len(packages))
	}
	below := func(p string, roots []string) bool {
		for _, root := range roots {
			if p == root || strings.HasPrefix(p, root+"/") {
				return true
			}
		}
		return false
	}
	for _, p := range packages {
		first, _, _ := strings.Cut(p, "/")
		ours := strings.Contains(first, ".") || first == module
		if below(p, banned) || ours && !below(p, allowed) {
			t.Errorf("gpuaas-agent is linked from %s", p)
		}
	}
}
