package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuaas/stack"
	"gpuaas/stack/stacktest"
	"gpuaas/testkit"
)

// simulator is a MAAS region that runs as a process of its own.
type simulator struct {
	*process
	url, token, operatorToken, control string
}

func startSimulator(t *testing.T, more ...string) *simulator {
	t.Helper()
	args := append([]string{"sim", "maas", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"}, more...)
	s := &simulator{process: begin(t, nil, args...)}
	testkit.Succeeds(t, "the simulator to say where it is", time.Minute, func() error {
		if s.said("Control API") == "" {
			return errors.New("it does not")
		}
		return nil
	})
	s.url, s.token, s.operatorToken, s.control = s.said("MAAS URL"), s.said("API token"), s.said("Operator token"),
		s.said("Control API")
	return s
}

// said is what the simulator printed after a word.
func (s *simulator) said(what string) string {
	m := regexp.MustCompile(regexp.QuoteMeta(what) + `: +(\S+)`).FindStringSubmatch(s.output.String())
	if m == nil {
		return ""
	}
	return m[1]
}

// tell speaks to the control API, which makes things go wrong.
func (s *simulator) tell(t *testing.T, method, path, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.control+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := newHTTP().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode >= http.StatusBadRequest {
		var text bytes.Buffer
		_, _ = text.ReadFrom(answer.Body)
		t.Fatalf("%s %s: %s %s", method, path, answer.Status, text.String())
	}
}

// TestSite is the day an operator connects a MAAS region: wrong credentials are
// refused, right ones make every check green, and what breaks is named.
func TestSite(t *testing.T) {
	t.Parallel()
	engines := stacktest.Start(t, stack.Options{})
	sim := startSimulator(t, "--machines", "20")
	p := startPlane(t, engines.Endpoints(), planeOptions{env: []string{onLoopback(t, sim.url)}})
	dir := t.TempDir()
	cli := p.cli(t)
	succeed(t, cli, "site", "create", "dc1", "--region", "eu-1", "--url", sim.url,
		"--pxe-iface", "eno1", "--node-pxe-iface", "eno8303", "--pxe-vlan", "0")

	doctor := func(env []string) (string, int) {
		out, _, code := command(t, env, "site", "doctor", "dc1")
		return out, code
	}
	if out, code := doctor(cli); code != 8 || !strings.Contains(out, "✓ reachable") ||
		!strings.Contains(out, "✗ token_valid") {
		t.Errorf("doctor without a token: exit code %d\n%s", code, out)
	}
	for what, token := range map[string]string{
		"wrong": "a:b:c", "not an administrator's": sim.operatorToken,
		"nonsense": "x",
	} {
		file := privateFile(t, dir, "bad-token", token)
		if _, said, code := command(t, cli, "site", "credentials", "set", "dc1", "--maas-token-file", file); code != 2 ||
			!strings.Contains(said, "nothing was written") && what != "nonsense" {
			t.Errorf("token that is %s: exit code %d\n%s", what, code, said)
		}
	}
	succeed(t, cli, "site", "credentials", "set", "dc1", "--maas-token-file", privateFile(t, dir, "token", sim.token))
	if out, code := doctor(cli); code != 0 || strings.Contains(out, "✗") {
		t.Fatalf("doctor with the right token: exit code %d\n%s", code, out)
	}
	importRoCE(t, cli, dir)
	breakAndDiagnose(t, sim, func() (string, int) { return doctor(cli) })
	keptSecret(t, p, engines, sim.token)
	sim.end(t, syscall.SIGINT)
	if out, code := doctor(cli); code != 8 || !strings.Contains(out, "✗ reachable") {
		t.Errorf("doctor of a region that is gone: exit code %d\n%s", code, out)
	}
}

func importRoCE(t *testing.T, cli []string, dir string) {
	t.Helper()
	var rows strings.Builder
	rows.WriteString("hostname,interface,ipv4_cidr\n")
	for i := range 8 {
		fmt.Fprintf(&rows, "gpu-00001,enp%ds0np0,10.224.0.%d/24\n", 28+i, 10+i)
	}
	good := rows.String()
	bad := good + "gpu-00001,enp99s0np0,not-an-address\n"
	if _, said, code := command(t, cli, "site", "roce", "import", "dc1", privateFile(t, dir, "bad.csv", bad)); code != 2 ||
		!strings.Contains(said, "line 10") {
		t.Errorf("a file with a bad row: exit code %d\n%s", code, said)
	}
	if listed := succeed(t, cli, "site", "roce", "list", "dc1", "--no-headers"); strings.TrimSpace(listed) != "" {
		t.Errorf("a refused file left rows behind:\n%s", listed)
	}
	succeed(t, cli, "site", "roce", "import", "dc1", privateFile(t, dir, "good.csv", good))
	if listed := succeed(t, cli, "site", "roce", "list", "dc1", "--no-headers"); strings.Count(listed, "gpu-00001") != 8 {
		t.Errorf("want eight rows:\n%s", listed)
	}
}

// breakAndDiagnose breaks the region in several ways; each time the doctor says
// what is wrong and what to do, and is content again afterwards.
func breakAndDiagnose(t *testing.T, sim *simulator, doctor func() (string, int)) {
	t.Helper()
	for what, c := range map[string]struct{ path, body, check string }{
		"racks are dead": {"/racks/dead", "", "rack_controllers"},
		"an HTML error page": {
			"/faults",
			`{"fault":"error_before","operation":"version.get","status":502,"text":"<html>Bad Gateway</html>","content_type":"text/html"}`, "reachable",
		},
		"the answer is cut":   {"/faults", `{"fault":"truncate","operation":"version.get"}`, "reachable"},
		"the connection ends": {"/faults", `{"fault":"drop","operation":"version.get"}`, "reachable"},
		"images cannot be listed": {
			"/faults", `{"fault":"error_before","operation":"boot-resources.get","status":500,"text":"boom"}`, "images",
		},
	} {
		sim.tell(t, http.MethodPost, c.path, c.body)
		out, code := doctor()
		if code != 8 || !strings.Contains(out, "✗ "+c.check) {
			t.Errorf("%s: exit code %d, want %s to be red\n%s", what, code, c.check, out)
		}
		if strings.HasPrefix(c.path, "/racks") {
			sim.tell(t, http.MethodPost, "/racks/healthy", "")
		} else {
			sim.tell(t, http.MethodDelete, "/faults", "")
		}
		if out, code := doctor(); code != 0 {
			t.Errorf("%s, mended: exit code %d\n%s", what, code, out)
		}
	}
}

// keptSecret looks for the token in every database and in the log.
func keptSecret(t *testing.T, p *plane, engines *stack.Stack, token string) {
	t.Helper()
	_, secret, _ := strings.Cut(token, ":")
	for _, part := range append(strings.Split(secret, ":"), token) {
		if strings.Contains(p.output.String(), part) {
			t.Error("the log holds a part of the token")
		}
	}
	s := &search{secrets: map[string]string{
		"MAAS token":        token,
		"MAAS token secret": token[strings.LastIndex(token, ":")+1:],
	}}
	s.inDatabases(t, engines.SuperuserURL())
}
