package lab

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

const (
	// mostInput limits the input of a command.
	mostInput = 1 << 20
	// loginPatience is how long a client may take to sign in.
	loginPatience = 30 * time.Second
)

var errLogin = errors.New("permission denied")

// serveSSH acts as the sshd of a machine that has none.
func (l *Lab) serveSSH(ctx context.Context, conn net.Conn, h *host) {
	config := &ssh.ServerConfig{
		MaxAuthTries: 3, ServerVersion: "SSH-2.0-gpuaas-lab",
		PasswordCallback: func(c ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
			if h.login.User != "" || !l.opens(c.User(), password) { // a payload that makes a login makes no password
				return nil, errLogin
			}
			return &ssh.Permissions{}, nil
		},
		PublicKeyCallback: func(c ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if !h.opensTo(c.User(), key) {
				return nil, errLogin
			}
			return &ssh.Permissions{}, nil
		},
	}
	config.AddHostKey(h.key)
	if conn.SetDeadline(time.Now().Add(loginPatience)) != nil {
		return
	}
	server, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		l.log.Debug("sign in to machine", "machine", h.systemID, "error", err)
		return
	}
	defer func() { _ = server.Close() }()
	if conn.SetDeadline(time.Time{}) != nil {
		return
	}
	var working sync.WaitGroup
	defer working.Wait()
	working.Go(func() { ssh.DiscardRequests(requests) })
	for c := range channels {
		if c.ChannelType() != "session" {
			_ = c.Reject(ssh.UnknownChannelType, "this machine only runs commands") // a client that has gone cannot be told
			continue
		}
		channel, asked, err := c.Accept()
		if err != nil {
			continue // the connection is gone
		}
		working.Go(func() { session(ctx, h, channel, asked) })
	}
}

// ShutOut refuses everybody at a machine over SSH, by its host name, until
// LetIn.
func (l *Lab) ShutOut(hostname string) { l.shut.Store(hostname, true) }

// LetIn undoes ShutOut.
func (l *Lab) LetIn(hostname string) { l.shut.Delete(hostname) }

func (l *Lab) shutOut(hostname string) bool {
	_, shut := l.shut.Load(hostname)
	return shut
}

// opens compares in constant time, so that the time reveals nothing.
func (l *Lab) opens(user string, password []byte) bool {
	sum := func(b []byte) []byte { s := sha256.Sum256(b); return s[:] }
	u := subtle.ConstantTimeCompare(sum([]byte(user)), sum([]byte(l.DeployUser)))
	p := subtle.ConstantTimeCompare(sum(password), sum([]byte(l.DeployPassword)))
	return u&p == 1
}

// session runs the one command that a session may have.
func session(ctx context.Context, h *host, channel ssh.Channel, asked <-chan *ssh.Request) {
	defer func() { _ = channel.Close() }()
	for r := range asked {
		var command struct{ Text string }
		if r.Type != "exec" || ssh.Unmarshal(r.Payload, &command) != nil {
			_ = r.Reply(false, nil) // a client that has gone cannot be told
			continue
		}
		if r.Reply(true, nil) != nil {
			return
		}
		go ssh.DiscardRequests(asked)
		code := carryOut(ctx, h, command.Text, channel)
		_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{code}))
		return
	}
}

// carryOut does what a command would do on the machine and returns its status.
func carryOut(ctx context.Context, h *host, text string, channel ssh.Channel) uint32 {
	do, known := commands[text]
	if !known {
		_, _ = fmt.Fprintln(channel.Stderr(), "this machine does not know the command")
		return unknownCommand
	}
	input, err := io.ReadAll(io.LimitReader(channel, mostInput))
	if err != nil {
		return failedCommand
	}
	var output bytes.Buffer
	if err := do(ctx, h, input, &output); err != nil {
		_, _ = fmt.Fprintln(channel.Stderr(), err)
		return failedCommand
	}
	if _, err := channel.Write(output.Bytes()); err != nil {
		return failedCommand
	}
	return 0
}
