package rack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"go.yaml.in/yaml/v3"

	"gpuaas/contract/agentwire"
)

// plane is a control plane that gives away an agent package.
type plane struct {
	*httptest.Server
	content []byte
	digest  string
	refuse  func(call int32) int // status instead of the package; 0 is none
	calls   atomic.Int32
}

func newPlane(t *testing.T, without string) *plane {
	t.Helper()
	var content bytes.Buffer
	zip := gzip.NewWriter(&content)
	archive := tar.NewWriter(zip)
	for name, text := range map[string]string{
		"gpuaas-agent":   "#!/bin/sh\nexec '" + os.Args[0] + "' stub-agent \"$@\"\n",
		"gpuaas-gpu":     "#!/bin/sh\n",
		"agent.env":      "GPUAAS_API_URL=@API_URL@\nGPUAAS_ALLOW_IP_URL=@ALLOW_IP_URL@\nGPUAAS_NODE_ID=@NODE_ID@\n",
		"verifiers.json": "{}\n",
		agentUnit:        "[Unit]\n",
	} {
		if name == without {
			continue
		}
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if archive.Close() != nil || zip.Close() != nil {
		t.Fatal("package cannot be written")
	}
	sum := sha256.Sum256(content.Bytes())
	p := &plane{
		content: content.Bytes(), digest: "sha256:" + hex.EncodeToString(sum[:]),
		refuse: func(int32) int { return 0 },
	}
	p.Server = httptest.NewTLSServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *plane) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if status := p.refuse(p.calls.Add(1)); status != 0 {
		http.Error(w, "refused", status)
		return
	}
	if r.URL.Path != agentwire.PathPackage || !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") {
		http.Error(w, "what?", http.StatusNotFound)
		return
	}
	w.Header().Set("Gpuaas-Package-Digest", p.digest)
	w.Header().Set("Gpuaas-Package-Version", "1.2.3")
	_, _ = w.Write(p.content)
}

// userData has the form of the control plane's own.
func (p *plane) userData(t *testing.T, token string) []byte {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw})
	text, err := yaml.Marshal(map[string]any{
		"write_files": []map[string]string{
			{"path": "/run/gpuaas-bootstrap/ca.pem", "permissions": "0600", "content": string(ca)},
			{"path": "/run/gpuaas-bootstrap/authorization", "permissions": "0600", "content": "Authorization: Bearer " + token +
				"\n"},
			{"path": "/run/gpuaas-bootstrap/bootstrap.sh", "permissions": "0600", "content": "curl -o x '" +
				p.URL + agentwire.PathBootstrapScript + "'\n"},
		},
		"runcmd": [][]string{{"sh", "/run/gpuaas-bootstrap/bootstrap.sh"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte("#cloud-config\n"), text...)
}

func (p *plane) boot(ctx context.Context, t *testing.T, token string) (Machine, error) {
	t.Helper()
	m, err := openProcesses(t, t.TempDir()).Machine(ctx, Spec{Name: "m1", UserData: p.userData(t, token)})
	if err != nil {
		t.Fatal(err)
	}
	return m, m.Booted(ctx)
}

func TestAProcessMachineBecomesANode(t *testing.T) {
	ctx, p := soon(t), newPlane(t, "")
	// once, as it starts
	p.refuse = func(call int32) int { return []int{0, http.StatusServiceUnavailable, 0}[min(call, 2)] }
	m, err := p.boot(ctx, t, "the-token")
	if err != nil {
		t.Fatal(err)
	}
	entries(ctx, t, m, "runs", 1)
	if lines := diary(m); lines[0] != "enrolled" {
		t.Errorf("diary %q", lines)
	}
	root := m.(*agentHost).root()
	settings, err := os.ReadFile(filepath.Join(root, "etc/gpuaas/agent.env"))
	if err != nil || string(settings) != "GPUAAS_API_URL="+p.URL+"\nGPUAAS_ALLOW_IP_URL=true\nGPUAAS_NODE_ID=\n" {
		t.Errorf("settings %q, %v", settings, err)
	}
	if target, err := os.Readlink(filepath.Join(root, "opt/gpuaas/agent/current")); err != nil || target != "1.2.3" {
		t.Errorf("current is %q, %v", target, err)
	}
	for _, secret := range []string{"run/gpuaas-token", "run/gpuaas-bootstrap/authorization"} {
		if _, err := os.Stat(filepath.Join(root, secret)); err == nil {
			t.Errorf("%s is left", secret)
		}
	}
}

func TestBootstrapsThatFail(t *testing.T) {
	for name, c := range map[string]struct {
		without, token, want string
		change               func(*plane)
	}{
		"refused token": {
			token: "the-token", want: "401",
			change: func(p *plane) { p.refuse = func(int32) int { return http.StatusUnauthorized } },
		},
		"incomplete":       {token: "the-token", without: "verifiers.json", want: "verifiers.json is not in the package"},
		"refused by agent": {token: "another", want: "token refused"},
		"no package": {
			token: "the-token", want: "unpack agent package",
			change: func(p *plane) { p.content = []byte("nothing"); p.digest = digestOf("nothing") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlane(t, c.without)
			if c.change != nil {
				c.change(p)
			}
			m, err := p.boot(soon(t), t, c.token)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), c.token) &&
				c.token == "the-token" {
				t.Errorf("boot: %v", err)
			}
			if slices.Contains(diary(m), "enrolled") {
				t.Error("the machine enrolled")
			}
		})
	}
}

func digestOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func TestADamagedPackageIsNotUsed(t *testing.T) {
	p := newPlane(t, "")
	p.digest = digestOf("another")
	ctx, cancel := context.WithCancel(soon(t))
	p.refuse = func(call int32) int {
		if call > 1 {
			cancel() // it was asked for again
		}
		return 0
	}
	m, err := p.boot(ctx, t, "the-token")
	if err == nil {
		t.Fatal("the machine booted")
	}
	if _, err := os.Stat(filepath.Join(m.(*agentHost).root(), "opt/gpuaas")); err == nil {
		t.Error("something was installed")
	}
}
