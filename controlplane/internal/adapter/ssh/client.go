package ssh

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"
	"unicode"

	"golang.org/x/crypto/ssh"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
)

// Command is a command line for the shell of the account. It has its own type,
// so that a value other than a constant cannot become one unnoticed.
type Command string

// Dialer opens connections.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// Config says how to reach a machine, and with what: a key, or a password.
type Config struct {
	Dialer   Dialer
	Address  string // host and port
	User     string
	Key      redact.Secret // private, in OpenSSH's form
	Password redact.Secret
	HostKey  string // as in a line of known_hosts
	// FirstUse accepts any host key if HostKey is empty. Whoever answers then
	// gets the password, so use it only for machines of the old form.
	FirstUse bool
	Patience time.Duration // for the connection and for each command; 0: 30 s
}

const (
	defaultPatience = 30 * time.Second
	maxOutput       = 256 << 10
	maxStderr       = 4 << 10
)

// Client is a connection to a machine. Only one goroutine may use it.
type Client struct {
	cfg     Config
	conn    net.Conn
	client  *ssh.Client
	gone    chan struct{} // closed when the connection has ended
	hostKey string
}

// Dial connects and logs in. The machine proves its host key before it is
// offered anything that would open another machine.
func Dial(ctx context.Context, cfg Config) (*Client, error) {
	if cfg.Patience <= 0 {
		cfg.Patience = defaultPatience
	}
	c := &Client{cfg: cfg}
	shake, err := c.config()
	if err != nil {
		return nil, err
	}
	dialCtx, cancel := context.WithTimeout(ctx, cfg.Patience)
	defer cancel()
	conn, err := cfg.Dialer.DialContext(dialCtx, "tcp", cfg.Address)
	if err != nil {
		return nil, unreachable(cfg.Address, err)
	}
	c.conn = conn
	release := c.bound(ctx)
	defer release()
	handshake, channels, requests, err := ssh.NewClientConn(conn, cfg.Address, shake)
	if err != nil {
		_ = conn.Close() // the reason why there is no session matters more
		return nil, c.refusal(err)
	}
	c.client, c.gone = ssh.NewClient(handshake, channels, requests), make(chan struct{})
	go func() {
		_ = c.client.Wait() // users of the connection learn why it ended
		close(c.gone)
	}()
	return c, nil
}

// config pins the host key. It asks for the kind of the pinned key, because a
// server has several keys and could otherwise show another one.
func (c *Client) config() (*ssh.ClientConfig, error) {
	if c.cfg.HostKey == "" && !c.cfg.FirstUse {
		return nil, fault.New(fault.Internal, "ssh_host_key_unknown",
			"the key of the machine at %s is not known, so it is not called", c.cfg.Address)
	}
	auth, err := c.auth()
	if err != nil {
		return nil, err
	}
	cfg := &ssh.ClientConfig{
		User: c.cfg.User,
		Auth: []ssh.AuthMethod{auth},
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			c.hostKey = strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
			if c.cfg.HostKey != "" && c.hostKey != c.cfg.HostKey {
				return errors.New("the host key has changed")
			}
			return nil
		},
	}
	if kind, _, pinned := strings.Cut(c.cfg.HostKey, " "); pinned {
		cfg.HostKeyAlgorithms = []string{kind}
		if kind == ssh.KeyAlgoRSA {
			cfg.HostKeyAlgorithms = []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
		}
	}
	return cfg, nil
}

// auth returns how the user logs in.
func (c *Client) auth() (ssh.AuthMethod, error) {
	if c.cfg.Key.IsZero() {
		return ssh.PasswordCallback(func() (string, error) { return c.cfg.Password.Reveal(), nil }), nil
	}
	signer, err := ssh.ParsePrivateKey([]byte(c.cfg.Key.Reveal()))
	if err != nil { // the error does not quote the key
		return nil, fault.New(fault.Internal, "ssh_key_unreadable", "the key for %s at %s cannot be read", c.cfg.User,
			c.cfg.Address)
	}
	return ssh.PublicKeys(signer), nil
}

// refusal says why there is no session. If the server has no key of the pinned
// kind any more, its host key has changed.
func (c *Client) refusal(err error) error {
	var noKey *ssh.AlgorithmNegotiationError
	switch {
	case c.cfg.HostKey != "" && c.hostKey != "" && c.hostKey != c.cfg.HostKey:
		return hostKeyChanged(c.cfg.Address, c.cfg.HostKey, c.hostKey)
	case c.cfg.HostKey != "" && errors.As(err, &noKey) && noKey.What == "host key":
		return hostKeyChanged(c.cfg.Address, c.cfg.HostKey, "")
	}
	return judge(c.cfg.Address, c.cfg.User, err)
}

// bound limits how long anything on the connection may take, until released.
func (c *Client) bound(ctx context.Context) (release func()) {
	end := time.Now().Add(c.cfg.Patience)
	if by, limited := ctx.Deadline(); limited && by.Before(end) {
		end = by
	}
	_ = c.conn.SetDeadline(end) // fails only on a closed connection; the next use reports it
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })
	return func() {
		if stop() {
			_ = c.conn.SetDeadline(time.Time{})
		}
	}
}

// HostKey returns the host key of the machine, as in a line of known_hosts.
func (c *Client) HostKey() string { return c.hostKey }

// Run runs a command with stdin as its standard input. It returns what the
// command printed, up to a limit.
func (c *Client) Run(ctx context.Context, command Command, stdin redact.Secret) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	release := c.bound(ctx)
	defer release()
	session, err := opened(c.gone, c.client.NewSession)
	if err != nil {
		return nil, unreachable(c.cfg.Address, err)
	}
	defer func() { _ = session.Close() }() // it or the connection has ended
	out, complaint := &limited{most: maxOutput}, &limited{most: maxStderr}
	session.Stdin, session.Stdout, session.Stderr = strings.NewReader(stdin.Reveal()), out, complaint
	if err := session.Run(string(command)); err != nil {
		return nil, failing(c.cfg.Address, command, c.oneLine(string(complaint.kept), stdin), err)
	}
	return out.kept, nil
}

var errGone = errors.New("the connection has ended")

// opened opens a session on a connection that may end at any moment. If the
// connection ends just then, the library waits for ever for the answer, so
// opened also waits for the end of the connection.
func opened(gone <-chan struct{}, open func() (*ssh.Session, error)) (*ssh.Session, error) {
	type result struct {
		session *ssh.Session
		err     error
	}
	done := make(chan result, 1)
	go func() {
		session, err := open()
		done <- result{session, err}
	}()
	select {
	case r := <-done:
		return r.session, r.err
	case <-gone:
		return nil, errGone
	}
}

// Close ends the connection.
func (c *Client) Close() error { return ignoreClosed(c.client.Close()) }

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// oneLine returns the end of what a command complained about, fit for people:
// without control characters and without secrets.
func (c *Client) oneLine(text string, secrets ...redact.Secret) string {
	for _, s := range append(secrets, c.cfg.Password, c.cfg.Key) {
		for line := range strings.Lines(s.Reveal()) {
			if line = strings.TrimSpace(line); len(line) >= 4 {
				text = strings.ReplaceAll(text, line, "…")
			}
		}
	}
	text = strings.Join(strings.FieldsFunc(text,
		func(r rune) bool { return unicode.IsControl(r) || r == unicode.ReplacementChar }), " ")
	const most = 300
	if runes := []rune(strings.TrimSpace(text)); len(runes) > most {
		text = "…" + string(runes[len(runes)-most:])
	}
	return strings.TrimSpace(text)
}

// limited keeps the beginning of what is written to it. It embeds no buffer,
// because the other methods of a buffer would have no limit.
type limited struct {
	kept []byte
	most int
}

func (l *limited) Write(p []byte) (int, error) {
	l.kept = append(l.kept, p[:min(l.most-len(l.kept), len(p))]...)
	return len(p), nil
}
