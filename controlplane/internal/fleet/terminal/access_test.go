package terminal_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/fleet/terminal"
	"gpuaas/testkit"
)

// This uses the settings of a real control plane, not those of a test.
func TestAttackATerminalDoesNotOutliveTheTokenItWasAskedForWith(t *testing.T) {
	w := newWorld(t, nil)
	w.recheck = 0
	w.public = w.serve(t, w.service)
	minted, user, node := w.both(t)
	user.sends("before")
	node.shows("before")

	w.people.lose("admin")
	revoked := time.Now()
	last, status := user.ends()
	if took := time.Since(revoked); took > 15*time.Second {
		t.Errorf("the terminal stayed open for %s", took)
	}
	if last.Type != agentwire.FrameClosed || last.Reason != agentwire.ClosedAccessLost || last.Code != "token_invalid" ||
		status != agentwire.CloseUnauthenticated {
		t.Errorf("the user hears %+v, %d", last, status)
	}
	if told, _ := node.ends(); told.Type != agentwire.FrameClose || told.Reason != agentwire.ClosedAccessLost {
		t.Errorf("the node hears %+v", told)
	}
	w.wants(t, minted.SessionID, terminal.Closed, agentwire.ClosedAccessLost)
}

func TestAttackATerminalTokenDoesNotOutliveWhoAskedForIt(t *testing.T) {
	w := newWorld(t, nil)
	minted := w.mint(t)
	w.people.lose("admin")
	last, status := w.user(t, minted).ends()
	if last.Type != agentwire.FrameError || last.Code != "token_invalid" || status != agentwire.CloseUnauthenticated {
		t.Errorf("the user hears %+v, %d", last, status)
	}
	w.wants(t, minted.SessionID, terminal.Issued, "")
	if got := w.audit(t, minted.SessionID); !slices.ContainsFunc(got, func(s string) bool {
		return strings.HasPrefix(s, "terminal_session.connect denied token_invalid")
	}) {
		t.Errorf("recorded: %q", got)
	}
	if n := w.texts(t, `SELECT count(*)::text FROM node_tasks`); n[0] != "0" {
		t.Errorf("the node was given %s tasks", n[0])
	}
}

// Somebody keeps account and token but loses the permission.
func TestAttackATerminalDoesNotOutliveThePermission(t *testing.T) {
	w := newWorld(t, nil)
	_, user, _ := w.both(t)
	w.people.demote("admin")
	last, status := user.ends()
	if last.Reason != agentwire.ClosedAccessLost || last.Code != "insufficient_permissions" ||
		status != agentwire.CloseUnauthenticated {
		t.Errorf("the user hears %+v, %d", last, status)
	}
}

// A terminal on what somebody rents ends when its allocation does, although its
// requester keeps token and permission.
func TestAttackATerminalDoesNotOutliveTheVisit(t *testing.T) {
	w := newWorld(t, nil)
	minted, user, node := w.bothOn(t, func(session string) {
		w.exec(t, `UPDATE terminal_sessions SET allocation_id = $2 WHERE id = $1`, session, id.New[id.Allocation]())
	})
	w.visits.over.Store(true)
	last, status := user.ends()
	if last.Reason != agentwire.ClosedAccessLost || last.Code != "allocation_ended" ||
		status != agentwire.CloseUnauthenticated {
		t.Errorf("the user hears %+v, %d", last, status)
	}
	node.ends()
	w.wants(t, minted.SessionID, terminal.Closed, agentwire.ClosedAccessLost)
}

// visits are allowed until they are over.
type visits struct{ over atomic.Bool }

func (v *visits) MayStay(context.Context, id.Allocation, *auth.Principal) error {
	if v.over.Load() {
		return fault.New(fault.Forbidden, "allocation_ended", "it has ended")
	}
	return nil
}

func TestAttackOneCallerCannotHoldAllTerminals(t *testing.T) {
	w := newWorld(t, nil)
	w.limits = httpapi.Limits{StreamsPerCaller: 1}
	w.public = w.serve(t, w.service)
	_, user, _ := w.both(t)
	refused := w.mint(t)
	last, status := w.user(t, refused).ends()
	if last.Code != "stream_limit_exceeded" || last.Remedy == "" || status != agentwire.CloseUnavailable {
		t.Errorf("the user of a second terminal hears %+v, %d", last, status)
	}
	// The token was not consumed: when there is room, it opens the session.
	user.control(agentwire.TerminalFrame{Type: agentwire.FrameClose})
	user.ends()
	testkit.Eventually(t, "room for the second terminal", func() bool {
		w.user(t, refused)
		sid, err := id.Parse[id.TerminalSession](refused.SessionID)
		if err != nil {
			t.Fatal(err)
		}
		now, err := terminal.Get(t.Context(), w.db, sid)
		if err != nil {
			t.Fatal(err)
		}
		return now.Status == terminal.Opening
	})
}

// A session of the previous release does not name the token of its request.
func TestASessionWithoutATokenToLookAtIsNotOpened(t *testing.T) {
	w := newWorld(t, nil)
	minted := w.mint(t)
	w.exec(t, `UPDATE terminal_sessions SET requester_token = NULL WHERE id = $1`, minted.SessionID)
	if last, status := w.user(t, minted).ends(); last.Code != "terminal_token_invalid" ||
		status != agentwire.CloseUnauthenticated {
		t.Errorf("the user hears %+v, %d", last, status)
	}
}

// demote takes the permission and leaves the rest.
func (p *people) demote(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.roles[name] = auth.Auditor
}

var errGone = fault.New(fault.Unauthenticated, "token_invalid", "the token is not valid")
