package agentgateway_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/fleet/agentgateway"
)

var update = flag.Bool("update", false, "write golden files")

const fixedToken = "gpuaas_nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; look at it and run the test with -update:\n%s", file, got)
	}
}

// fixedTrust has a CA that never changes.
func fixedTrust(t *testing.T) *agentgateway.Trust {
	t.Helper()
	return agentgateway.NewTrust(agentgateway.TrustConfig{CAFile: filepath.Join("testdata", "ca.pem")})
}

func TestBootstrapRenderings(t *testing.T) {
	r := agentgateway.NewRenderer("https://nodes.example.com:8444", fixedTrust(t))
	token := redact.New(fixedToken)
	command, err := r.Command(token)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "command.golden", command.Reveal()+"\n")
	userData, err := r.CloudInit(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "cloud-init.golden", userData.Reveal())
	node, err := id.Parse[id.Node]("01900000-0000-7000-8000-000000000001")
	if err != nil {
		t.Fatal(err)
	}
	script, err := r.Script(t.Context(), node, token, "1.2.3", strings.Repeat("ab", 32))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "script.golden", script.Reveal())
	for _, text := range []string{script.Reveal(), command.Reveal() + "\n"} {
		file := filepath.Join(t.TempDir(), "script")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), "sh", "-n", file).CombinedOutput(); err != nil {
			t.Errorf("sh cannot read it: %s", out)
		}
	}
	if out := command.String() + userData.String(); strings.Contains(out, fixedToken) {
		t.Error("a rendering prints as plain text")
	}
}

// The token must not be in an argument of any program that the node starts.
func TestNoTokenOnACommandLine(t *testing.T) {
	r := agentgateway.NewRenderer("https://nodes.example.com:8444", fixedTrust(t))
	script, err := r.Script(t.Context(), id.New[id.Node](), redact.New(fixedToken), "1.2.3", strings.Repeat("ab", 32))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(script.Reveal()) {
		if strings.Contains(line, fixedToken) && strings.TrimSpace(line) != fixedToken {
			t.Errorf("the token is part of a command: %s", line)
		}
	}
	command, err := r.Command(redact.New(fixedToken))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(command.Reveal(), "printf 'Authorization: Bearer %s' "+fixedToken+" |") ||
		strings.Count(command.Reveal(), fixedToken) != 1 {
		t.Errorf("only the printf of the shell may have it: %s", command.Reveal())
	}
}

func TestRenderingsThatAreRefused(t *testing.T) {
	if _, err := agentgateway.NewRenderer("", fixedTrust(t)).Command(redact.New(fixedToken)); err == nil ||
		!strings.Contains(err.Error(), "nodes.url") {
		t.Errorf("without an address: %v", err)
	}
	r := agentgateway.NewRenderer("https://nodes.example.com", fixedTrust(t))
	for _, token := range []string{
		"", "short", "$(reboot)aaaaaaaaaaaaaaaaaaaaa", "a'b aaaaaaaaaaaaaaaaaaaaaaaaaaa",
		"a\naaaaaaaaaaaaaaaaaaaaaaaaaa",
	} {
		if _, err := r.Command(redact.New(token)); err == nil {
			t.Errorf("token %q ended up in a command", token)
		}
	}
}

func TestUserDataIsWhatCloudInitReads(t *testing.T) {
	r := agentgateway.NewRenderer("https://10.0.0.1:8444", fixedTrust(t))
	text, err := r.CloudInit(t.Context(), redact.New(fixedToken))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(text.Reveal(), "#cloud-config\n") {
		t.Error("cloud-init would not take it for its own")
	}
	var read struct {
		WriteFiles []struct{ Path, Owner, Permissions, Content string } `yaml:"write_files"`
		RunCmd     [][]string                                           `yaml:"runcmd"`
	}
	d := yaml.NewDecoder(strings.NewReader(text.Reveal()))
	d.KnownFields(true)
	if err := d.Decode(&read); err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile("testdata/ca.pem")
	if err != nil {
		t.Fatal(err)
	}
	if len(read.WriteFiles) != 3 || read.WriteFiles[0].Content != string(ca) ||
		read.WriteFiles[1].Content != "Authorization: Bearer "+fixedToken+"\n" {
		t.Errorf("%+v", read)
	}
	for _, f := range read.WriteFiles {
		if f.Permissions != "0600" || f.Owner != "root:root" || !strings.HasPrefix(f.Path, "/run/") {
			t.Errorf("%+v", f)
		}
	}
	if len(read.RunCmd) != 1 || strings.Contains(strings.Join(read.RunCmd[0], " "), fixedToken) {
		t.Errorf("%v", read.RunCmd)
	}
}
