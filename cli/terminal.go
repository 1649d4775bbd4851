package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"os/user"
	"strings"
	"syscall"
	"time"

	"github.com/coder/websocket"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/output"
	"gpuaas/contract/agentwire"
	"gpuaas/contract/apiclient"
)

func (a *app) terminalCommand() *cobra.Command {
	return a.verb(verb{
		use: "terminal NODE", short: "Open a terminal on a node", group: groupMachines, args: frame.Exactly("NODE"),
		operations: []string{"create-terminal-token"},
		long: "Opens a terminal on a node as a user that was provisioned there. It ends when the shell does, or\n" +
			"after some time without input and output. To leave a terminal that does not answer, type Enter ~ .\n\n" +
			"Without a terminal on this side, standard input is typed, and its end is Ctrl-D.",
		example: "  gpuaas terminal gpu-1 --user alice\n  echo 'nvidia-smi -L' | gpuaas terminal gpu-1 --user alice",
		flags: func(cmd *cobra.Command) action {
			name := cmd.Flags().String("user", "", "the user on the node (default: your own name, as on this machine)")
			return func(s *session, args []string) error {
				node, err := s.nodeID(args[0])
				if err != nil {
					return err
				}
				username := cmp.Or(*name, ownName())
				if username == "" {
					return failure.Misuse(s.Cmd, "--user is required")
				}
				return s.openTerminal(func(columns, rows *int64) (apiclient.Answer, error) {
					return s.API.CreateTerminalTokenWithResponse(s.Ctx, node, &apiclient.CreateTerminalTokenParams{},
						apiclient.TerminalNewSession{Username: username, Columns: columns, Rows: rows})
				})
			}
		},
	})
}

// ownName is who runs the command; empty when nobody knows.
func ownName() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}

// console is the near end of a terminal.
type console struct {
	in   io.Reader
	out  io.Writer
	file *os.File // nil: input is no terminal
}

func (s *session) console() *console {
	c := &console{in: s.Program.In, out: s.Program.Out}
	if f, ok := s.Program.In.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		c.file = f
	}
	return c
}

func (c *console) size() (columns, rows int) {
	if c.file != nil {
		if w, h, err := term.GetSize(int(c.file.Fd())); err == nil && w > 0 && h > 0 {
			return min(w, 1000), min(h, 1000)
		}
	}
	return 80, 24
}

// raw hands every key over as it is typed, until restored.
func (c *console) raw() (restore func(), err error) {
	if c.file == nil {
		return func() {}, nil
	}
	fd := int(c.file.Fd())
	state, err := term.MakeRaw(fd)
	if err != nil {
		return nil, err
	}
	return func() { _ = term.Restore(fd, state) }, nil // nothing can be done about it
}

// openTerminal uses the session that a token of this size opens.
func (s *session) openTerminal(mint func(columns, rows *int64) (apiclient.Answer, error)) error {
	c := s.console()
	columns, rows := c.size()
	token, err := frame.Fetch[apiclient.TerminalToken](mint(frame.Ptr(int64(columns)), frame.Ptr(int64(rows))))
	if err != nil {
		return err
	}
	conn, err := s.dialTerminal(token)
	if err != nil {
		return err
	}
	defer conn.CloseNow() //nolint:errcheck // closed with a code where it matters
	restore, err := c.raw()
	if err != nil {
		return failure.New(failure.Unexpected, "terminal_unusable", "", "this terminal cannot be used: %v", err)
	}
	defer restore()
	return s.useTerminal(conn, c)
}

// dialTerminal connects. The token goes into a header, never into an address.
func (s *session) dialTerminal(token apiclient.TerminalToken) (*websocket.Conn, error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return nil, err
	}
	transport, err := apiclient.Transport(s.CAFile)
	if err != nil {
		return nil, err
	}
	u.Scheme = strings.Replace(u.Scheme, "http", "ws", 1)
	ctx, cancel := context.WithTimeout(s.Ctx, 30*time.Second)
	defer cancel()
	conn, response, err := websocket.Dial(ctx, u.JoinPath(token.WebsocketPath).String(), &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport}, Subprotocols: []string{agentwire.TerminalProtocol},
		HTTPHeader: http.Header{
			"Authorization": {"Bearer " + token.Token},
			"User-Agent":    {"gpuaas/" + cmp.Or(s.Program.Version, "dev")},
		},
	})
	if err != nil {
		if response != nil && response.Body != nil {
			defer response.Body.Close()
			var p apiclient.Problem
			if json.NewDecoder(io.LimitReader(response.Body, 64<<10)).Decode(&p) == nil && p.Code != "" {
				return nil, failure.New(failure.ExitOf(int64(response.StatusCode)), p.Code, text(p.Remedy), "%s", text(p.Detail))
			}
		}
		return nil, failure.New(failure.Unavailable, "terminal_unreachable",
			"a proxy on the way must pass websockets on", "the terminal cannot be reached at %s: %v", u.Host, errors.Unwrap(err))
	}
	conn.SetReadLimit(agentwire.MaxTerminalMessage)
	return conn, nil
}

// useTerminal carries what is typed and shown until the session is over.
func (s *session) useTerminal(conn *websocket.Conn, c *console) error {
	ctx, leave := context.WithCancel(s.Ctx)
	defer leave()
	ready := make(chan struct{})
	go c.typing(ctx, conn, ready)
	if c.file != nil {
		go c.follow(ctx, conn, ready)
	}
	for {
		kind, data, err := conn.Read(ctx)
		if err != nil {
			return s.terminalLost(err)
		}
		if kind == websocket.MessageBinary {
			if err := output.Write(c.out, string(data)); err != nil {
				return err
			}
			continue
		}
		frame, err := agentwire.DecodeTerminalFrame(data)
		switch {
		case err != nil:
			return failure.New(failure.Unexpected, "terminal_protocol", "compare the versions of gpuaas and the control plane",
				"%v", err)
		case frame.Type == agentwire.FrameReady:
			close(ready)
		case frame.Type == agentwire.FrameError:
			return refusedTerminal(frame)
		case frame.Type == agentwire.FrameClosed:
			_ = conn.Close(websocket.StatusNormalClosure, "") // it is over anyway
			return closedTerminal(frame)
		}
	}
}

// typing sends what is typed once there is a shell to read it.
func (c *console) typing(ctx context.Context, conn *websocket.Conn, ready <-chan struct{}) {
	select {
	case <-ready:
	case <-ctx.Done():
		return
	}
	leaving := escape{fresh: true}
	buffer := make([]byte, 16<<10)
	for {
		n, err := c.in.Read(buffer)
		keys, left := buffer[:n], c.file != nil && leaving.seen(buffer[:n])
		if len(keys) > 0 && conn.Write(ctx, websocket.MessageBinary, keys) != nil {
			return // the reader of the connection says why
		}
		if left {
			_ = conn.Write(ctx, websocket.MessageText, agentwire.TerminalFrame{Type: agentwire.FrameClose}.Encode())
			return
		}
		if err != nil {
			c.endOfInput(ctx, conn)
			return
		}
	}
}

// endOfInput types Ctrl-D until the shell has ended. Once is not enough: what
// is typed while a program runs is lost when the shell takes the terminal back.
func (c *console) endOfInput(ctx context.Context, conn *websocket.Conn) {
	for c.file == nil && conn.Write(ctx, websocket.MessageBinary, []byte{4}) == nil {
		if frame.Wait(ctx, time.Second) != nil {
			return
		}
	}
}

// escape notices Enter ~ . among the keys.
type escape struct{ fresh, tilde bool }

func (e *escape) seen(keys []byte) bool {
	for _, k := range keys {
		if e.tilde && k == '.' {
			return true
		}
		e.tilde = e.fresh && k == '~'
		e.fresh = k == '\r' || k == '\n'
	}
	return false
}

// follow tells the node when the window changes its size.
func (c *console) follow(ctx context.Context, conn *websocket.Conn, ready <-chan struct{}) {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	defer signal.Stop(changed)
	select {
	case <-ready:
	case <-ctx.Done():
		return
	}
	for {
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
		columns, rows := c.size()
		frame := agentwire.TerminalFrame{Type: agentwire.FrameResize, Columns: columns, Rows: rows}
		if conn.Write(ctx, websocket.MessageText, frame.Encode()) != nil {
			return
		}
	}
}

func (s *session) terminalLost(err error) error {
	switch {
	case s.Ctx.Err() != nil:
		return s.Ctx.Err()
	case websocket.CloseStatus(err) == agentwire.CloseUnauthenticated:
		return failure.New(failure.Unauthenticated, "terminal_token_invalid", "try again",
			"the control plane does not accept the token of the terminal")
	}
	return failure.New(failure.Unavailable, "terminal_lost", "try again", "the connection to the terminal was lost")
}

func refusedTerminal(f agentwire.TerminalFrame) error {
	exit := failure.Unsuccessful
	if f.Retryable {
		exit = failure.Unavailable
	}
	return failure.New(exit, f.Code, f.Remedy, "the terminal was not opened: %s", f.Message)
}

// closedTerminal is a failure when it was not the user who ended the session.
func closedTerminal(f agentwire.TerminalFrame) error {
	switch f.Reason {
	case agentwire.ClosedShellEnded, agentwire.ClosedByUser:
		return nil
	case agentwire.ClosedIdle:
		return failure.New(failure.Unsuccessful, f.Reason,
			"work that takes long is safe in a terminal multiplexer, such as tmux",
			"the terminal was closed: nothing was typed or shown for too long")
	case agentwire.ClosedTotal:
		return failure.New(failure.Unsuccessful, f.Reason, "open a new one",
			"the terminal was closed: it was open for as long as it may")
	case agentwire.ClosedAccessLost:
		return failure.New(failure.Unsuccessful, f.Reason, f.Remedy,
			"the terminal was closed: you may no longer have it (%s: %s)", f.Code, f.Message)
	case agentwire.ClosedGateway, agentwire.ClosedNodeLost, agentwire.ClosedStalled:
		return failure.New(failure.Unavailable, f.Reason, "open a new one", "the terminal was closed: %s", f.Reason)
	}
	return failure.New(failure.Unsuccessful, f.Reason, "", "the terminal was closed: %s", f.Reason)
}
