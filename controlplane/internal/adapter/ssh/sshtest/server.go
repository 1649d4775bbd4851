// Package sshtest runs an SSH server within a test.
package sshtest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/subtle"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
)

// Reply is the result of a command.
type Reply struct {
	Stdout, Stderr string
	Status         uint32
	Hang           bool // the command never ends
	Drop           bool // the connection breaks instead
}

// Server admits one user, by a password or by a key.
type Server struct {
	Addr string

	mu       sync.Mutex
	user     string
	password string
	key      string // a line of authorized_keys; empty: no key
	offered  int
	signers  []ssh.Signer
	handle   func(command string, stdin []byte) Reply
	commands []string
	conns    map[net.Conn]struct{}
}

// Start starts a server that ends with the test.
func Start(tb testing.TB, user, password string, handle func(command string, stdin []byte) Reply) *Server {
	tb.Helper()
	listener, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &Server{
		Addr: listener.Addr().String(), user: user, password: password, handle: handle,
		conns: map[net.Conn]struct{}{},
	}
	s.Reinstall(tb)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { s.serve(conn) })
		}
	})
	tb.Cleanup(func() {
		_ = listener.Close() // nothing is lost with it
		s.hangUp()
		serving.Wait()
	})
	return s
}

// Reinstall gives the machine a new host key.
func (s *Server) Reinstall(tb testing.TB) {
	tb.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	s.SetKeys(tb, key)
}

// AddRSA gives the machine a second host key of another kind.
func (s *Server) AddRSA(tb testing.TB) {
	tb.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		tb.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signers = append(s.signers, signer)
}

// SetKeys sets the host keys of the machine.
func (s *Server) SetKeys(tb testing.TB, keys ...any) {
	tb.Helper()
	var signers []ssh.Signer
	for _, k := range keys {
		signer, err := ssh.NewSignerFromKey(k)
		if err != nil {
			tb.Fatal(err)
		}
		signers = append(signers, signer)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signers = signers
}

// SetPassword sets the password. If it is empty, no password works.
func (s *Server) SetPassword(password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.password = password
}

// Authorize sets the accepted key, as a line of authorized_keys. If it is
// empty, no key works.
func (s *Server) Authorize(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key = line
}

// SetHostKey sets the host key of the machine, in OpenSSH's form.
func (s *Server) SetHostKey(tb testing.TB, private string) {
	tb.Helper()
	key, err := ssh.ParseRawPrivateKey([]byte(private))
	if err != nil {
		tb.Fatal(err)
	}
	s.SetKeys(tb, key)
}

// Offered counts the passwords and keys that callers have shown.
func (s *Server) Offered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offered
}

// Commands returns what was run, in order.
func (s *Server) Commands() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.commands...)
}

// DialContext connects to the server, whatever the address.
func (s *Server) DialContext(ctx context.Context, network, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, s.Addr)
}

func (s *Server) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.Close() // it may have closed by itself
	}
}

func (s *Server) config() *ssh.ServerConfig {
	cfg := &ssh.ServerConfig{
		PasswordCallback: func(who ssh.ConnMetadata, given []byte) (*ssh.Permissions, error) {
			return s.judge(who, func() bool {
				return s.password != "" && subtle.ConstantTimeCompare(given, []byte(s.password)) == 1
			})
		},
		PublicKeyCallback: func(who ssh.ConnMetadata, given ssh.PublicKey) (*ssh.Permissions, error) {
			return s.judge(who, func() bool {
				return s.key != "" && strings.TrimSpace(string(ssh.MarshalAuthorizedKey(given))) == s.key
			})
		},
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.signers {
		cfg.AddHostKey(k)
	}
	return cfg
}

func (s *Server) judge(who ssh.ConnMetadata, opens func() bool) (*ssh.Permissions, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offered++
	if who.User() != s.user || !opens() {
		return nil, errors.New("no")
	}
	return nil, nil //nolint:nilnil // no permissions beyond the usual
}

func (s *Server) serve(conn net.Conn) {
	s.mu.Lock()
	s.conns[conn] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.conns, conn)
		s.mu.Unlock()
		_ = conn.Close() // the other side may have been first
	}()
	_, channels, requests, err := ssh.NewServerConn(conn, s.config())
	if err != nil {
		return
	}
	var sessions sync.WaitGroup
	defer sessions.Wait()
	sessions.Go(func() { ssh.DiscardRequests(requests) })
	for channel := range channels {
		session, asked, err := channel.Accept()
		if err != nil {
			return
		}
		sessions.Go(func() { s.session(conn, session, asked) })
	}
}

func (s *Server) session(conn net.Conn, session ssh.Channel, asked <-chan *ssh.Request) {
	defer func() { _ = session.Close() }() // the connection may be gone
	for r := range asked {
		if r.Type != "exec" {
			_ = r.Reply(false, nil)
			continue
		}
		var exec struct{ Command string }
		if ssh.Unmarshal(r.Payload, &exec) != nil || r.Reply(true, nil) != nil {
			return
		}
		stdin, err := io.ReadAll(session)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.commands = append(s.commands, exec.Command)
		s.mu.Unlock()
		reply := s.handle(exec.Command, stdin)
		if reply.Drop {
			_ = conn.Close() // that is what was asked for
			return
		}
		if reply.Hang {
			ssh.DiscardRequests(asked)
			return
		}
		_, _ = io.WriteString(session, reply.Stdout)
		_, _ = io.WriteString(session.Stderr(), reply.Stderr)
		_, _ = session.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{reply.Status}))
		return
	}
}
