package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const good = `# of this node
GPUAAS_API_URL=https://nodes.example.com:8443
GPUAAS_NODE_ID="01890000-0000-7000-8000-000000000001"

; a comment of the other kind
GPUAAS_CA_BUNDLE_PATH='/etc/gpuaas/control-plane-ca.pem'
HTTPS_PROXY=http://proxy.example.com:3128
`

func load(t *testing.T, text string) (Config, error) {
	t.Helper()
	root := t.TempDir()
	path := filepath.Join(root, EnvFile)
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(root, "")
}

func TestGoodSettings(t *testing.T) {
	c, err := load(t, good)
	if err != nil {
		t.Fatal(err)
	}
	if c.API.String() != "https://nodes.example.com:8443" || c.Terminal.String() != c.API.String() ||
		c.LogLevel != "info" {
		t.Errorf("%+v", c)
	}
	if c.CABundle != filepath.Join(c.Root, CAFile) || c.NodeCABundle != filepath.Join(c.Root, NodeCAFile) {
		t.Errorf("paths are not below the host root: %s, %s", c.CABundle, c.NodeCABundle)
	}
}

func TestBadSettings(t *testing.T) {
	const url = "GPUAAS_API_URL=https://nodes.example.com\n"
	for name, c := range map[string]struct{ text, want string }{
		"no address":           {"", "GPUAAS_API_URL is missing"},
		"plain http":           {"GPUAAS_API_URL=http://nodes.example.com", "must be https"},
		"a path":               {"GPUAAS_API_URL=https://nodes.example.com/api", "must be https"},
		"a password":           {"GPUAAS_API_URL=https://a:b@nodes.example.com", "must be https"},
		"an IP address":        {"GPUAAS_API_URL=https://192.0.2.1:8443", "GPUAAS_ALLOW_IP_URL"},
		"an IPv6 address":      {"GPUAAS_API_URL=https://[2001:db8::1]:8443", "GPUAAS_ALLOW_IP_URL"},
		"neither true nor not": {url + "GPUAAS_ALLOW_IP_URL=maybe", "true or false"},
		"a misspelt setting":   {url + "GPUAAS_NODEID=x", "line 2: there is no setting GPUAAS_NODEID"},
		"twice":                {url + url, "line 2: GPUAAS_API_URL is set twice"},
		"not a setting":        {url + "export A=b", "not of the form"},
		"a node id that isn't": {url + "GPUAAS_NODE_ID=7", "is not the id of a node"},
		"one trust store":      {url + "GPUAAS_CA_BUNDLE_PATH=" + NodeCAFile, "two trust stores"},
		"a relative path":      {url + "GPUAAS_CA_BUNDLE_PATH=ca.pem", "absolute"},
		"an open quote":        {`GPUAAS_API_URL="https://nodes.example.com`, "not closed"},
		"an expansion":         {"GPUAAS_API_URL=https://$HOST", "special meaning"},
		"a log level":          {url + "GPUAAS_LOG_LEVEL=loud", "debug, info"},
		"too large": {
			url + "#" + strings.Repeat("x", maxEnvFile-100) + "\n#" + strings.Repeat("x", 200),
			"larger than",
		},
		"one endless line": {"#" + strings.Repeat("x", maxEnvFile), "read lines"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := load(t, c.text); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	if _, err := Load(t.TempDir(), ""); err == nil || !strings.Contains(err.Error(), "bootstrap command") {
		t.Errorf("a missing file: %v", err)
	}
}

func TestAnIPAddressThatIsAskedFor(t *testing.T) {
	if _, err := load(t, "GPUAAS_API_URL=https://192.0.2.1:8443\nGPUAAS_ALLOW_IP_URL=true\n"); err != nil {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(good)
	f.Fuzz(func(t *testing.T, text string) {
		values, err := parse(strings.NewReader(text))
		if err != nil {
			return
		}
		for name, value := range values {
			if strings.ContainsAny(value, "\n\"'") || !settingName.MatchString(name) {
				t.Errorf("%q=%q", name, value)
			}
		}
	})
}
