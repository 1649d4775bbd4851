package ssh_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane/internal/adapter/ssh"
	"gpuaas/controlplane/internal/adapter/ssh/sshtest"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
)

const (
	user     = "hpcadmin"
	password = "canary-deploy-password"
	content  = "canary-of-what-is-sent"
)

// machine repeats its input, or does what the command is named after.
func machine(tb testing.TB) *sshtest.Server {
	tb.Helper()
	return sshtest.Start(tb, user, password, func(command string, stdin []byte) sshtest.Reply {
		switch command {
		case "echo":
			return sshtest.Reply{Stdout: string(stdin)}
		case "fail":
			return sshtest.Reply{
				Stdout: "partly", Stderr: "sudo: a\x1b[31m password\nis required " + content + " " + password,
				Status: 7,
			}
		case "flood":
			return sshtest.Reply{Stdout: strings.Repeat("x", 1<<20)}
		case "hang":
			return sshtest.Reply{Hang: true}
		case "drop":
			return sshtest.Reply{Drop: true}
		}
		return sshtest.Reply{Status: 127}
	})
}

func config(s *sshtest.Server) ssh.Config {
	return ssh.Config{
		Dialer: s, Address: "10.1.2.3:22", User: user, Password: redact.New(password), FirstUse: true,
		Patience: 10 * time.Second,
	}
}

func dial(tb testing.TB, cfg ssh.Config) *ssh.Client {
	tb.Helper()
	c, err := ssh.Dial(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			tb.Logf("close: %v", err)
		}
	})
	return c
}

func wantCode(tb testing.TB, err error, kind fault.Kind, code string) {
	tb.Helper()
	if fault.KindOf(err) != kind || fault.CodeOf(err) != code {
		tb.Fatalf("failure is %v, want %s %s", err, kind, code)
	}
	if f, _ := fault.As(err); f.Remedy == "" {
		tb.Errorf("%s has no remedy", code)
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		if text := fmt.Sprintf("%v %+v", e, e); strings.Contains(text, password) || strings.Contains(text, content) {
			tb.Errorf("a secret is told: %s", text)
		}
	}
}

func TestDataGoesToStandardInput(t *testing.T) {
	s := machine(t)
	c := dial(t, config(s))
	for range 3 {
		out, err := c.Run(t.Context(), "echo", redact.New(content))
		if err != nil || string(out) != content {
			t.Fatalf("%q %v", out, err)
		}
	}
	if got := s.Commands(); len(got) != 3 || strings.Contains(strings.Join(got, " "), content) {
		t.Errorf("commands were %q", got)
	}
	if !strings.HasPrefix(c.HostKey(), "ssh-ed25519 AAAA") {
		t.Errorf("host key is %q", c.HostKey())
	}
}

func TestTheKeyOfAMachineIsPinned(t *testing.T) {
	s := machine(t)
	cfg := config(s)
	cfg.HostKey = dial(t, cfg).HostKey()
	dial(t, cfg)
	// A second key, which the server would prefer to show, changes nothing.
	s.AddRSA(t)
	if again := dial(t, cfg).HostKey(); again != cfg.HostKey {
		t.Errorf("the key is %s", again)
	}
	s.Reinstall(t)
	_, err := ssh.Dial(t.Context(), cfg)
	wantCode(t, err, fault.Conflict, ssh.CodeHostKeyChanged)
	if len(s.Commands()) != 0 {
		t.Error("something was run")
	}
	cfg.HostKey = strings.Replace(cfg.HostKey, "ssh-ed25519", "ecdsa-sha2-nistp256", 1)
	_, err = ssh.Dial(t.Context(), cfg)
	wantCode(t, err, fault.Conflict, ssh.CodeHostKeyChanged)
}

func TestAMachineWithAnRSAKeyIsPinned(t *testing.T) {
	s := machine(t)
	s.SetKeys(t)
	s.AddRSA(t)
	cfg := config(s)
	cfg.HostKey = dial(t, cfg).HostKey()
	if !strings.HasPrefix(cfg.HostKey, "ssh-rsa ") {
		t.Errorf("host key is %q", cfg.HostKey)
	}
	dial(t, cfg)
}

func TestAPasswordThatIsNotTaken(t *testing.T) {
	s := machine(t)
	for name, change := range map[string]func(*ssh.Config){
		"password": func(c *ssh.Config) { c.Password = redact.New("another") },
		"user":     func(c *ssh.Config) { c.User = "nobody" },
	} {
		cfg := config(s)
		change(&cfg)
		_, err := ssh.Dial(t.Context(), cfg)
		t.Log(name)
		wantCode(t, err, fault.Unauthenticated, ssh.CodeRefused)
	}
}

func TestACommandThatFails(t *testing.T) {
	c := dial(t, config(machine(t)))
	_, err := c.Run(t.Context(), "fail", redact.New(content))
	wantCode(t, err, fault.Conflict, ssh.CodeCommandFailed)
	var detail *ssh.CommandError
	if !errors.As(err, &detail) || detail.Status != 7 || detail.Command != "fail" ||
		detail.Stderr != "sudo: a [31m password is required … …" {
		t.Errorf("detail is %+v", detail)
	}
	_, err = c.Run(t.Context(), "unheard of", redact.Secret{})
	wantCode(t, err, fault.Conflict, ssh.CodeCommandFailed)
}

func TestOutputIsBounded(t *testing.T) {
	out, err := dial(t, config(machine(t))).Run(t.Context(), "flood", redact.Secret{})
	if err != nil || len(out) != 256<<10 {
		t.Errorf("%d bytes, %v", len(out), err)
	}
}

// silent accepts connections and says nothing.
func silent(tb testing.TB) *sshtest.Server {
	tb.Helper()
	l, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	return &sshtest.Server{Addr: l.Addr().String()}
}

func TestNothingWaitsForEver(t *testing.T) {
	cfg := config(silent(t))
	cfg.Patience = 50 * time.Millisecond
	_, err := ssh.Dial(t.Context(), cfg)
	wantCode(t, err, fault.Unavailable, ssh.CodeUnreachable)

	cfg = config(machine(t))
	cfg.Patience = 200 * time.Millisecond
	_, err = dial(t, cfg).Run(t.Context(), "hang", redact.Secret{})
	wantCode(t, err, fault.Unavailable, ssh.CodeUnreachable)

	c := dial(t, config(machine(t)))
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err = c.Run(ctx, "hang", redact.Secret{})
	wantCode(t, err, fault.Unavailable, ssh.CodeUnreachable)
	if _, err := c.Run(ctx, "echo", redact.Secret{}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

func TestAMachineThatCannotBeReached(t *testing.T) {
	gone := silent(t)
	cfg := config(gone)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Addr = l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = ssh.Dial(t.Context(), cfg)
	wantCode(t, err, fault.Unavailable, ssh.CodeUnreachable)

	c := dial(t, config(machine(t)))
	_, err = c.Run(t.Context(), "drop", redact.Secret{})
	wantCode(t, err, fault.Unavailable, ssh.CodeUnreachable)
	_, err = c.Run(t.Context(), "echo", redact.Secret{})
	wantCode(t, err, fault.Unavailable, ssh.CodeUnreachable)
}

// keyed returns a machine that one key opens, and how its control plane calls
// it.
func keyed(tb testing.TB) (*sshtest.Server, ssh.Config) {
	tb.Helper()
	var keys [2]ssh.KeyPair
	for i := range keys {
		made, err := ssh.NewKeyPair()
		if err != nil {
			tb.Fatal(err)
		}
		keys[i] = made
	}
	s := machine(tb)
	s.SetPassword("")
	s.SetHostKey(tb, keys[0].Private.Reveal())
	s.Authorize(keys[1].Public)
	return s, ssh.Config{
		Dialer: s, Address: "10.1.2.3:22", User: user, Key: keys[1].Private, HostKey: keys[0].Public,
		Patience: 10 * time.Second,
	}
}

// A machine answers at the address of another one, to be shown its credentials.
func TestAttackAnotherMachineAnswersAtTheAddress(t *testing.T) {
	a, _ := keyed(t)
	_, cfg := keyed(t)
	cfg.Dialer = a
	_, err := ssh.Dial(t.Context(), cfg)
	wantCode(t, err, fault.Conflict, ssh.CodeHostKeyChanged)
	if a.Offered() != 0 || len(a.Commands()) != 0 {
		t.Errorf("it was offered %d credentials, and told %q", a.Offered(), a.Commands())
	}
	cfg.HostKey = ""
	if _, err := ssh.Dial(t.Context(), cfg); fault.CodeOf(err) != "ssh_host_key_unknown" || a.Offered() != 0 {
		t.Errorf("a machine whose key is not known: %v", err)
	}
}

// The key of one machine opens no other, even if its host key is known.
func TestAttackTheKeyOfOneMachineIsTriedOnAnother(t *testing.T) {
	_, own := keyed(t)
	_, cfg := keyed(t)
	dial(t, cfg)
	cfg.Key = own.Key
	_, err := ssh.Dial(t.Context(), cfg)
	wantCode(t, err, fault.Unauthenticated, ssh.CodeRefused)
	cfg.Key = redact.New("canary that is no key")
	if _, err := ssh.Dial(t.Context(), cfg); fault.CodeOf(err) != "ssh_key_unreadable" ||
		strings.Contains(err.Error(), "canary") {
		t.Errorf("no key at all: %v", err)
	}
}
