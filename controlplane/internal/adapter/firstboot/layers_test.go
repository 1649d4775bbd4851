package firstboot_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/adapter/firstboot"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
)

func TestScriptsAreShell(t *testing.T) {
	found, err := filepath.Glob("scripts/*.sh")
	if err != nil || len(found) < 4 {
		t.Fatalf("%v, %v", found, err)
	}
	for _, path := range found {
		if out, err := exec.CommandContext(t.Context(), "sh", "-n", path).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", path, err, out)
		}
	}
	odd := firstboot.Layer{Name: "odd", Version: "1", Commands: [][]string{{"it's", `a"b$c`, "`x`", "\\", "", "ü", "*"}}}
	for path, content := range unpack(t, compose(t, append(every(t), odd)...)) {
		if !strings.HasSuffix(path, "/steps") && !strings.HasSuffix(path, "/run") {
			continue
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-n")
		cmd.Stdin = strings.NewReader(content)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", path, err, out)
		}
	}
}

// The present output of the gateway of agents can be taken over as it is.
func TestTheUserDataOfTheGatewayIsTakenOver(t *testing.T) {
	text, err := os.ReadFile("../../fleet/agentgateway/testdata/cloud-init.golden")
	if err != nil {
		t.Fatal(err)
	}
	l := must(t)(firstboot.AgentBootstrap(redact.New(string(text))))
	if len(l.Files) < 2 || len(l.Commands) != 1 || l.Commands[0][0] != "sh" {
		t.Errorf("%+v", l)
	}
	for _, f := range l.Files {
		if f.Mode != 0o600 || f.Content.IsZero() {
			t.Errorf("%s has mode %#o", f.Path, uint32(f.Mode))
		}
	}
}

func TestInputsThatAreRefused(t *testing.T) {
	roce := func(change func(*firstboot.RoCEAssignment)) func() (firstboot.Layer, error) {
		a := firstboot.RoCEAssignment{Interface: "enp1s0", CIDR: netip.MustParsePrefix("10.0.0.2/24")}
		change(&a)
		return func() (firstboot.Layer, error) { return firstboot.RoCERouting([]firstboot.RoCEAssignment{a}) }
	}
	site := func(text, version string) func() (firstboot.Layer, error) {
		return func() (firstboot.Layer, error) { return firstboot.SiteBundle([]byte(text), version) }
	}
	user := func(name, key string) func() (firstboot.Layer, error) {
		return func() (firstboot.Layer, error) { return firstboot.DeployUser(name, key, someHost) }
	}
	host := func(k firstboot.HostKey) func() (firstboot.Layer, error) {
		return func() (firstboot.Layer, error) { return firstboot.DeployUser("deploy", someKey, k) }
	}
	source := func(s firstboot.SyncSource) func() (firstboot.Layer, error) {
		return func() (firstboot.Layer, error) { return firstboot.HardwareSync(s, "abc123", "15m") }
	}
	hwSync := func(url, system, interval string) func() (firstboot.Layer, error) {
		return func() (firstboot.Layer, error) {
			return firstboot.HardwareSync(firstboot.SyncSource{URL: url, Digest: someSource.Digest}, system, interval)
		}
	}
	disk := func(s firstboot.DiskSpec) func() (firstboot.Layer, error) {
		return func() (firstboot.Layer, error) { return firstboot.DiskInit(s) }
	}
	agent := func(text string) func() (firstboot.Layer, error) {
		return func() (firstboot.Layer, error) { return firstboot.AgentBootstrap(redact.New(text)) }
	}
	const url = "http://maas.example/MAAS"
	for name, c := range map[string]struct {
		make func() (firstboot.Layer, error)
		says string
	}{
		"site bundle that is no program": {site("echo hello\n", "1"), "cannot be executed"},
		"site bundle that is empty":      {site("", "1"), "cannot be executed"},
		"site bundle that is too large":  {site("#!/bin/sh\n"+strings.Repeat("x", 1<<20), "1"), "bytes"},
		"site bundle without version":    {site(siteText, ""), "version"},
		"deploy user root":               {user("root", someKey), "no name of a user"},
		"deploy user with a colon":       {user("a:b", someKey), "no name of a user"},
		"deploy user like an option":     {user("-r", someKey), "no name of a user"},
		"deploy user without a key":      {user("deploy", ""), "key 1"},
		"deploy user with a broken key":  {user("deploy", "ssh-ed25519"), "key 1"},
		"deploy user with two keys":      {user("deploy", someKey+"\n"+someKey), "key 1"},
		"deploy user with key options":   {user("deploy", `command="x" `+someKey), "key 1"},
		"no host key":                    {host(firstboot.HostKey{}), "no host key"},
		"half a host key":                {host(firstboot.HostKey{Public: someKey}), "private host key"},
		"a host key of another kind": {host(
			firstboot.HostKey{Private: someHost.Private, Public: "ssh-rsa " + strings.Repeat("A", 60)}), "Ed25519"},
		"a host key that is none": {
			host(firstboot.HostKey{Private: redact.New("canary"), Public: someKey}),
			"private host key",
		},
		"sync that nothing vouches for":  {source(firstboot.SyncSource{URL: url}), "nobody has decided"},
		"sync with half a digest":        {source(firstboot.SyncSource{URL: url, Digest: "abcd"}), "no SHA-256"},
		"sync without address":           {hwSync("", "abc123", "15m"), "maas_url"},
		"sync with a specifier":          {hwSync("http://maas/%41", "abc123", "15m"), "unit of systemd"},
		"sync with a space":              {hwSync("http://maas/a b", "abc123", "15m"), "unit of systemd"},
		"sync with a query":              {hwSync("http://maas/?x", "abc123", "15m"), "unit of systemd"},
		"sync of no machine":             {hwSync(url, "../x", "15m"), "system_id"},
		"sync at no interval":            {hwSync(url, "abc123", "soon"), "interval"},
		"disks that nobody gave up":      {disk(firstboot.DiskSpec{Filesystem: "ext4"}), "nobody has said"},
		"reformat alone":                 {disk(firstboot.DiskSpec{Reformat: true, Filesystem: "ext4"}), "nobody has said"},
		"disks with another file system": {disk(firstboot.DiskSpec{Destroy: true, Filesystem: "btrfs"}), "btrfs"},
		"disks without file system":      {disk(firstboot.DiskSpec{Destroy: true}), "no file system"},
		"no interfaces": {
			func() (firstboot.Layer, error) { return firstboot.RoCERouting(nil) },
			"0 interfaces",
		},
		"the same interface twice": {func() (
			firstboot.Layer, error,
		) {
			return firstboot.RoCERouting(append(someRoCE(), someRoCE()[0]))
		}, "twice"},
		"no interface": {roce(func(a *firstboot.RoCEAssignment) { a.Interface = "a b" }), "no interface"},
		"the loopback": {roce(func(a *firstboot.RoCEAssignment) { a.Interface = "lo" }), "no interface"},
		"no prefix":    {roce(func(a *firstboot.RoCEAssignment) { a.CIDR = netip.Prefix{} }), "IPv4"},
		"IPv6": {roce(
			func(a *firstboot.RoCEAssignment) { a.CIDR = netip.MustParsePrefix("fd00::1/64") }), "IPv4"},
		"a network": {roce(
			func(a *firstboot.RoCEAssignment) { a.CIDR = netip.MustParsePrefix("10.0.0.0/24") }), "a network"},
		"gateway elsewhere": {roce(
			func(a *firstboot.RoCEAssignment) { a.Gateway = netip.MustParseAddr("10.9.0.1") }), "gateway"},
		"tiny MTU":                 {roce(func(a *firstboot.RoCEAssignment) { a.MTU = 100 }), "MTU"},
		"the main table":           {roce(func(a *firstboot.RoCEAssignment) { a.Table = 254 }), "table"},
		"negative table":           {roce(func(a *firstboot.RoCEAssignment) { a.Table = -1 }), "table"},
		"agent with a script":      {agent("#!/bin/sh\necho canary\n"), "no cloud-config"},
		"agent with a shell line":  {agent("#cloud-config\nruncmd: [canary]\n"), "argument lists"},
		"agent with more":          {agent(agentText + "users: [canary]\n"), "more than files"},
		"agent with two documents": {agent(agentText + "---\na: canary\n"), "more than files"},
		"agent without mode": {agent(
			"#cloud-config\nwrite_files: [{path: /etc/x, owner: 'root:root', content: canary}]\n"), "mode"},
		"agent with nothing": {agent("#cloud-config\n{}\n"), "does nothing"},
	} {
		l, err := c.make()
		if fault.CodeOf(err) != "first_boot_invalid" || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if l.Name != "" || err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: gave %q, %v", name, l.Name, err)
		}
	}
}

// MAAS makes the token of a machine after its first boot was written: the service
// waits for the credentials, which are written later.
func TestHardwareSyncWaitsForItsCredentials(t *testing.T) {
	waits := false
	for _, f := range must(t)(firstboot.HardwareSync(someSource, "abc123", "15m")).Files {
		waits = waits || strings.Contains(f.Content.Reveal(), "ConditionPathExists="+firstboot.SyncCredentialsFile+"\n")
		if f.Path == firstboot.SyncCredentialsFile {
			t.Error("the first boot has credentials in it")
		}
	}
	if !waits {
		t.Error("the service does not wait for its credentials")
	}
	later, err := firstboot.SyncCredentials(maasURL+"/", "abc123", someToken)
	if err != nil || !strings.Contains(later.Reveal(), "canary-secret") {
		t.Errorf("later it is %q, %v", later.Reveal(), err)
	}
	for field, change := range map[string]func(*firstboot.MachineToken){
		"consumer_key":      func(m *firstboot.MachineToken) { *m = firstboot.MachineToken{} },
		"token_secret":      func(m *firstboot.MachineToken) { m.TokenSecret = redact.Secret{} },
		"a line in the key": func(m *firstboot.MachineToken) { m.ConsumerKey = redact.New("canary\nx") },
	} {
		token := someToken
		change(&token)
		if _, err := firstboot.SyncCredentials(maasURL, "abc123", token); fault.CodeOf(err) != "first_boot_invalid" ||
			strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// Whoever answers in place of MAAS could make root on a machine run anything,
// unless something vouches for the program.
func TestAttackAnotherProgramComesOverPlainHTTP(t *testing.T) {
	unit := func(s firstboot.SyncSource) (text string, files map[string]string) {
		t.Helper()
		files = map[string]string{}
		for _, f := range must(t)(firstboot.HardwareSync(s, "abc123", "15m")).Files {
			files[f.Path] = f.Content.Reveal()
		}
		return files["/lib/systemd/system/"+firstboot.SyncService], files
	}
	if _, err := firstboot.HardwareSync(firstboot.SyncSource{URL: maasURL}, "abc123", "15m"); err == nil {
		t.Error("root runs what plain HTTP brings, and nobody decided that")
	}

	text, _ := unit(someSource)
	check, run := strings.Index(text, "sha256sum --check --strict"), strings.Index(text, "\nExecStart=")
	if check < 0 || run < check {
		t.Errorf("the program is run unchecked:\n%s", text)
	}
	// sha256sum itself tells the two apart.
	folder := t.TempDir()
	program := filepath.Join(folder, "maas-run-scripts.new")
	honest := "#!/bin/sh\n"
	sum := sha256.Sum256([]byte(honest))
	pinned := someSource
	pinned.Digest = hex.EncodeToString(sum[:])
	_, files := unit(pinned)
	pin := filepath.Join(folder, "pin")
	if err := os.WriteFile(pin, []byte(strings.ReplaceAll(files[firstboot.SyncPinFile], "/usr/bin/maas-run-scripts.new",
		program)), 0o600); err != nil {
		t.Fatal(err)
	}
	for content, passes := range map[string]bool{honest: true, honest + "evil\n": false} {
		if err := os.WriteFile(program, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		err := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "--quiet", pin).Run()
		if (err == nil) != passes {
			t.Errorf("%q: %v", content, err)
		}
	}

	text, files = unit(firstboot.SyncSource{URL: "https://maas.site.example/MAAS", CA: "canary-ca\n"})
	if !strings.Contains(text, " --proto =https --proto-redir =https --cacert /etc/maas/gpuaas-maas-ca.pem ") ||
		files["/etc/maas/gpuaas-maas-ca.pem"] != "canary-ca\n" {
		t.Errorf("https without the CA of the site:\n%s", text)
	}
}
