package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/testkit"
)

// opensTerminal types into a session of an allocation user, from the command
// line as people do.
func (n *rackNode) opensTerminal(t *testing.T) {
	eve := n.tenant.rents(t, n.plane, n.id, "user")
	cmd := exec.CommandContext(t.Context(), program, "terminal", n.id, "--user", eve.Username)
	cmd.Env = append(neutralEnv(), n.plane.cli(t)...)
	cmd.Stdin = strings.NewReader("id -u\nexit\n")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil || !strings.Contains(out.String(), n.run(t, "id", "-u", eve.Username)) {
		t.Errorf("terminal: %v\n%s%s", err, out.String(), errs.String())
	}
	if _, errs, code := command(t, n.plane.cli(t), "terminal", n.id, "--user", "root"); code == 0 {
		t.Errorf("a terminal of root was opened: %s", errs)
	}
	n.tenant.leaves(t, n.plane, eve)
}

// recovers loses its identity and gets it back with a recovery command.
func (n *rackNode) recovers(t *testing.T) {
	n.plane.do(t, http.MethodPost, "/api/v1/admin/nodes/"+n.id+"/revoke-identity", map[string]string{"reason": "test"},
		http.StatusNoContent, nil)
	testkit.Succeeds(t, "the agent to say why it is refused", time.Minute, func() error {
		// its exit code tells the same
		out, _ := n.machine.Exec(t.Context(), nil, "/opt/gpuaas/agent/current/gpuaas-agent", "status", "--json")
		var status struct{ Code string }
		if err := json.Unmarshal([]byte(out), &status); err != nil {
			return err
		}
		if status.Code != agentwire.CodeCertificateRevoked {
			return errors.New(out)
		}
		return nil
	})
	var again struct{ Command string }
	n.plane.do(t, http.MethodPost, "/api/v1/admin/nodes/"+n.id+"/bootstrap", map[string]string{"purpose": "recovery"},
		http.StatusOK, &again)
	if out, err := n.machine.Exec(t.Context(), strings.NewReader(again.Command+"\n"), "sh"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var beat agentwire.HeartbeatOutput
	n.does(t, agentwire.TypeHeartbeatCheck, agentwire.HeartbeatParams{}, &beat)
	// A command works once: the second time there is no script to run. The shell
	// at the end of the pipe has nothing to complain about.
	if out, _ := n.machine.Exec(t.Context(), strings.NewReader(again.Command+"\n"), "sh"); strings.Contains(out,
		"installing") {
		t.Errorf("the command worked a second time:\n%s", out)
	}
	n.does(t, agentwire.TypeHeartbeatCheck, agentwire.HeartbeatParams{}, &beat)
}
