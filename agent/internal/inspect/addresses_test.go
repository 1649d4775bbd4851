package inspect

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gpuaas/agent/internal/hostexec"
)

func TestAddressesAreThoseOfTheMachine(t *testing.T) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	var have []netip.Addr
	for _, a := range all {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			have = append(have, prefix.Addr().Unmap())
		}
	}
	var before netip.Addr
	for _, text := range (Machine{}).Addresses() {
		at, err := netip.ParseAddr(text)
		if err != nil || !slices.Contains(have, at) || !at.IsGlobalUnicast() || at.Compare(before) <= 0 {
			t.Errorf("%q after %s, of %s: %v", text, before, have, err)
		}
		before = at
	}
	if got := (Machine{Host: hostexec.Host{Root: t.TempDir()}}).Addresses(); got != nil {
		t.Errorf("a machine that is only files has addresses: %v", got)
	}
}

// place writes files of a machine; one that ends in a slash is a folder.
func place(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(root, name)
		folder := filepath.Dir(path)
		if name[len(name)-1] == '/' {
			folder = path
		}
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if folder == path {
			continue
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestInterfacesThatLeadOut(t *testing.T) {
	root := t.TempDir()
	place(t, root, map[string]string{
		"sys/class/net/eno1/device/":            "",
		"sys/class/net/bond0/lower_eno1/":       "",
		"sys/class/net/bond0.100/lower_bond0/":  "",
		"sys/class/net/veth1/":                  "",
		"sys/class/net/br0/bridge/":             "",
		"sys/class/net/br0/brif/bond0.100/":     "",
		"sys/class/net/br1/bridge/":             "",
		"sys/class/net/br1/brif/eno1/":          "",
		"sys/class/net/docker0/bridge/":         "",
		"sys/class/net/docker0/brif/veth1/":     "",
		"sys/class/net/virbr0/bridge/":          "",
		"sys/class/net/tap0/tun_flags":          "0x1002",
		"sys/class/net/br-tenant/bridge/":       "",
		"sys/class/net/br-tenant/brif/vanished": "",
	})
	m := Machine{Host: hostexec.Host{Root: root}}
	for name, want := range map[string]bool{
		"eno1": true, "bond0": true, "bond0.100": true, "br0": true, "br1": true, "eth0": true,
		"docker0": false, "virbr0": false, "tap0": false, "br-tenant": false,
	} {
		if got := m.outward(name); got != want {
			t.Errorf("%s leads out: %t", name, got)
		}
	}
}

func TestTemporaryAddresses(t *testing.T) {
	root := t.TempDir()
	place(t, root, map[string]string{"proc/net/if_inet6": "" +
		"fd000000000000000000000000000002 04 40 00 82     eth0\n" +
		"fd000000000000000000000000000003 04 40 00 01     eth0\n" +
		"fd000000000000000000000000000004 04 40 00 21     eth0\n" +
		"zz000000000000000000000000000005 04 40 00 01     eth0\n" +
		"fd0000000000000000000000000006 04 40 00 01     eth0\n" +
		"fd000000000000000000000000000007 04 40 00 xx     eth0\n" +
		"half a line\n"})
	got := Machine{Host: hostexec.Host{Root: root}}.temporary()
	if len(got) != 2 || !got[netip.MustParseAddr("fd00::3")] || !got[netip.MustParseAddr("fd00::4")] {
		t.Errorf("temporary: %v", got)
	}
	if got := (Machine{Host: hostexec.Host{Root: t.TempDir()}}).temporary(); len(got) != 0 {
		t.Errorf("of a machine without IPv6: %v", got)
	}
}
