package rack

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"gpuaas/contract/agentwire"
)

const unitOfSync = "/lib/systemd/system/maas_hardware_sync.timer"

// layered returns a payload in the form of the control plane's first boots: a
// layer that installs a unit, and the one that makes a node.
func (p *plane) layered(t *testing.T, token string) []byte {
	t.Helper()
	sync, agent := FirstBootFolder+"/layers/01-hardware-sync/", FirstBootFolder+"/layers/02-agent-bootstrap/"
	_, plain, _ := strings.Cut(string(p.userData(t, token)), "\n")
	var flat cloudConfig
	if err := yaml.Unmarshal([]byte(plain), &flat); err != nil {
		t.Fatal(err)
	}
	files := []map[string]string{
		{"path": sync + "steps", "content": "printf '%s\\n' 'install x' | tee \"$1/at\"\ninstall -D -m 0640 -o root -g " +
			"root \"$1/file-1\" '" + unitOfSync + "'\n'systemctl' 'daemon-reload'\n"},
		{"path": sync + "file-1", "content": "[Timer]\n"},
		{
			"path":    FirstBootFolder + "/layers.list",
			"content": "01-hardware-sync hardware-sync 2 sha256:aa\n02-agent-bootstrap agent-bootstrap 1 sha256:bb\n",
		},
	}
	var steps strings.Builder
	for i, f := range flat.WriteFiles {
		name := "file-" + string(rune('1'+i))
		files = append(files, map[string]string{"path": agent + name, "permissions": "0600", "content": f.Content})
		steps.WriteString("install -D -m 0600 -o root -g root \"$1/" + name + "\" '" + f.Path + "'\n")
	}
	files = append(files, map[string]string{"path": agent + "steps", "content": steps.String()})
	text, err := yaml.Marshal(map[string]any{"write_files": files})
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte("#cloud-config\n"), text...)
}

func recordOf(t *testing.T, root, place string) layerRecord {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, FirstBootFolder, place+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var r layerRecord
	if err := json.Unmarshal(content, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// A process machine leaves the same as a server: installed files, one record
// for each layer, and no layer with its secrets.
func TestAProcessMachineCarriesOutLayers(t *testing.T) {
	ctx, p := soon(t), newPlane(t, "")
	p.refuse = func(call int32) int { return []int{0, http.StatusForbidden, 0}[min(call, 2)] }
	m, err := openProcesses(t, t.TempDir()).Machine(ctx, Spec{Name: "m1", UserData: p.layered(t, "the-token")})
	if err != nil {
		t.Fatal(err)
	}
	root := m.(Disk).Root()
	if err := m.Booted(ctx); err == nil {
		t.Fatal("the machine became a node without its package")
	}
	if r := recordOf(t, root, "01-hardware-sync"); r.State != "succeeded" || r.Layer != "hardware-sync" ||
		r.Version != "2" || r.Digest != "sha256:aa" {
		t.Errorf("record %+v", r)
	}
	if r := recordOf(t, root, "02-agent-bootstrap"); r.State != "failed" || r.ExitCode == 0 ||
		!strings.Contains(r.Reason, "403") || strings.Contains(r.Reason, "the-token") {
		t.Errorf("record %+v", r)
	}
	info, err := os.Stat(filepath.Join(root, unitOfSync))
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("unit: %v, %v", info, err)
	}
	// The next boot continues where this one stopped.
	if err := m.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if err := m.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := m.Booted(ctx); err != nil {
		t.Fatal(err)
	}
	if r := recordOf(t, root, "02-agent-bootstrap"); r.State != "succeeded" {
		t.Errorf("record %+v", r)
	}
	for _, gone := range []string{FirstBootFolder + "/layers/01-hardware-sync", FirstBootFolder +
		"/layers/02-agent-bootstrap", "run/gpuaas-bootstrap"} {
		if _, err := os.Stat(filepath.Join(root, gone)); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", gone, err)
		}
	}
}

func TestReadBootstrap(t *testing.T) {
	p := newPlane(t, "")
	for name, payload := range map[string][]byte{
		"plain":     p.userData(t, "the-token"),
		"in layers": p.layered(t, "the-token"),
	} {
		b, found, err := ReadBootstrap(payload)
		if err != nil || !found || b.URL != p.URL || b.Token != "the-token" ||
			!strings.Contains(string(b.CA), "CERTIFICATE") {
			t.Errorf("%s: %t, %v, %s %s", name, found, err, b.URL, b.Token)
		}
	}
	if _, found, err := ReadBootstrap([]byte("#cloud-config\n{}\n")); found || err != nil {
		t.Errorf("nothing: %t, %v", found, err)
	}
	if _, _, err := ReadBootstrap([]byte("#cloud-config\nwrite_files: [{path: /x, content: \"curl 'https://h" +
		agentwire.PathBootstrapScript + "'\"}]\n")); err == nil {
		t.Error("a payload without token is no bootstrap")
	}
}

// A process that is killed while it makes a machine leaves half of one; the
// next one makes it again.
func TestAMachineThatWasNeverComplete(t *testing.T) {
	ctx, folder := soon(t), t.TempDir()
	half := filepath.Join(folder, "machines", "half")
	if err := os.MkdirAll(filepath.Join(half, "root"), 0o700); err != nil {
		t.Fatal(err)
	}
	r := openProcesses(t, folder)
	if _, err := r.Find(ctx, "half"); !errors.Is(err, ErrNoMachine) {
		t.Errorf("half a machine is one: %v", err)
	}
	m, err := r.Machine(ctx, Spec{Name: "half", UserData: []byte("#cloud-config\n{}\n")})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Booted(ctx); err != nil {
		t.Error(err)
	}
}
