package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gpuaas/stack"
	"gpuaas/stack/stacktest"
	"gpuaas/testkit"
)

// TestRoles runs two processes of each role on one set of engines and loses one
// of each.
func TestRoles(t *testing.T) {
	t.Parallel()
	engines := stacktest.Start(t, stack.Options{})
	start := func(role string) *plane {
		return startPlane(t, engines.Endpoints(), planeOptions{roles: role, waiting: true})
	}
	// All at once: each of them may be the one that migrates.
	apis := []*plane{start("api"), start("api")}
	workers := []*plane{start("worker"), start("worker")}
	relays := []*plane{start("relay"), start("relay")}
	for _, group := range [][]*plane{apis, workers, relays} {
		for _, p := range group {
			p.awaitReady(t)
		}
	}
	apis[0].token = strings.TrimSpace(succeed(t, apis[0].env, "admin", "bootstrap"))
	apis[1].token = apis[0].token
	if a, err := workers[0].call(t.Context(), http.MethodGet, "/api/v1/tenants", nil); err != nil ||
		a.status != http.StatusNotFound {
		t.Errorf("a worker answers %s, %v, want that it serves no API", a, err)
	}

	var turn atomic.Uint64
	l := startLoad(t, func() *plane { return apis[turn.Add(1)%2] }, func(_ answer, err error) bool {
		return errors.Is(err, syscall.ECONNREFUSED) // the replica that was shut down
	})
	l.awaitMore(t)
	for _, victim := range []*plane{workers[0], relays[0]} {
		victim.signal(syscall.SIGKILL)
		victim.exit(t, time.Minute)
	}
	l.awaitMore(t)
	shutDown(t, apis[1])
	l.awaitMore(t)
	l.stop(t)
	l.verify(t, apis[0])
}

// shutDown ends an API replica while a request and a stream are under way.
func shutDown(t *testing.T, p *plane) {
	t.Helper()
	stream := openStream(t, p)
	request := beginRequest(t, p)
	p.signal(syscall.SIGTERM)
	address := strings.TrimPrefix(p.url, "http://")
	testkit.Succeeds(t, "the replica to take no new connections", 30*time.Second, func() error {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err == nil {
			_ = c.Close()
			return errors.New("it took one")
		}
		return nil
	})
	request.finish(t)
	rest, err := io.ReadAll(stream)
	if err != nil {
		t.Errorf("the stream broke off: %v", err)
	}
	if !strings.Contains(string(rest), "event: problem\n") || !strings.Contains(string(rest), `"server_shutting_down"`) {
		t.Errorf("the stream ended with %q, want the reason", rest[max(0, len(rest)-500):])
	}
	if code := p.exit(t, time.Minute); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0", code)
	}
}

// openStream follows events, and returns once the replica streams.
func openStream(t *testing.T, p *plane) io.Reader {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+"/api/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+p.token)
	resp, err := p.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("open the event stream: status %d", resp.StatusCode)
	}
	return resp.Body
}

// underway is a request whose body the control plane is waiting for.
type underway struct {
	conn net.Conn
	in   *bufio.Reader
	body []byte
}

// beginRequest sends the head of a request and waits until its handler asks for
// the body.
func beginRequest(t *testing.T, p *plane) *underway {
	t.Helper()
	address := strings.TrimPrefix(p.url, "http://")
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(naming{"in-flight", "In flight"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fprintf(conn, "POST /api/v1/admin/tenants HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", address, p.token, len(body))
	if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	line, err := in.ReadString('\n')
	if err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("the replica answers %q, %v, want that it asks for the body", line, err)
	}
	if _, err := in.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return &underway{conn, in, body}
}

func (u *underway) finish(t *testing.T) {
	t.Helper()
	if _, err := u.conn.Write(u.body); err != nil {
		t.Errorf("the request in flight was cut off: %v", err)
		return
	}
	resp, err := http.ReadResponse(u.in, nil)
	if err != nil {
		t.Errorf("the request in flight was not answered: %v", err)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusCreated {
		t.Errorf("the request in flight was answered with status %d, want 201", resp.StatusCode)
	}
}
