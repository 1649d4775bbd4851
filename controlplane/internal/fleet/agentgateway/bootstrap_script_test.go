package agentgateway_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
)

// machine is a folder that stands for a fresh machine: what the script writes
// goes below it, and systemctl only notes how it was called.
type machine struct {
	t    *testing.T
	root string
}

func newMachine(t *testing.T) machine {
	t.Helper()
	m := machine{t: t, root: t.TempDir()}
	for _, name := range []string{"systemctl", "id"} {
		text := "#!/bin/sh\necho \"" + name + " $*\" >> " + m.path("calls") + "\n[ \"$1\" != is-active ]\n"
		if name == "id" {
			text = "#!/bin/sh\necho 0\n"
		}
		if err := os.MkdirAll(m.path("bin"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(m.path("bin/"+name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(m.path("tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m machine) path(p string) string { return filepath.Join(m.root, p) }

func (m machine) read(p string) string {
	m.t.Helper()
	b, err := os.ReadFile(m.path(p))
	if err != nil {
		m.t.Fatal(err)
	}
	return string(b)
}

var places = regexp.MustCompile(`(?m)^(etc|state|programs|units)=/`)

// run runs a shell text on the machine.
func (m machine) run(text string) (string, error) {
	m.t.Helper()
	text = places.ReplaceAllString(text, "$1="+m.root+"/")
	text = strings.ReplaceAll(text, "/run/", m.root+"/")
	file := m.path("script")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
	c := exec.CommandContext(m.t.Context(), "sh", file)
	c.Env = []string{"PATH=" + m.path("bin") + ":" + os.Getenv("PATH"), "TMPDIR=" + m.path("tmp")}
	out, err := c.CombinedOutput()
	return string(out), err
}

func (p *plane) script(t *testing.T, hostname string) (id.Node, string) {
	t.Helper()
	n, token := p.newNode(t, hostname)
	a := &agent{tb: t, p: p, node: n.ID, client: p.client(nil), instance: "m", session: "s"}
	text := a.send(http.MethodGet, agentwire.PathBootstrapScript, "mode=shell", nil, "Authorization",
		"Bearer "+token.Reveal()).want(http.StatusOK, "")
	return n.ID, string(text.body)
}

func TestTheScriptInstallsTheAgent(t *testing.T) {
	t.Parallel()
	p := newPlane(t, newEngine(t))
	node, script := p.script(t, "gpu-1")
	m := newMachine(t)
	for range 2 { // it may be run again
		out, err := m.run(script)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if !strings.Contains(out, "opt/gpuaas/agent/current/gpuaas-agent enroll --token-file ") {
			t.Errorf("not enrolled:\n%s", out)
		}
	}
	for link, want := range map[string]string{"opt/gpuaas/agent/current": version} {
		if got, err := os.Readlink(m.path(link)); err != nil || got != want {
			t.Errorf("%s leads to %q, %v", link, got, err)
		}
	}
	if _, err := os.Lstat(m.path("opt/gpuaas/agent/previous")); err == nil {
		t.Error("a version is its own predecessor")
	}
	env := m.read("etc/gpuaas/agent.env")
	for _, line := range []string{
		"GPUAAS_API_URL=" + p.url + "\n", "GPUAAS_NODE_ID=" + node.String() + "\n",
		"GPUAAS_ALLOW_IP_URL=true\n",
	} {
		if !strings.Contains(env, line) {
			t.Errorf("%q is missing in:\n%s", line, env)
		}
	}
	if strings.Contains(env, "@") {
		t.Errorf("something is not filled in:\n%s", env)
	}
	if m.read("etc/gpuaas/control-plane-ca.pem") != p.trust.ServerPEM() ||
		!strings.Contains(m.read("var/lib/gpuaas/verifiers.json"), "public_key") {
		t.Error("trust is not installed")
	}
	if calls := m.read("calls"); !strings.Contains(calls,
		"systemctl daemon-reload\nsystemctl enable gpuaas-node-agent.service\nsystemctl restart gpuaas-node-agent.service\n") {
		t.Errorf("calls:\n%s", calls)
	}
	if left, err := os.ReadDir(m.path("tmp")); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	for file, mode := range map[string]os.FileMode{
		"var/lib/gpuaas": 0o700, "etc/gpuaas/agent.env": 0o644,
		"opt/gpuaas/agent/" + version + "/gpuaas-agent": 0o755,
	} {
		if info, err := os.Stat(m.path(file)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v %v", file, info.Mode(), err)
		}
	}
}

func TestTheScriptKeepsTheVersionBefore(t *testing.T) {
	t.Parallel()
	p := newPlane(t, newEngine(t))
	_, script := p.script(t, "gpu-1")
	m := newMachine(t)
	if err := os.MkdirAll(m.path("opt/gpuaas/agent/1.0.0"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(m.path("opt/gpuaas/agent/1.0.0/gpuaas-agent"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("1.0.0", m.path("opt/gpuaas/agent/current")); err != nil {
		t.Fatal(err)
	}
	if out, err := m.run(script); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got, err := os.Readlink(m.path("opt/gpuaas/agent/previous")); err != nil || got != "1.0.0" {
		t.Errorf("previous is %q, %v", got, err)
	}
}

// oldAgent puts an agent of a node on the machine.
func (m machine) oldAgent(node string) {
	m.t.Helper()
	for _, folder := range []string{
		"opt/gpuaas/agent/1.0.0", "opt/gpuaas/agent/0.9.0", "etc/gpuaas",
		"etc/systemd/system",
	} {
		if err := os.MkdirAll(m.path(folder), 0o755); err != nil {
			m.t.Fatal(err)
		}
	}
	for file, text := range map[string]string{
		"opt/gpuaas/agent/1.0.0/gpuaas-agent": "#!/bin/sh\n", "etc/gpuaas/agent.env": "# old\nGPUAAS_NODE_ID=" + node + "\n",
		"etc/gpuaas/control-plane-ca.pem": "old CA\n", "etc/systemd/system/gpuaas-node-agent.service": "old unit\n",
	} {
		if err := os.WriteFile(m.path(file), []byte(text), 0o755); err != nil {
			m.t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"current": "1.0.0", "previous": "0.9.0"} {
		if err := os.Symlink(to, m.path("opt/gpuaas/agent/"+link)); err != nil {
			m.t.Fatal(err)
		}
	}
}

// state is everything of the agent that is on the machine, programs aside.
func (m machine) state() string {
	m.t.Helper()
	var out strings.Builder
	for _, link := range []string{"current", "previous"} {
		to, err := os.Readlink(m.path("opt/gpuaas/agent/" + link))
		out.WriteString(link + " " + to + " " + strconv.FormatBool(err == nil) + "\n")
	}
	for _, folder := range []string{"etc/gpuaas", "etc/systemd/system"} {
		files, err := os.ReadDir(m.path(folder))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			m.t.Fatal(err)
		}
		for _, f := range files {
			out.WriteString(folder + "/" + f.Name() + ":\n" + m.read(folder+"/"+f.Name()))
		}
	}
	return out.String()
}

// enrolmentFails makes a script fail where it enrols.
func enrolmentFails(script string) string {
	return strings.Replace(script, `"$programs/current/gpuaas-agent" enroll --token-file "$work/token"`, `false`, 1)
}

func TestTheScriptLeavesAnotherNodeAlone(t *testing.T) {
	t.Parallel()
	p := newPlane(t, newEngine(t))
	node, script := p.script(t, "gpu-1")
	m := newMachine(t)
	const other = "01900000-0000-7000-8000-0000000000ff"
	m.oldAgent(other)
	before := m.state()
	out, err := m.run(script)
	if err == nil || !strings.Contains(out, "this machine is node "+other) || !strings.Contains(out, "rm -rf ") {
		t.Errorf("%v\n%s", err, out)
	}
	if after := m.state(); after != before {
		t.Errorf("it was\n%s\nand is\n%s", before, after)
	}
	if _, err := os.Stat(m.path("calls")); err == nil {
		t.Errorf("services were touched:\n%s", m.read("calls"))
	}
	m = newMachine(t)
	m.oldAgent("'" + node.String() + "'")
	if out, err := m.run(script); err != nil {
		t.Errorf("the same node: %v\n%s", err, out)
	}
}

func TestTheScriptPutsBackWhatWasThereWhenEnrolmentFails(t *testing.T) {
	t.Parallel()
	p := newPlane(t, newEngine(t))
	node, script := p.script(t, "gpu-1")
	script = enrolmentFails(script)
	t.Run("an agent that runs", func(t *testing.T) {
		m := newMachine(t)
		m.oldAgent(node.String())
		if err := os.WriteFile(m.path("bin/systemctl"), []byte("#!/bin/sh\necho \"systemctl $*\" >> "+m.path("calls")+"\n"),
			0o755); err != nil {
			t.Fatal(err)
		}
		before := m.state()
		out, err := m.run(script)
		if err == nil || !strings.Contains(out, "could not be enrolled") {
			t.Errorf("%v\n%s", err, out)
		}
		if after := m.state(); after != before {
			t.Errorf("it was\n%s\nand is\n%s", before, after)
		}
		if calls := m.read("calls"); !strings.HasSuffix(calls,
			"systemctl stop gpuaas-node-agent.service\nsystemctl start gpuaas-node-agent.service\n") {
			t.Errorf("calls:\n%s", calls)
		}
	})
	t.Run("no agent", func(t *testing.T) {
		m := newMachine(t)
		before := m.state()
		if out, err := m.run(script); err == nil {
			t.Errorf("it succeeded:\n%s", out)
		}
		if after := m.state(); after != before {
			t.Errorf("it was\n%s\nand is\n%s", before, after)
		}
		if left, err := os.ReadDir(m.path("tmp")); err != nil || len(left) > 0 {
			t.Errorf("%v is left, %v", left, err)
		}
	})
}

func TestTheScriptInstallsNothingThatIsNotWhatWasAnnounced(t *testing.T) {
	t.Parallel()
	p := newPlane(t, newEngine(t))
	_, script := p.script(t, "gpu-1")
	digest := regexp.MustCompile(`(?m)^digest='[0-9a-f]{64}'$`)
	for name, text := range map[string]string{
		"another digest": digest.ReplaceAllString(script, "digest='"+strings.Repeat("0", 64)+"'"),
		"another CA": regexp.MustCompile(`(?s)-----BEGIN CERTIFICATE-----.*-----END CERTIFICATE-----`).
			ReplaceAllString(script, strings.TrimSpace(newAuthority(t, "x", nil).pem)),
		"half a script": strings.TrimSuffix(script, "main </dev/null\n"),
		"used token":    strings.ReplaceAll(script, "gpuaas_n", "gpuaas_nX"),
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			out, err := m.run(text)
			if err == nil && name != "half a script" {
				t.Errorf("it succeeded:\n%s", out)
			}
			for _, path := range []string{"opt", "etc", "calls"} {
				if _, err := os.Stat(m.path(path)); err == nil {
					t.Errorf("%s is there:\n%s", path, out)
				}
			}
		})
	}
}

func TestThePrintedCommandFetchesAndRunsTheScript(t *testing.T) {
	t.Parallel()
	p := newPlane(t, newEngine(t))
	_, token := p.newNode(t, "gpu-1")
	command, err := p.renderer.Command(token)
	if err != nil {
		t.Fatal(err)
	}
	m := newMachine(t)
	fetched := strings.TrimSuffix(command.Reveal(), "| sh") + "| cat > " + m.path("fetched") + "\n"
	if out, err := m.run(fetched); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := m.run(m.read("fetched")); err != nil || !strings.Contains(out, "the agent runs") {
		t.Fatalf("%v\n%s", err, out)
	}
	sum := sha256.Sum256([]byte(p.trust.ServerPEM()))
	if !strings.Contains(command.Reveal(), hex.EncodeToString(sum[:])) {
		t.Error("the CA is not pinned")
	}
	forged := strings.Replace(fetched, hex.EncodeToString(sum[:]), strings.Repeat("0", 64), 1)
	if out, err := m.run(forged); err == nil {
		t.Errorf("a CA with another fingerprint was believed:\n%s", out)
	}
}

func TestTheFirstBootRunsTheSameScript(t *testing.T) {
	t.Parallel()
	p := newPlane(t, newEngine(t))
	n, token := p.newNode(t, "gpu-1")
	a := &agent{tb: t, p: p, node: n.ID, client: p.client(nil), instance: "m", session: "s"}
	userData := a.send(http.MethodGet, agentwire.PathBootstrapScript, "mode=cloud_init", nil, "Authorization",
		"Bearer "+token.Reveal()).want(http.StatusOK, "")
	a.send(http.MethodGet, agentwire.PathBootstrapScript, "mode=floppy", nil, "Authorization", "Bearer "+token.Reveal()).
		want(http.StatusBadRequest, "invalid_request")
	var read struct {
		WriteFiles []struct{ Path, Content string } `yaml:"write_files"`
	}
	if err := yaml.Unmarshal(userData.body, &read); err != nil {
		t.Fatal(err)
	}
	m := newMachine(t)
	var boot string
	for _, f := range read.WriteFiles {
		path := m.path(strings.TrimPrefix(f.Path, "/run/"))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(f.Content), 0o600); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(f.Path, ".sh") {
			boot = f.Content
		}
	}
	// The script that it runs writes to the real places, so here it is only shown.
	boot = strings.Replace(boot, `sh "$work/bootstrap"`, `cat "$work/bootstrap"`, 1)
	out, err := m.run(boot)
	if err != nil || !strings.Contains(out, "Makes this machine a gpuaas node") {
		t.Errorf("%v\n%s", err, out)
	}
	for _, f := range []string{"gpuaas-bootstrap/ca.pem", "gpuaas-bootstrap/authorization"} {
		if _, err := os.Stat(m.path(f)); err == nil {
			t.Errorf("%s is left", f)
		}
	}
}
