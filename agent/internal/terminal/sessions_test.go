package terminal_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"gpuaas/agent/internal/hostexec"
	"gpuaas/agent/internal/terminal"
	"gpuaas/contract/agentwire"
	"gpuaas/testkit"
)

func TestAShellRunsAsTheUserOnATerminalOfItsOwn(t *testing.T) {
	g, host := newGateway(t), machine(t)
	s := g.sessions(t, host, nil)
	t.Setenv("GPUAAS_SECRET_OF_THE_AGENT", "leak")
	l := opened(t, g, s, nil)
	if got := g.received.Load(); got.URL.Path != "/internal/ws/terminal/"+sessionID ||
		got.Header.Get(agentwire.HeaderAgentSession) != "s1" {
		t.Errorf("the agent asked for %s with %v", got.URL, got.Header)
	}
	l.types("echo u=$(id -u) g=$(id -G | tr ' ' ,) l=$LOGNAME t=$(test -t 0 && echo yes) w=$PWD e=$(env | grep -c " +
		"GPUAAS_) z=$0\n")
	l.shows("z=-bash")
	want := []string{
		fmt.Sprintf("u=%d ", expectedUID()), "l=alice ", "t=yes ", "w=" + host.Path("/home/alice") + " ",
		"e=0 ",
	}
	if os.Geteuid() == 0 {
		// The group of root is left out although the machine lists alice in it.
		want = append(want, fmt.Sprintf("g=%d,44 ", uid))
	}
	for _, w := range want {
		if !strings.Contains(l.shown.String(), w) {
			t.Errorf("the shell does not say %q: %s", w, l.shown.String())
		}
	}
	l.types("stty size\n")
	l.shows("30 100\r\n")
	l.control(agentwire.TerminalFrame{Type: agentwire.FrameResize, Columns: 132, Rows: 43})
	l.types("stty size\n")
	l.shows("43 132\r\n")
	if s.Count() != 1 {
		t.Errorf("%d sessions", s.Count())
	}
	l.types("echo last; exit 7\n")
	last := l.ends()
	if last.Type != agentwire.FrameClosed || last.Reason != agentwire.ClosedShellEnded || last.Exit == nil ||
		*last.Exit != 7 {
		t.Errorf("the session ended with %+v", last)
	}
	if !strings.Contains(l.shown.String(), "last\r\n") {
		t.Errorf("what was shown last is missing: %q", l.shown.String())
	}
	testkit.Eventually(t, "the session to be forgotten", func() bool { return s.Count() == 0 })
}

func TestSessionsThatMustNotOpen(t *testing.T) {
	g := newGateway(t)
	for name, c := range map[string]struct {
		change  func(*agentwire.TerminalOpenParams)
		code    string
		dialled bool
	}{
		"root": {
			func(p *agentwire.TerminalOpenParams) { p.Username = "root" }, terminal.CodeParamsInvalid,
			false,
		},
		"path for a user": {
			func(p *agentwire.TerminalOpenParams) { p.Username = "../alice" }, terminal.CodeParamsInvalid,
			false,
		},
		"nobody we know": {
			func(p *agentwire.TerminalOpenParams) { p.Username = "mallory" }, terminal.CodeUserMissing,
			false,
		},
		"account of others": {
			func(p *agentwire.TerminalOpenParams) { p.Username = "foreign" }, terminal.CodeUserMissing,
			false,
		},
		"being removed": {
			func(p *agentwire.TerminalOpenParams) { p.Username = "leaving" }, terminal.CodeUserMissing,
			false,
		},
		"account is gone": {
			func(p *agentwire.TerminalOpenParams) { p.Username = "gone" }, terminal.CodeUserMissing,
			false,
		},
		"uid changed to 0": {
			func(p *agentwire.TerminalOpenParams) { p.Username = "moved" }, terminal.CodeUserRefused,
			false,
		},
		"uid of the site": {
			func(p *agentwire.TerminalOpenParams) { p.Username = "admin" }, terminal.CodeUserRefused,
			false,
		},
		"another host": {
			func(p *agentwire.TerminalOpenParams) { p.GatewayURL = "wss://evil.example.com" },
			terminal.CodeGatewayRefused, false,
		},
		"path in the gateway": {
			func(p *agentwire.TerminalOpenParams) { p.GatewayURL += "/x" }, terminal.CodeGatewayRefused,
			false,
		},
		"no such shell": {func(p *agentwire.TerminalOpenParams) { p.Username = "broken" }, terminal.CodeShell, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := g.sessions(t, machine(t), nil)
			p := g.params(t, "alice")
			c.change(&p)
			before := g.dials.Load()
			if code := codeOf(s.Open(t.Context(), p)); code != c.code {
				t.Errorf("got %q, want %q", code, c.code)
			}
			if dialled := g.dials.Load() > before; dialled != c.dialled {
				t.Errorf("dialled: %v, want %v", dialled, c.dialled)
			}
			if s.Count() != 0 {
				t.Errorf("%d sessions are left", s.Count())
			}
			if c.dialled {
				l := &leg{tb: t, conn: testkit.Receive(t, "the agent to dial", g.legs)}
				if last := l.ends(); last.Type != agentwire.FrameError || last.Code != c.code {
					t.Errorf("the control plane hears %+v", last)
				}
			}
		})
	}
}

// Whatever the accounts of a machine say, the agent opens no shell of root.
func TestNoAccountsCanGiveRoot(t *testing.T) {
	g := newGateway(t)
	for _, who := range []terminal.Account{
		{Name: "alice", UID: 0, GID: 20001, Shell: "/bin/sh"},
		{Name: "alice", UID: 20001, GID: 0, Shell: "/bin/sh"},
		{Name: "alice", UID: 999, GID: 999, Shell: "/bin/sh"},
	} {
		s := g.sessions(t, machine(t), func(c *terminal.Config) { c.Accounts = fixed(who) })
		if code := codeOf(s.Open(t.Context(), g.params(t, "alice"))); code != terminal.CodeUserRefused {
			t.Errorf("%+v: %q", who, code)
		}
	}
	if _, err := machine(t).StartShell(t.Context(), hostexec.ShellStart{Program: "/bin/sh", Name: "root"}); !errors.Is(err,
		hostexec.ErrRoot) {
		t.Errorf("a shell of root: %v", err)
	}
}

// The session is known before the account is looked up: whoever removes an
// account either ends the session or is noticed.
func TestTheAccountIsLookedUpLast(t *testing.T) {
	g, host := newGateway(t), machine(t)
	known := false
	var s *terminal.Sessions
	s = g.sessions(t, host, func(c *terminal.Config) {
		accounts := c.Accounts
		c.Accounts = lookup(func(name string) (terminal.Account, error) {
			known = s.Count() == 1
			return accounts.Lookup(name)
		})
	})
	opened(t, g, s, nil)
	if !known {
		t.Error("the account was looked up before the session was known")
	}
}

type lookup func(string) (terminal.Account, error)

func (f lookup) Lookup(name string) (terminal.Account, error) { return f(name) }

type fixed terminal.Account

func (f fixed) Lookup(string) (terminal.Account, error) { return terminal.Account(f), nil }

// What people type and what programs print counts as activity. TestLimitsCount says what it changes.
func TestTypingIsActivity(t *testing.T) {
	g := newGateway(t)
	s := g.sessions(t, machine(t), nil)
	l := opened(t, g, s, nil)
	before := s.Active(sessionID)
	l.types("echo so$((40+2))\n")
	l.shows("so42")
	if after := s.Active(sessionID); after <= before {
		t.Errorf("active %s after the session began, and %s before anything was typed", after, before)
	}
}

func TestLimits(t *testing.T) {
	g := newGateway(t)
	for name, c := range map[string]struct {
		idle, total int
		reason      string
	}{
		"idle":     {1, 3600, agentwire.ClosedIdle},
		"too long": {3600, 1, agentwire.ClosedTotal},
	} {
		t.Run(name, func(t *testing.T) {
			s := g.sessions(t, machine(t), nil)
			start := time.Now()
			l := opened(t, g, s, func(p *agentwire.TerminalOpenParams) { p.IdleSeconds, p.TotalSeconds = c.idle, c.total })
			if last := l.ends(); last.Reason != c.reason || last.Exit != nil {
				t.Errorf("the session ended with %+v", last)
			}
			if took := time.Since(start); took < time.Second {
				t.Errorf("after %s", took)
			}
		})
	}
}

// The end of a session ends everything that was started in it, even processes
// that resist.
func TestNothingOfASessionIsLeft(t *testing.T) {
	for name, end := range map[string]func(*terminal.Sessions, *leg){
		"closed by name":  func(s *terminal.Sessions, _ *leg) { s.Close(sessionID) },
		"user is removed": func(s *terminal.Sessions, _ *leg) { s.CloseUser("alice") },
		"node is emptied": func(s *terminal.Sessions, _ *leg) { s.CloseAll() },
		"user closes": func(_ *terminal.Sessions,
			l *leg,
		) {
			l.control(agentwire.TerminalFrame{Type: agentwire.FrameClose})
		},
		"connection breaks": func(_ *terminal.Sessions, l *leg) { _ = l.conn.CloseNow() },
		"shell ends":        func(_ *terminal.Sessions, l *leg) { l.types("kill -9 $$\n") },
		"nonsense":          func(_ *terminal.Sessions, l *leg) { l.send(websocket.MessageText, []byte(`{"type":"exec"}`)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGateway(t)
			s := g.sessions(t, machine(t), nil)
			l := opened(t, g, s, nil)
			// One in the background in a group of its own, one that ignores the
			// hangup, one that is stopped.
			l.types("set -m; sleep 301 & (trap '' HUP TERM; exec sleep 302) & sleep 303 & kill -STOP $!; echo pids: $$ $(jobs " +
				"-p) .\n")
			l.until("the processes were named", func() bool { return pids.MatchString(l.shown.String()) })
			var started []int
			for _, text := range strings.Fields(pids.FindStringSubmatch(l.shown.String())[1]) {
				pid, err := strconv.Atoi(text)
				if err != nil {
					t.Fatal(err)
				}
				started = append(started, pid)
			}
			if len(started) != 4 {
				t.Fatalf("started %v", started)
			}
			end(s, l)
			testkit.Eventually(t, "the session to be forgotten", func() bool { return s.Count() == 0 })
			for _, pid := range started {
				if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) && !zombie(pid) {
					t.Errorf("process %d is left (%v)", pid, err)
				}
			}
		})
	}
}

var pids = regexp.MustCompile(`pids: ([0-9 ]+) \.`)

// zombie says whether a process has ended and is only not reaped, as where no
// init adopts orphans.
func zombie(pid int) bool {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err != nil || strings.Contains(string(raw), ") Z ")
}

// When Close returns, nothing runs any more: the account may be removed.
func TestCloseWaitsForTheProcesses(t *testing.T) {
	g := newGateway(t)
	s := g.sessions(t, machine(t), nil)
	l := opened(t, g, s, nil)
	l.types("trap '' HUP TERM; echo pids: $$ .\n")
	l.until("the process was named", func() bool { return pids.MatchString(l.shown.String()) })
	pid, err := strconv.Atoi(strings.TrimSpace(pids.FindStringSubmatch(l.shown.String())[1]))
	if err != nil {
		t.Fatal(err)
	}
	if s.CloseUser("bob") != 0 || s.Close("00000000-0000-4000-8000-00000000000b") || s.CloseUser("alice") != 1 {
		t.Error("not the sessions of alice alone were closed")
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the shell is left: %v", err)
	}
	if last := l.ends(); last.Reason != agentwire.ClosedRemoved {
		t.Errorf("the session ended with %+v", last)
	}
}

// A program that does not read must not keep the session from ending.
func TestInputThatNobodyReads(t *testing.T) {
	g := newGateway(t)
	s := g.sessions(t, machine(t), func(c *terminal.Config) { c.Stall = 300 * time.Millisecond })
	l := opened(t, g, s, nil)
	l.types("stty raw -echo; echo now; sleep 300\n")
	l.shows("now")
	paste := []byte(strings.Repeat("x", 32<<10))
	go func() {
		for l.conn.Write(context.Background(), websocket.MessageBinary, paste) == nil {
		}
	}()
	if last := l.ends(); last.Reason != agentwire.ClosedStalled {
		t.Errorf("the session ended with %+v", last)
	}
}

// All output arrives, no faster than it is read.
func TestMuchOutput(t *testing.T) {
	g := newGateway(t)
	s := g.sessions(t, machine(t), nil)
	l := opened(t, g, s, nil)
	const lines = 200_000
	l.types(fmt.Sprintf("stty -onlcr; clear; echo BEGIN; seq 1 %d; exit\n", lines))
	last := l.ends()
	_, counted, _ := strings.Cut(l.shown.String(), "BEGIN\n1\n")
	counted = "1\n" + counted
	want := 0
	for line := range strings.Lines(counted) {
		if line != strconv.Itoa(want+1)+"\n" {
			break
		}
		want++
	}
	if want != lines || last.Reason != agentwire.ClosedShellEnded {
		t.Errorf("%d of %d lines came, then %+v", want, lines, last)
	}
}

func TestTheRightReplicaIsFoundByDiallingAgain(t *testing.T) {
	g := newGateway(t)
	s := g.sessions(t, machine(t), nil)
	elsewhere := func(n int32, w http.ResponseWriter) bool {
		if n <= 2 {
			http.Error(w, `{"code":"terminal_session_elsewhere"}`, http.StatusServiceUnavailable)
		}
		return n <= 2
	}
	g.answer.Store(&elsewhere)
	l := opened(t, g, s, nil)
	if n := g.dials.Load(); n != 3 {
		t.Errorf("dialled %d times", n)
	}
	if err := s.Open(t.Context(), g.params(t, "alice")); err != nil || s.Count() != 1 || g.dials.Load() != 3 {
		t.Errorf("opening it again: %v, %d sessions, %d dials", err, s.Count(), g.dials.Load())
	}
	l.control(agentwire.TerminalFrame{Type: agentwire.FrameClose})
	l.ends()

	refused := func(_ int32, w http.ResponseWriter) bool {
		w.WriteHeader(http.StatusConflict)
		_, _ = w.Write([]byte(`{"code":"terminal_session_ended","detail":"it has ended"}`))
		return true
	}
	g.answer.Store(&refused)
	testkit.Eventually(t, "the session to be forgotten", func() bool { return s.Count() == 0 })
	if code := codeOf(s.Open(t.Context(), g.params(t, "alice"))); code != "terminal_session_ended" || g.dials.Load() != 4 {
		t.Errorf("got %q after %d dials", code, g.dials.Load())
	}
	// A session that is closed while it is dialled does not open.
	silent := func(int32, http.ResponseWriter) bool { <-t.Context().Done(); return true }
	g.answer.Store(&silent)
	result := make(chan string, 1)
	go func() { result <- codeOf(s.Open(t.Context(), g.params(t, "alice"))) }()
	testkit.Eventually(t, "the session to be dialled", func() bool { return g.dials.Load() == 5 })
	s.Close(sessionID)
	if code := testkit.Receive(t, "the attempt to end", result); code != terminal.CodeUnreachable || s.Count() != 0 {
		t.Errorf("got %q, %d sessions", code, s.Count())
	}
}

func TestThereAreOnlySoManySessions(t *testing.T) {
	g := newGateway(t)
	s := g.sessions(t, machine(t), func(c *terminal.Config) { c.Most = 1 })
	opened(t, g, s, nil)
	p := g.params(t, "alice")
	p.SessionID = "00000000-0000-4000-8000-00000000000b"
	if code := codeOf(s.Open(t.Context(), p)); code != terminal.CodeTooMany {
		t.Errorf("got %q", code)
	}
}
