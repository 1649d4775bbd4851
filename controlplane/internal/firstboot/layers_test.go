package firstboot_test

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/fault"
	"gpuaas/controlplane/internal/firstboot"
	"gpuaas/controlplane/internal/redact"
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

// What the gateway of agents renders today can be taken over as it is.
func TestTheUserDataOfTheGatewayIsTakenOver(t *testing.T) {
	text, err := os.ReadFile("../agentgateway/testdata/cloud-init.golden")
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
	hash := redact.New(someHash)
	roce := func(change func(*firstboot.RoCEAssignment)) func() (firstboot.Layer, error) {
		a := firstboot.RoCEAssignment{Interface: "enp1s0", CIDR: netip.MustParsePrefix("10.0.0.2/24")}
		change(&a)
		return func() (firstboot.Layer, error) { return firstboot.RoCERouting([]firstboot.RoCEAssignment{a}) }
	}
	site := func(text, version string) func() (firstboot.Layer, error) {
		return func() (firstboot.Layer, error) { return firstboot.SiteBundle([]byte(text), version) }
	}
	user := func(name string, hash redact.Secret, keys ...string) func() (firstboot.Layer, error) {
		return func() (firstboot.Layer, error) { return firstboot.DeployUser(name, hash, keys) }
	}
	hwSync := func(url, system, interval string, change func(*firstboot.MachineToken)) func() (firstboot.Layer, error) {
		token := someToken
		if change != nil {
			change(&token)
		}
		return func() (firstboot.Layer, error) { return firstboot.HardwareSync(url, system, token, interval) }
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
		"site bundle that is no program":  {site("echo hello\n", "1"), "cannot be executed"},
		"site bundle that is empty":       {site("", "1"), "cannot be executed"},
		"site bundle that is too large":   {site("#!/bin/sh\n"+strings.Repeat("x", 1<<20), "1"), "bytes"},
		"site bundle without version":     {site(siteText, ""), "version"},
		"deploy user root":                {user("root", hash), "no name of a user"},
		"deploy user with a colon":        {user("a:b", hash), "no name of a user"},
		"deploy user like an option":      {user("-r", hash), "no name of a user"},
		"deploy user without anything":    {user("deploy", redact.Secret{}), "neither password nor key"},
		"deploy user with a password":     {user("deploy", redact.New("canary-password")), "not hashed"},
		"deploy user with a weak hash":    {user("deploy", redact.New("$1$abc$0123456789012345678901")), "not hashed"},
		"deploy user with a line in hash": {user("deploy", redact.New(someHash+"\nroot:x")), "not hashed"},
		"deploy user with a broken key":   {user("deploy", hash, "ssh-ed25519"), "key 1"},
		"deploy user with two keys in 1":  {user("deploy", hash, someKey, someKey+"\n"+someKey), "key 2"},
		"deploy user with key options":    {user("deploy", hash, `command="x" `+someKey), "key 1"},
		"sync without address":            {hwSync("", "abc123", "15m", nil), "maas_url"},
		"sync with a specifier":           {hwSync("http://maas/%41", "abc123", "15m", nil), "unit of systemd"},
		"sync with a space":               {hwSync("http://maas/a b", "abc123", "15m", nil), "unit of systemd"},
		"sync with a query":               {hwSync("http://maas/?x", "abc123", "15m", nil), "unit of systemd"},
		"sync of no machine":              {hwSync(url, "../x", "15m", nil), "system_id"},
		"sync at no interval":             {hwSync(url, "abc123", "soon", nil), "interval"},
		"sync without secret":             {hwSync(url, "abc123", "15m", func(m *firstboot.MachineToken) { m.TokenSecret = redact.Secret{} }), "token_secret"},
		"sync with a line in the key":     {hwSync(url, "abc123", "15m", func(m *firstboot.MachineToken) { m.ConsumerKey = redact.New("canary\nx") }), "consumer_key"},
		"disks that nobody gave up":       {disk(firstboot.DiskSpec{Filesystem: "ext4"}), "nobody has said"},
		"reformat alone":                  {disk(firstboot.DiskSpec{Reformat: true, Filesystem: "ext4"}), "nobody has said"},
		"disks with another file system":  {disk(firstboot.DiskSpec{Destroy: true, Filesystem: "btrfs"}), "btrfs"},
		"disks without file system":       {disk(firstboot.DiskSpec{Destroy: true}), "no file system"},
		"no interfaces":                   {func() (firstboot.Layer, error) { return firstboot.RoCERouting(nil) }, "0 interfaces"},
		"the same interface twice":        {func() (firstboot.Layer, error) { return firstboot.RoCERouting(append(someRoCE(), someRoCE()[0])) }, "twice"},
		"no interface":                    {roce(func(a *firstboot.RoCEAssignment) { a.Interface = "a b" }), "no interface"},
		"the loopback":                    {roce(func(a *firstboot.RoCEAssignment) { a.Interface = "lo" }), "no interface"},
		"no prefix":                       {roce(func(a *firstboot.RoCEAssignment) { a.CIDR = netip.Prefix{} }), "IPv4"},
		"IPv6":                            {roce(func(a *firstboot.RoCEAssignment) { a.CIDR = netip.MustParsePrefix("fd00::1/64") }), "IPv4"},
		"a network":                       {roce(func(a *firstboot.RoCEAssignment) { a.CIDR = netip.MustParsePrefix("10.0.0.0/24") }), "a network"},
		"gateway elsewhere":               {roce(func(a *firstboot.RoCEAssignment) { a.Gateway = netip.MustParseAddr("10.9.0.1") }), "gateway"},
		"tiny MTU":                        {roce(func(a *firstboot.RoCEAssignment) { a.MTU = 100 }), "MTU"},
		"the main table":                  {roce(func(a *firstboot.RoCEAssignment) { a.Table = 254 }), "table"},
		"negative table":                  {roce(func(a *firstboot.RoCEAssignment) { a.Table = -1 }), "table"},
		"agent with a script":             {agent("#!/bin/sh\necho canary\n"), "no cloud-config"},
		"agent with a shell line":         {agent("#cloud-config\nruncmd: [canary]\n"), "argument lists"},
		"agent with more":                 {agent(agentText + "users: [canary]\n"), "more than files"},
		"agent with two documents":        {agent(agentText + "---\na: canary\n"), "more than files"},
		"agent without mode":              {agent("#cloud-config\nwrite_files: [{path: /etc/x, owner: 'root:root', content: canary}]\n"), "mode"},
		"agent with nothing":              {agent("#cloud-config\n{}\n"), "does nothing"},
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

// What is written at the first boot, and later over SSH, is the same.
func TestHardwareSyncWithAndWithoutItsToken(t *testing.T) {
	const url = "http://maas.site.example:5240/MAAS"
	with := must(t)(firstboot.HardwareSync(url, "abc123", someToken, "15m"))
	without := must(t)(firstboot.HardwareSync(url, "abc123", firstboot.MachineToken{}, "15m"))
	if len(with.Files) != len(without.Files)+1 || with.Files[0].Path != firstboot.SyncCredentialsFile {
		t.Fatalf("files are %v and %v", with.Files, without.Files)
	}
	for i, f := range without.Files {
		if f != with.Files[i+1] {
			t.Errorf("%s differs", f.Path)
		}
	}
	later, err := firstboot.SyncCredentials(url+"/", "abc123", someToken)
	if err != nil || later != with.Files[0].Content {
		t.Errorf("later it is %q, %v", later.Reveal(), err)
	}
	if !strings.Contains(without.Files[1].Content.Reveal(), "ConditionPathExists="+firstboot.SyncCredentialsFile+"\n") {
		t.Error("the service does not wait for its credentials")
	}
	if _, err := firstboot.SyncCredentials(url, "abc123", firstboot.MachineToken{}); fault.CodeOf(err) != "first_boot_invalid" {
		t.Errorf("credentials without a token: %v", err)
	}
}
