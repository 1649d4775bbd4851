package lab_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/net/proxy"

	"gpuaas/sim/lab"
	"gpuaas/sim/maas"
	"gpuaas/sim/maas/fleet"
	"gpuaas/sim/maas/region"
	"gpuaas/testkit"
)

var admin = region.Caller{User: &region.User{Name: "admin", Admin: true}}

func open(t *testing.T, machines int, change func(*lab.Options)) *lab.Lab {
	t.Helper()
	o := lab.Options{
		Region:     maas.Options{Fleet: fleet.Options{Machines: machines, Stage: "ready"}},
		DeployUser: "deployer", DeployPassword: "deploy-canary",
	}
	if change != nil {
		change(&o)
	}
	l, err := lab.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func deploy(t *testing.T, l *lab.Lab, id, payload string) {
	t.Helper()
	deploySoon(t, l, id, payload)
	testkit.Eventually(t, "Deployed", func() bool { return brief(t, l, id).Status == "Deployed" })
}

func deploySoon(t *testing.T, l *lab.Lab, id, payload string) {
	t.Helper()
	data := base64.StdEncoding.EncodeToString([]byte(payload))
	if _, err := l.Deploy(admin, id, url.Values{"user_data": {data}, "enable_hw_sync": {"true"}}); err != nil {
		t.Fatal(err)
	}
}

func release(t *testing.T, l *lab.Lab, id string) {
	t.Helper()
	if _, err := l.Release(t.Context(), admin, id, url.Values{}); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "Ready", func() bool { return brief(t, l, id).Status == "Ready" })
}

func brief(t *testing.T, l *lab.Lab, id string) region.Brief {
	t.Helper()
	b, ok := l.Brief(id)
	if !ok {
		t.Fatalf("MAAS does not know machine %s", id)
	}
	return b
}

func dial(t *testing.T, l *lab.Lab, address string) (net.Conn, error) {
	t.Helper()
	d, err := proxy.SOCKS5("tcp", strings.TrimPrefix(l.SSHProxy, "socks5://"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return d.(proxy.ContextDialer).DialContext(ctx, "tcp", address)
}

// login signs in to the machine that has an address, and says what its key is.
func login(t *testing.T, l *lab.Lab, address, user, password string) (client *ssh.Client, key string, err error) {
	t.Helper()
	conn, err := dial(t, l, net.JoinHostPort(address, "22"))
	if err != nil {
		return nil, "", err
	}
	c, channels, requests, err := ssh.NewClientConn(conn, address, &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.Password(password)},
		HostKeyCallback: func(_ string, _ net.Addr, k ssh.PublicKey) error { key = ssh.FingerprintSHA256(k); return nil },
	})
	if err != nil {
		return nil, key, errors.Join(err, conn.Close())
	}
	client = ssh.NewClient(c, channels, requests)
	t.Cleanup(func() { _ = client.Close() })
	return client, key, nil
}

// enter waits until the machine can be signed in to: it boots beside MAAS.
func enter(t *testing.T, l *lab.Lab, id string) (client *ssh.Client, key string) {
	t.Helper()
	testkit.Eventually(t, "the machine to let somebody in",
		func() (in bool) { client, key, in = tryEnter(t, l, id); return in })
	return client, key
}

func enterReal(t *testing.T, l *lab.Lab, id string) (client *ssh.Client, key string) {
	t.Helper()
	testkit.Eventually(t, "the machine to let somebody in",
		func() (in bool) { client, key, in = tryEnter(t, l, id); return in })
	return client, key
}

func tryEnter(t *testing.T, l *lab.Lab, id string) (client *ssh.Client, key string, in bool) {
	t.Helper()
	b := brief(t, l, id)
	if len(b.Addresses) == 0 {
		return nil, "", false
	}
	client, key, err := login(t, l, b.Addresses[0], l.DeployUser, l.DeployPassword)
	return client, key, err == nil
}

func say(t *testing.T, c *ssh.Client, line, input string) (output string, code int) {
	t.Helper()
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	var out bytes.Buffer
	s.Stdin, s.Stdout = strings.NewReader(input), &out
	err = s.Run(line)
	var exit *ssh.ExitError
	if errors.As(err, &exit) {
		return out.String(), exit.ExitStatus()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), 0
}

func mustSay(t *testing.T, c *ssh.Client, line, input string) string {
	t.Helper()
	out, code := say(t, c, line, input)
	if code != 0 {
		t.Fatalf("%s: ended with %d", line, code)
	}
	return out
}

// The lines of the control plane.
const (
	push   = "cat | sudo -n install -D -m 0600 /dev/stdin /etc/maas/maas-machine-creds.yml"
	enable = "sudo -n systemctl enable maas_hardware_sync.timer"
	timer  = "sudo -n systemctl restart maas_hardware_sync.timer"
	start  = "sudo -n systemctl start --no-block maas_hardware_sync.service"
	look   = "sudo -n find /var/lib/gpuaas-firstboot -maxdepth 1 -name '[0-9][0-9]-*.json' -exec cat {} +"
	again  = "sudo -n systemd-run --collect --quiet /bin/sh /var/lib/gpuaas-firstboot/run"
)

// credentials are what the control plane brings to a machine.
func credentials(t *testing.T, l *lab.Lab, id string, spoil func(string) string) string {
	t.Helper()
	answer, err := l.MachineToken(admin, id)
	if err != nil {
		t.Fatal(err)
	}
	token, _ := answer.(map[string]string)
	return fmt.Sprintf("reporting:\n  maas:\n    endpoint: %q\n    consumer_key: %q\n    token_key: %q\n    "+
		"token_secret: %q\n",
		l.URL+"/metadata/status/"+id, token["consumer_key"], token["token_key"], spoil(token["token_secret"]))
}

func asIs(s string) string { return s }
