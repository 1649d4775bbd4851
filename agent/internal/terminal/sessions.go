// Package terminal holds the interactive sessions of the machine. For each it
// dials the control plane under the identity of the node, starts the login
// shell of an allocation user on a pseudo-terminal, carries bytes between the
// two, and ends everything of the session when it is over.
//
// It knows nothing of tasks. It opens sessions only as users that the agent has
// provisioned, never as root, and only towards the control plane that the
// machine belongs to. What is typed and shown is neither kept nor logged.
package terminal

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"gpuaas/agent/internal/hostexec"
	"gpuaas/contract/agentwire"
)

// Codes of the reasons why a session does not open.
const (
	CodeParamsInvalid  = "terminal_params_invalid"
	CodeUserMissing    = "user_not_provisioned"
	CodeUserRefused    = "user_not_allowed"
	CodeGatewayRefused = "terminal_gateway_not_allowed"
	CodeUnreachable    = "terminal_gateway_unreachable"
	CodeLeft           = "terminal_gateway_left" // after the shell was started
	CodeTooMany        = "terminal_too_many_sessions"
	CodeShell          = "terminal_shell_failed"
	CodeEnded          = "terminal_session_ended"
)

// Error says why a session was not opened.
type Error struct {
	Code, Message, Remedy string
	cause                 error
}

func (e *Error) Error() string {
	if e.cause != nil {
		return e.Message + ": " + e.cause.Error()
	}
	return e.Message
}

func (e *Error) Unwrap() error { return e.cause }

// Config is what sessions need.
type Config struct {
	Host     hostexec.Host
	Accounts Accounts
	// Gateways are the hosts that may be dialled: those of the control plane.
	Gateways []string
	// TLS returns the configuration of a connection under the identity of the
	// node.
	TLS func() *tls.Config
	// Header returns the headers that every call of the agent carries.
	Header func() http.Header
	Logger *slog.Logger
	// Most limits the sessions at a time. Zero means 64.
	Most int
	// Stall is how long the other end may take nothing. Zero means two minutes.
	Stall time.Duration
}

const (
	defaultMost  = 64
	defaultStall = 2 * time.Minute
	// openTimeout limits the dialling: the user does not wait longer.
	openTimeout = 25 * time.Second
)

// Sessions holds the sessions of the machine.
type Sessions struct {
	cfg Config

	mu   sync.Mutex
	open map[string]*session
}

// New makes an empty set of sessions.
func New(cfg Config) *Sessions {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Most == 0 {
		cfg.Most = defaultMost
	}
	if cfg.Stall == 0 {
		cfg.Stall = defaultStall
	}
	return &Sessions{cfg: cfg, open: map[string]*session{}}
}

// Open opens a session. When it returns, the shell runs and the control plane
// has been told. The session outlives ctx. If the session is open already,
// nothing happens.
func (s *Sessions) Open(ctx context.Context, p agentwire.TerminalOpenParams) error {
	if err := p.Validate(); err != nil {
		return &Error{Code: CodeParamsInvalid, Message: "the session cannot be opened as described", cause: err}
	}
	x, fresh, err := s.reserve(p)
	if err != nil || !fresh {
		return err
	}
	// The account is looked up only now: whoever removes it finds the session
	// and ends it, or has removed the account already.
	who, err := s.account(p.Username)
	if err == nil {
		err = s.start(ctx, x, p, who)
	}
	if err != nil {
		s.forget(x)
		close(x.gone)
		return err
	}
	go func() {
		hangUp := x.run()
		s.forget(x)
		hangUp()
	}()
	return nil
}

func (s *Sessions) account(name string) (Account, error) {
	who, err := s.cfg.Accounts.Lookup(name)
	if err != nil {
		return who, err
	}
	// Check again, whatever the accounts of the machine say.
	if who.UID < agentwire.MinUID || who.GID < agentwire.MinUID {
		return who, &Error{
			Code: CodeUserRefused, Message: fmt.Sprintf("%s has uid %d and gid %d: below %d there are no sessions", name,
				who.UID, who.GID, agentwire.MinUID),
			Remedy: "somebody changed the account: remove and provision it anew",
		}
	}
	return who, nil
}

func (s *Sessions) reserve(p agentwire.TerminalOpenParams) (x *session, fresh bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x, there := s.open[p.SessionID]; there {
		return x, false, nil
	}
	if len(s.open) >= s.cfg.Most {
		return nil, false, &Error{
			Code: CodeTooMany, Message: fmt.Sprintf("there are %d sessions on this node, as many as there may be", len(s.open)),
			Remedy: "close a session, then try again",
		}
	}
	x = newSession(p, s.cfg)
	s.open[p.SessionID] = x
	return x, true, nil
}

// start dials first: without the user's end there is nothing to run.
func (s *Sessions) start(ctx context.Context, x *session, p agentwire.TerminalOpenParams, who Account) error {
	dialling, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	defer context.AfterFunc(x.life, cancel)()
	conn, err := s.dial(dialling, p)
	if err != nil {
		return err
	}
	x.conn = conn
	x.shell, err = s.cfg.Host.StartShell(ctx, hostexec.ShellStart{
		Program: who.Shell, Name: who.Name, Home: who.Home, Columns: p.Columns, Rows: p.Rows,
		User: hostexec.User{UID: uint32(who.UID), GID: uint32(who.GID), Groups: who.groups()}, //nolint:gosec // checked above
	})
	if err != nil {
		failure := &Error{
			Code: CodeShell, Message: fmt.Sprintf("the shell of %s does not start", who.Name),
			Remedy: "see the log of the agent; check the shell and home of the account", cause: err,
		}
		x.refuse(failure)
		return failure
	}
	if err := x.ready(); err != nil {
		x.end(agentwire.ClosedGateway)
		x.finish(x.shell.End())()
		return &Error{Code: CodeLeft, Message: "the control plane left before the session began", cause: err}
	}
	return nil
}

func (s *Sessions) forget(x *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, x.id)
}

// Count returns how many sessions there are.
func (s *Sessions) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// Close ends a session and says whether there was one.
func (s *Sessions) Close(id string) (existed bool) {
	return s.endAll(agentwire.ClosedOnRequest, func(x *session) bool { return x.id == id }) > 0
}

// CloseUser ends the sessions of a user and says how many there were.
func (s *Sessions) CloseUser(name string) (closed int) {
	return s.endAll(agentwire.ClosedRemoved, func(x *session) bool { return x.user == name })
}

// CloseAll ends all sessions and says how many there were.
func (s *Sessions) CloseAll() (closed int) {
	return s.endAll(agentwire.ClosedDrained, func(*session) bool { return true })
}

// endAll ends sessions together. It returns when none of their processes run
// any more; telling the control plane may take longer.
func (s *Sessions) endAll(reason string, which func(*session) bool) int {
	s.mu.Lock()
	var chosen []*session
	for _, x := range s.open {
		if which(x) {
			chosen = append(chosen, x)
		}
	}
	s.mu.Unlock()
	for _, x := range chosen {
		x.end(reason)
	}
	for _, x := range chosen {
		<-x.gone
	}
	return len(chosen)
}
