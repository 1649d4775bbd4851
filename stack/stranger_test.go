package stack

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	natsgo "github.com/nats-io/nats.go"
)

// strangerVariable makes the test binary another account of the same machine.
const strangerVariable = "GPUAAS_STACK_TEST_STRANGER"

// targets are what a stranger can learn from ss and ps alone.
type targets struct {
	Temporal []string // every port that the process listens on
	Postgres string
	NATS     string
	Bao      string
	Files    []string
}

// strangerMain tries all doors and prints those that open.
func strangerMain(raw string) int {
	var t targets
	if err := json.Unmarshal([]byte(raw), &t); err != nil {
		fmt.Println("error:", err)
		return 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, address := range t.Temporal {
		t.tryTemporal(ctx, address)
	}
	for _, role := range []string{superuser, ownerRole, productRole, temporalRole} {
		conn, err := pgx.Connect(ctx, "postgres://"+role+"@"+t.Postgres+"/"+superuserDatabase+"?sslmode=disable")
		if err == nil {
			_ = conn.Close(ctx)
			fmt.Println("opened: postgres as", role)
		}
	}
	if c, err := natsgo.Connect(t.NATS); err == nil {
		c.Close()
		fmt.Println("opened: nats")
	}
	t.tryBao(ctx)
	for _, file := range t.Files {
		if _, err := os.ReadFile(file); err == nil {
			fmt.Println("opened: file", file)
		}
	}
	fmt.Println("tried everything")
	return 0
}

// tryTemporal speaks HTTP/2, as gRPC does: in the clear, then over TLS without
// a certificate, then with one that the stranger made.
func (t targets) tryTemporal(ctx context.Context, address string) {
	own, err := strangersCertificate()
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	for how, config := range map[string]*tls.Config{
		"in the clear":          nil,
		"without a certificate": {InsecureSkipVerify: true, NextProtos: []string{"h2"}},
		"with a certificate of mine": {
			InsecureSkipVerify: true, NextProtos: []string{"h2"},
			Certificates: []tls.Certificate{own},
		},
		"with their server's by name": {InsecureSkipVerify: true, NextProtos: []string{"h2"}, ServerName: "localhost"},
	} {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			fmt.Println("error: dial", address, err)
			continue
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		if answersHTTP2(conn, config) {
			fmt.Println("opened: temporal", address, how)
		}
		_ = conn.Close()
	}
}

// answersHTTP2 says whether the server greets: its SETTINGS come before any
// request, and only to callers that it accepts.
func answersHTTP2(conn net.Conn, config *tls.Config) bool {
	if config != nil {
		conn = tls.Client(conn, config)
	}
	const settings = 4
	if _, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"); err != nil {
		return false
	}
	var header [9]byte
	_, err := io.ReadFull(conn, header[:])
	return err == nil && header[3] == settings
}

func strangersCertificate() (tls.Certificate, error) {
	dir, err := os.MkdirTemp("", "stranger-")
	if err != nil {
		return tls.Certificate{}, err
	}
	defer os.RemoveAll(dir)
	c := certificates{dir}
	if err := c.make(time.Now()); err != nil {
		return tls.Certificate{}, err
	}
	return tls.LoadX509KeyPair(c.client(), c.clientKey())
}

func (t targets) tryBao(ctx context.Context) {
	for _, door := range []struct{ method, path, body string }{
		{http.MethodPut, "sys/init", `{"secret_shares":1,"secret_threshold":1}`},
		{http.MethodGet, "sys/mounts", ""},
		{http.MethodGet, "sys/policies/acl/gpuaas", ""},
		{http.MethodGet, "gpuaas-kv/data/sites/a", ""},
		{http.MethodGet, "gpuaas-kv/metadata/?list=true", ""},
		{http.MethodPost, "gpuaas-transit/sign/tasks", `{"input":"aGk="}`},
		{http.MethodPost, "gpuaas-pki/sign/node", `{}`},
		{http.MethodPost, "gpuaas-server-pki/issue/control-plane", `{}`},
		{http.MethodPost, "auth/approle/login", `{"role_id":"gpuaas","secret_id":"guess"}`},
		{http.MethodGet, "sys/rekey/init", ""},
		{http.MethodPut, "sys/seal", ""},
	} {
		r, err := http.NewRequestWithContext(ctx, door.method, t.Bao+"/v1/"+door.path, strings.NewReader(door.body))
		if err != nil {
			fmt.Println("error:", err)
			return
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			fmt.Println("error:", err)
			continue
		}
		_ = answer.Body.Close()
		if answer.StatusCode < 400 {
			fmt.Println("opened: bao", door.method, door.path, answer.StatusCode)
		}
	}
}

// Another account of the machine reaches every port on loopback. It must get no
// further, and read none of the files that would help it.
func TestAttackAnotherAccountUsesTheEngines(t *testing.T) {
	credential, _ := ordinary(t)
	s := start(t, Options{State: state(t)})
	p := s.Endpoints()
	at := targets{
		Temporal: portsOf(t, s.PID(Temporal)), Postgres: s.postgres().address(), NATS: p.NATSURL, Bao: p.SecretsAddress,
	}
	if len(at.Temporal) != 4 || !slices.Contains(at.Temporal, p.TemporalAddress) {
		t.Errorf("Temporal listens on %v, want its four services on loopback and nothing else", at.Temporal)
	}
	if credential != nil { // else the stranger is the owner of the files
		at.Files = []string{
			p.TemporalCAFile, p.TemporalCertFile, p.TemporalKeyFile, s.folder.path("temporal", "tls", "server-key.pem"),
			s.folder.path("temporal", "config.json"), p.SecretsSecretIDFile, p.NATSTokenFile, s.folder.path("bao", baoKeysFile),
		}
	}
	for _, line := range askStranger(t, credential, at) {
		if line != "tried everything" {
			t.Error(line)
		}
	}
	if err := putTemporal(t.Context(), p); err != nil {
		t.Errorf("the control plane's own certificate: %v", err)
	}
}

func askStranger(t *testing.T, credential *syscall.Credential, at targets) []string {
	t.Helper()
	home := filepath.Dir(state(t))
	copyProgram(t, testBinary(t), filepath.Join(home, "stranger"))
	raw, err := json.Marshal(at)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(home, "stranger"))
	cmd.Dir, cmd.Env = "/", []string{strangerVariable + "=" + string(raw), "PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	out, err := cmd.CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err != nil || !slices.Contains(lines, "tried everything") {
		t.Fatalf("the stranger ended early: %v\n%s", err, out)
	}
	return lines
}

// portsOf is every TCP address that a process listens on, IPv6 included.
func portsOf(t *testing.T, pid int) []string {
	t.Helper()
	sockets := map[string]bool{}
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil {
			sockets[strings.TrimSuffix(strings.TrimPrefix(to, "socket:["), "]")] = true
		}
	}
	var found []string
	for _, table := range []string{"tcp", "tcp6"} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(b) {
			field := strings.Fields(string(line))
			const listen = "0A"
			if len(field) < 10 || field[3] != listen || !sockets[field[9]] {
				continue
			}
			var port int
			host, hex, _ := strings.Cut(field[1], ":")
			if _, err := fmt.Sscanf(hex, "%X", &port); err != nil {
				t.Fatal(err)
			}
			if host != "0100007F" {
				t.Errorf("process %d listens on %s %s, which is not loopback", pid, table, field[1])
			}
			found = append(found, hostPort(port))
		}
	}
	return found
}
