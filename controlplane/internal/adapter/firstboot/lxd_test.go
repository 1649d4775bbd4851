package firstboot_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gpuaas/controlplane/internal/adapter/firstboot"
	"gpuaas/controlplane/internal/adapter/ssh"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/sim/rack"
)

// The site makes the interface that a real machine would have.
const siteWithInterface = `#!/bin/sh
set -eu
umask
ip link add roce0 type veth peer name roce1
ip address add 172.30.9.61/31 dev roce0
# Images refuse passwords over SSH like this.
echo 'PasswordAuthentication no' >/etc/ssh/sshd_config.d/50-cloud-init.conf
systemctl reload ssh.service
echo ok >/etc/site-was-here
`

func openRack(ctx context.Context, t *testing.T) rack.Rack {
	t.Helper()
	r, err := rack.Open(ctx, rack.Options{
		Kind: rack.LXD, Folder: t.TempDir(), Throwaway: true,
		Progress: func(s string) { t.Log(s) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := r.Remove(ctx); err != nil {
			t.Error(err)
		}
	})
	return r
}

func shell(ctx context.Context, t *testing.T, m rack.Machine, line string) string {
	t.Helper()
	out, err := m.Exec(ctx, nil, "sh", "-c", line)
	if err != nil {
		t.Errorf("%s: %v", line, err)
	}
	return strings.TrimSpace(out)
}

func says(ctx context.Context, t *testing.T, m rack.Machine, want map[string]string) {
	t.Helper()
	for line, text := range want {
		if got := shell(ctx, t, m, line); got != text {
			t.Errorf("%s: %q, want %q", line, got, text)
		}
	}
}

// reporter only says how it was called.
const reporter = "#!/bin/sh\necho \"$@\" >/run/reported\n"

var reporterDigest = func() string {
	sum := sha256.Sum256([]byte(reporter))
	return hex.EncodeToString(sum[:])
}()

// handedOut is the program that MAAS hands out now.
var handedOut atomic.Value

// serveMAAS serves the part of MAAS that hardware sync needs: the program that
// reports.
func serveMAAS(ctx context.Context, t *testing.T, r rack.Rack) string {
	t.Helper()
	handedOut.Store(reporter)
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(r.HostAddress(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /MAAS/maas-run-scripts", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(handedOut.Load().(string)))
	})
	server := httptest.NewUnstartedServer(mux)
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)
	return server.URL + "/MAAS"
}

// login runs a program over SSH as the deploy user, who must find the host key
// that the first boot brought.
func login(ctx context.Context, t *testing.T, m rack.Machine, user string, l logins, line string) (string, error) {
	t.Helper()
	address, err := m.Address(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c, err := ssh.Dial(ctx, ssh.Config{
		Dialer: &net.Dialer{}, Address: net.JoinHostPort(address, "22"), User: user, Key: l.login.Private,
		HostKey: l.host.Public, Patience: 10 * time.Second,
	})
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	out, err := c.Run(ctx, ssh.Command(line), redact.Secret{})
	return strings.TrimSpace(string(out)), err
}

// logins are as the control plane makes them.
type logins struct{ host, login ssh.KeyPair }

func newLogins(t *testing.T) (l logins) {
	t.Helper()
	for _, k := range []*ssh.KeyPair{&l.host, &l.login} {
		made, err := ssh.NewKeyPair()
		if err != nil {
			t.Fatal(err)
		}
		*k = made
	}
	return l
}

func layersFor(t *testing.T, site, maas string, l logins) []firstboot.Layer {
	t.Helper()
	m := must(t)
	return []firstboot.Layer{
		m(firstboot.SiteBundle([]byte(site), "7")),
		m(firstboot.DeployUser("deploy", l.login.Public, firstboot.HostKey{Private: l.host.Private, Public: l.host.Public})),
		// MAAS has made no token yet
		m(firstboot.HardwareSync(firstboot.SyncSource{URL: maas, Digest: reporterDigest}, "abc123", "15m")),
		m(firstboot.RoCERouting([]firstboot.RoCEAssignment{{
			Interface: "roce0", CIDR: netip.MustParsePrefix("172.30.9.61/31"),
			MTU: 9000,
		}})),
		m(firstboot.AgentBootstrap(redact.New(agentText))),
	}
}

// Real machines: cloud-init accepts the document, and systemd what it sets up.
func TestMachinesCarryOutTheLayers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	r := openRack(ctx, t)
	maas := serveMAAS(ctx, t, r)
	keys := newLogins(t)
	good := compose(t, layersFor(t, siteWithInterface, maas, keys)...)
	bad := compose(t, layersFor(t, "#!/bin/sh\necho 'no licence server' >&2\nexit 9\n", maas, keys)...)
	machine := func(name string, b firstboot.Bundle) rack.Machine {
		m, err := r.Machine(ctx, rack.Spec{Name: name, UserData: []byte(b.UserData.Reveal())})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	works, fails := machine("works", good), machine("fails", bad)
	if err := works.Booted(ctx); err != nil {
		t.Fatalf("%v\n%s", err, shell(ctx, t, works, "cat "+firstboot.Folder+"/*.json "+firstboot.Folder+"/*.log"))
	}
	t.Run("all layers", func(t *testing.T) { allLayers(ctx, t, works, good, keys) })
	t.Run("SSH by key", func(t *testing.T) { sshByKey(ctx, t, works, keys) })
	t.Run("credentials of hardware sync come later", func(t *testing.T) { lateCredentials(ctx, t, works, maas) })
	t.Run("another program is not run", func(t *testing.T) {
		handedOut.Store("#!/bin/sh\ntouch /run/evil\n")
		evil(ctx, t, works)
	})
	t.Run("the site bundle fails", func(t *testing.T) { siteFails(ctx, t, fails, keys) })
}

func sshByKey(ctx context.Context, t *testing.T, m rack.Machine, keys logins) {
	if got, err := login(ctx, t, m, "deploy", keys, "sudo -n id -u"); err != nil || got != "0" {
		t.Errorf("the deploy user gets %q, %v", got, err)
	}
	other := newLogins(t)
	if _, err := login(ctx, t, m, "deploy", logins{host: keys.host, login: other.login},
		"true"); fault.CodeOf(err) != ssh.CodeRefused {
		t.Errorf("the key of another machine: %v", err)
	}
	if _, err := login(ctx, t, m, "deploy", logins{host: other.host, login: keys.login},
		"true"); fault.CodeOf(err) != ssh.CodeHostKeyChanged {
		t.Errorf("the host key of another machine: %v", err)
	}
}

func lateCredentials(ctx context.Context, t *testing.T, m rack.Machine, maas string) {
	says(ctx, t, m, map[string]string{
		"ls /etc/maas 2>/dev/null": "maas-run-scripts.sha256",
		"systemctl start maas_hardware_sync.service && systemctl show -P ConditionResult maas_hardware_sync.service": "no",
		"ls /run/reported 2>/dev/null | wc -l": "0",
	})
	text, err := firstboot.SyncCredentials(maas, "abc123", someToken)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Push(ctx, firstboot.SyncCredentialsFile, 0o600, []byte(text.Reveal())); err != nil {
		t.Fatal(err)
	}
	says(ctx, t, m, map[string]string{
		"systemctl start maas_hardware_sync.service; cat /run/reported": "report-results --config " +
			"/etc/maas/maas-machine-creds.yml",
	})
}

// evil replaces what MAAS hands out: the machine fetches it and does not run
// it.
func evil(ctx context.Context, t *testing.T, m rack.Machine) {
	says(ctx, t, m, map[string]string{
		"rm -f /run/reported; systemctl start maas_hardware_sync.service >/dev/null 2>&1; ls /run/reported /run/evil " +
			"2>/dev/null | wc -l": "0",
	})
}

func allLayers(ctx context.Context, t *testing.T, m rack.Machine, b firstboot.Bundle, keys logins) {
	check := func() {
		t.Helper()
		for i, place := range []string{
			"01-site-bundle", "02-deploy-user", "03-hardware-sync", "04-roce-routing",
			"05-agent-bootstrap",
		} {
			got := parse(t, shell(ctx, t, m, "cat "+firstboot.Folder+"/"+place+".json"))
			ref := firstboot.LayerRef{Name: got.Layer, Version: got.Version, Digest: got.Digest}
			if got.State != "succeeded" || ref != b.Layers[i] {
				t.Errorf("record of %s: %+v", place, got)
			}
		}
	}
	check()
	if err := m.Push(ctx, "/root/user-data", 0o600, []byte(b.UserData.Reveal())); err != nil {
		t.Fatal(err)
	}
	if said := shell(ctx, t, m, "cloud-init schema --config-file /root/user-data 2>&1"); !strings.Contains(said, "Valid") {
		t.Errorf("cloud-init says %q", said)
	}
	says(ctx, t, m, map[string]string{
		"ls " + firstboot.Folder + "/layers":                                               "", // with the secrets in it
		"stat -c %a " + firstboot.Folder:                                                   "700",
		"grep -c ^0022 " + firstboot.Folder + "/01-site-bundle.log":                        "1",
		"cat /etc/site-was-here":                                                           "ok",
		"getent shadow deploy | cut -d: -f2":                                               "*",
		"cat ~deploy/.ssh/authorized_keys":                                                 keys.login.Public,
		"cut -d' ' -f1,2 /etc/ssh/ssh_host_ed25519_key.pub":                                keys.host.Public,
		"ls /etc/ssh/ssh_host_*_key":                                                       "/etc/ssh/ssh_host_ed25519_key",
		"stat -c '%U %a' ~deploy/.ssh/authorized_keys":                                     "deploy 600",
		"runuser -u deploy -- sudo -n id -u":                                               "0",
		"visudo -c >/dev/null; echo $?":                                                    "0",
		"stat -c %a /etc/sudoers.d/gpuaas-deploy":                                          "440",
		"sshd -T -C user=deploy,host=h,addr=10.0.0.1 | grep ^passwordauthentication":       "passwordauthentication no",
		"sshd -T -C user=other,host=h,addr=10.0.0.1 | grep ^passwordauthentication":        "passwordauthentication no",
		"systemctl is-enabled maas_hardware_sync.timer":                                    "enabled",
		"systemctl is-active maas_hardware_sync.timer":                                     "active",
		"systemd-analyze verify maas_hardware_sync.timer gpuaas-roce-routing.service 2>&1": "",
		"systemctl show -P TimersMonotonic maas_hardware_sync.timer | grep -o 'On[A-Za-z]*USec=[0-9a-z]*' | sort | tr " +
			"'\\n' ' '": "OnActiveUSec=30s OnUnitActiveUSec=15min",
		"systemctl is-enabled gpuaas-roce-routing.service": "enabled",
		"systemctl is-active gpuaas-roce-routing.service":  "active",
		"cat /sys/class/net/roce0/mtu":                     "9000",
		"ip -4 rule show priority 10000 | tr '\\t' ' '":    "10000: from 172.30.9.61 lookup 1000",
		"cat /etc/enrolled":                                "enrolled",
	})
	if got := shell(ctx, t, m, "ip -4 route show table 1000"); !strings.Contains(got,
		"default via 172.30.9.60 dev roce0") || !strings.Contains(got,
		"172.30.9.60/31 dev roce0 scope link src 172.30.9.61") {
		t.Errorf("routes are %q", got)
	}
	// A second run does nothing twice, and routing can be set up at any time.
	shell(ctx, t, m, "rm /etc/enrolled; sh "+firstboot.Folder+"/run; systemctl restart gpuaas-roce-routing.service")
	check()
	says(ctx, t, m, map[string]string{
		"ls /etc/enrolled 2>&1 | grep -c 'No such'": "1",
		"ip -4 rule show priority 10000 | wc -l":    "1",
	})
}

func siteFails(ctx context.Context, t *testing.T, m rack.Machine, keys logins) {
	if err := m.Booted(ctx); err == nil || !strings.Contains(err.Error(), "status: error") {
		t.Errorf("boot: %v", err)
	}
	got := parse(t, shell(ctx, t, m, "cat "+firstboot.Folder+"/01-site-bundle.json"))
	if got.State != "failed" || got.Layer != "site-bundle" || got.Version != "7" || *got.ExitCode != 9 ||
		!strings.HasPrefix(got.Step, "run /usr/local/lib/gpuaas-firstboot/site-bundle") ||
		!strings.HasSuffix(got.Reason, "no licence server") {
		t.Errorf("record: %+v", got)
	}
	says(ctx, t, m, map[string]string{
		"ls " + firstboot.Folder + "/*.json | tr '\\n' ' '": firstboot.Folder +
			"/01-site-bundle.json " + firstboot.Folder + "/02-deploy-user.json",
		"ls /etc/maas /etc/enrolled 2>/dev/null | wc -l":                                       "0",
		"grep -c 'layer site-bundle, version 7, failed with 9' /var/log/cloud-init-output.log": "1",
	})
	// Somebody can get in and read it.
	told, err := login(ctx, t, m, "deploy", keys, "sudo -n cat "+firstboot.Folder+"/01-site-bundle.json")
	if err != nil || parse(t, told).Reason != got.Reason {
		t.Errorf("the deploy user reads %q, %v", told, err)
	}
}
