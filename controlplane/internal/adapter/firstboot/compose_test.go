package firstboot_test

import (
	"encoding/base64"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"gpuaas/controlplane/internal/adapter/firstboot"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
)

var update = flag.Bool("update", false, "write golden files")

const (
	somePrivate = "-----BEGIN OPENSSH PRIVATE KEY-----\ncanary-host-key\n-----END OPENSSH PRIVATE KEY-----\n"
	maasURL     = "http://maas.site.example:5240/MAAS"
	someKey     = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFdkbXlrZXlkdW1teWtleWR1bW15a2V5ZHVtbXlrZXk0 deploy@site"
	siteText    = "#!/bin/sh\nset -eu\necho 'the site was here' >/etc/site-was-here\n"
	agentText   = "#cloud-config\nwrite_files:\n    - path: /run/gpuaas-bootstrap/authorization\n      owner: " +
		"root:root\n      permissions: \"0600\"\n" +
		"      content: |\n        Authorization: Bearer canary-enrolment\n    - path: " +
		"/run/gpuaas-bootstrap/bootstrap.sh\n      owner: root:root\n" +
		"      permissions: \"0600\"\n      content: |\n        echo enrolled >/etc/enrolled\nruncmd:\n    - - sh\n      - " +
		"/run/gpuaas-bootstrap/bootstrap.sh\n"
)

var (
	someHost   = firstboot.HostKey{Private: redact.New(somePrivate), Public: someKey}
	someSource = firstboot.SyncSource{URL: maasURL + "/", Digest: strings.Repeat("ab", 32)}
)

var someToken = firstboot.MachineToken{
	ConsumerKey: redact.New("canary-consumer"), TokenKey: redact.New("canary-token"),
	TokenSecret: redact.New("canary-secret"),
}

// must takes what a constructor returns.
func must(t *testing.T) func(firstboot.Layer, error) firstboot.Layer {
	t.Helper()
	return func(l firstboot.Layer, err error) firstboot.Layer {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
}

func someRoCE() []firstboot.RoCEAssignment {
	return []firstboot.RoCEAssignment{
		{Interface: "enp28s0np0", CIDR: netip.MustParsePrefix("172.30.9.61/31"), MTU: 9000},
		{Interface: "enp29s0np0", CIDR: netip.MustParsePrefix("172.29.1.218/31"), Table: 77},
		{Interface: "enp62s0np0", CIDR: netip.MustParsePrefix("172.28.0.5/24"), Gateway: netip.MustParseAddr("172.28.0.1")},
		{Interface: "enp63s0np0", CIDR: netip.MustParsePrefix("172.27.0.5/24")},
	}
}

// every returns one layer of each kind, in the order in which machines get
// them.
func every(t *testing.T) []firstboot.Layer {
	t.Helper()
	m := must(t)
	return []firstboot.Layer{
		m(firstboot.SiteBundle([]byte(siteText), "2026.11-3")),
		m(firstboot.DeployUser("deploy", someKey, someHost)),
		m(firstboot.HardwareSync(someSource, "abc123", "15m")),
		m(firstboot.DiskInit(firstboot.DiskSpec{Destroy: true, Filesystem: "xfs"})),
		m(firstboot.RoCERouting(someRoCE())),
		m(firstboot.AgentBootstrap(redact.New(agentText))),
	}
}

func compose(t *testing.T, layers ...firstboot.Layer) firstboot.Bundle {
	t.Helper()
	b, err := firstboot.Compose(layers...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

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

// describe shows a layer to people.
func describe(l firstboot.Layer) string {
	var b strings.Builder
	fmt.Fprintf(&b, "layer %s, version %s\n", l.Name, l.Version)
	for _, f := range l.Files {
		fmt.Fprintf(&b, "\nfile %s %#o\n%s", f.Path, uint32(f.Mode), f.Content.Reveal())
	}
	for _, u := range l.Users {
		fmt.Fprintf(&b, "\nuser %s\n%s\n", u.Name, strings.Join(u.Keys, "\n"))
	}
	for _, c := range l.Commands {
		fmt.Fprintf(&b, "\ncommand %q\n", c)
	}
	if !l.HostKey.IsZero() {
		fmt.Fprintf(&b, "\nhost key %s\n", l.HostKey.Public)
	}
	return b.String()
}

func TestRenderings(t *testing.T) {
	layers := every(t)
	for _, l := range layers {
		golden(t, l.Name+".golden", describe(l))
	}
	b := compose(t, layers...)
	golden(t, "bundle.golden", b.UserData.Reveal())
	if len(b.Layers) != len(layers) || !strings.HasPrefix(b.Digest, "sha256:") {
		t.Errorf("bundle %+v", b)
	}
	for i, ref := range b.Layers {
		if ref.Name != layers[i].Name || ref.Version != layers[i].Version || len(ref.Digest) != len("sha256:")+64 {
			t.Errorf("layer %d is %+v", i, ref)
		}
	}
}

func TestTheSameLayersGiveTheSameBundle(t *testing.T) {
	first := compose(t, every(t)...)
	for range 20 {
		if next := compose(t, every(t)...); next.UserData != first.UserData || next.Digest != first.Digest {
			t.Fatal("two compositions of the same layers differ")
		}
	}
	other := every(t)
	other[0] = must(t)(firstboot.SiteBundle([]byte(siteText+"true\n"), "2026.11-3"))
	changed := compose(t, other...)
	if changed.Digest == first.Digest || changed.Layers[0].Digest == first.Layers[0].Digest {
		t.Error("another program has the same digest")
	}
	for i := 1; i < len(other); i++ {
		if changed.Layers[i] != first.Layers[i] {
			t.Errorf("layer %s changed with another", other[i].Name)
		}
	}
}

// cloudConfig is all that the document may contain.
type cloudConfig struct {
	DeleteKeys bool              `yaml:"ssh_deletekeys"`
	SSHKeys    map[string]string `yaml:"ssh_keys"`
	WriteFiles []struct {
		Path, Owner, Permissions, Encoding, Content string
	} `yaml:"write_files"`
	RunCmd [][]string `yaml:"runcmd"`
}

// unpack reads a document as strictly as possible: path to content.
func unpack(t *testing.T, b firstboot.Bundle) map[string]string {
	t.Helper()
	text, ok := strings.CutPrefix(b.UserData.Reveal(), "#cloud-config\n")
	if !ok {
		t.Fatal("no cloud-config")
	}
	var doc cloudConfig
	d := yaml.NewDecoder(strings.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.RunCmd) != 1 || strings.Join(doc.RunCmd[0], " ") != "sh "+firstboot.Folder+"/run" {
		t.Errorf("commands are %q", doc.RunCmd)
	}
	files := map[string]string{}
	for _, f := range doc.WriteFiles {
		if f.Owner != "root:root" || f.Permissions != "0600" || !strings.HasPrefix(f.Path, firstboot.Folder+"/") {
			t.Errorf("%s is stored as %s %s", f.Path, f.Owner, f.Permissions)
		}
		if f.Encoding == "b64" {
			plain, err := base64.StdEncoding.DecodeString(f.Content)
			if err != nil {
				t.Fatal(err)
			}
			f.Content = string(plain)
		}
		files[f.Path] = f.Content
	}
	return files
}

// awkward are texts that YAML readers take for something else.
var awkward = []string{
	"", "yes", "no", "on", "off", "y", "n", "true", "null", "~", "=", "<<", "0x1", "0o14", "014", "1e3", "1_000", "1:30",
	"12:30:45", ".inf", ".nan",
	"2026-11-15", "- a", "a: b", "#c", "&a", "*a", "!!int 3", "%TAG", "@x", "`x`", "'", `"`, `\n`, "|", ">", "{}", "[]",
	"?", " lead", "trail ",
	"\n", "\n\n", "a\n", "a\n\n", " a\n", "\ta\n", "a \nb\n", "a\t\nb\n", "a\r\nb\n", "---\n", "...\n", "# c\n", "ü\n",
	"\u2028", "\u0085", "\ufeff", "\x00\x01", "\xff\xfe", "😀",
	strings.Repeat("long words ", 200), strings.Repeat("x", 5000),
}

func TestContentsSurviveTheDocument(t *testing.T) {
	l := firstboot.Layer{Name: "odd", Version: "1"}
	for i, s := range awkward {
		l.Files = append(l.Files, firstboot.File{Path: fmt.Sprintf("/etc/odd/%d", i), Mode: 0o600, Content: redact.New(s)})
	}
	b := compose(t, l)
	files := unpack(t, b)
	for i, want := range awkward {
		if got, ok := files[fmt.Sprintf("%s/layers/01-odd/file-%d", firstboot.Folder, i+1)]; !ok || got != want {
			t.Errorf("%q became %q", want, got)
		}
	}
	// YAML readers get only plain ASCII, and every scalar has a style that says
	// that it is a string.
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(b.UserData.Reveal()), &root); err != nil {
		t.Fatal(err)
	}
	values(t, &root)
}

func values(t *testing.T, n *yaml.Node) {
	t.Helper()
	for i, c := range n.Content {
		if c.Kind == yaml.ScalarNode && (n.Kind != yaml.MappingNode || i%2 == 1) &&
			c.Style&(yaml.DoubleQuotedStyle|yaml.LiteralStyle) == 0 {
			t.Errorf("line %d: %q is not quoted", c.Line, c.Value)
		}
		if strings.ContainsFunc(c.Value, func(r rune) bool { return r > '~' || r < ' ' && r != '\n' && r != '\t' }) {
			t.Errorf("line %d: %q is not plain", c.Line, c.Value)
		}
		values(t, c)
	}
}

func TestCompositionsThatAreRefused(t *testing.T) {
	ok := firstboot.Layer{Name: "a", Version: "1", Commands: [][]string{{"true"}}}
	with := func(change func(*firstboot.Layer)) []firstboot.Layer {
		l := ok
		change(&l)
		return []firstboot.Layer{l}
	}
	file := func(path string, mode os.FileMode) []firstboot.Layer {
		return with(func(l *firstboot.Layer) { l.Files = []firstboot.File{{Path: path, Mode: mode}} })
	}
	for name, layers := range map[string][]firstboot.Layer{
		"none":                 {},
		"too many":             make([]firstboot.Layer, 100),
		"same name":            {ok, ok},
		"no name":              with(func(l *firstboot.Layer) { l.Name = "" }),
		"name with a path":     with(func(l *firstboot.Layer) { l.Name = "../a" }),
		"no version":           with(func(l *firstboot.Layer) { l.Version = "" }),
		"version with a quote": with(func(l *firstboot.Layer) { l.Version = `1"` }),
		"nothing to do":        with(func(l *firstboot.Layer) { l.Commands = nil }),
		"empty command":        with(func(l *firstboot.Layer) { l.Commands = [][]string{{}} }),
		"command with a line":  with(func(l *firstboot.Layer) { l.Commands = [][]string{{"echo", "a\nb"}} }),
		"command not in UTF-8": with(func(l *firstboot.Layer) { l.Commands = [][]string{{"echo", "\xff"}} }),
		"relative path":        file("etc/x", 0o600),
		"path with dots":       file("/etc/../x", 0o600),
		"path with a space":    file("/etc/a b", 0o600),
		"path of the runner":   file(firstboot.Folder+"/run", 0o600),
		"folder":               file("/etc/x", os.ModeDir|0o700),
		"writable by others":   file("/etc/x", 0o666),
		"set-user-ID":          file("/etc/x", os.ModeSetuid|0o700),
		"same file in two": {
			file("/etc/x", 0o600)[0],
			{Name: "b", Version: "1", Files: []firstboot.File{{Path: "/etc/x", Mode: 0o600}}},
		},
		"user without anything": with(func(l *firstboot.Layer) { l.Users = []firstboot.User{{Name: "bob"}} }),
	} {
		if _, err := firstboot.Compose(layers...); fault.CodeOf(err) != "first_boot_invalid" ||
			fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNothingSecretIsShown(t *testing.T) {
	layers := every(t)
	b := compose(t, layers...)
	shown := fmt.Sprintf("%v %+v %#v %v %+v %#v", b, b, b, layers, layers, layers)
	if strings.Contains(shown, "canary") {
		t.Error("a secret is shown")
	}
	// On the machine, secrets are only in files of root and in no step.
	for path, content := range unpack(t, b) {
		if strings.HasSuffix(path, "/steps") && strings.Contains(content, "canary") {
			t.Errorf("%s names a secret", path)
		}
	}
	for _, l := range layers {
		for _, f := range l.Files {
			if strings.Contains(f.Content.Reveal(), "canary") && f.Mode != 0o600 {
				t.Errorf("%s has mode %#o", f.Path, uint32(f.Mode))
			}
		}
	}
}
