package lab_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"gpuaas/sim/lab"
	"gpuaas/testkit"
)

// Callers can make first boots fail, and keep agents silent.
func TestFirstBootsCanBeHindered(t *testing.T) {
	p := newPlane(t)
	var failing atomic.Bool
	failing.Store(true)
	seen, enrolled, letPoll := make(chan lab.Boot, 10), make(chan struct{}, 1), make(chan struct{})
	l := open(t, 1, func(o *lab.Options) {
		o.BeforeEnroll = func(_ context.Context, b lab.Boot) error {
			seen <- b
			if failing.Load() {
				return errors.New("told to fail")
			}
			return nil
		}
		o.BeforePoll = func(ctx context.Context, _ lab.Boot) {
			enrolled <- struct{}{}
			select {
			case <-letPoll:
			case <-ctx.Done():
			}
		}
	})
	id := l.SystemIDs()[0]
	payload := p.payload("token-canary", true)
	deploy(t, l, id, payload)
	if b := <-seen; b.Token != "token-canary" || string(b.UserData) != payload || b.SystemID != id ||
		b.Hostname != brief(t, l, id).Hostname {
		t.Errorf("the first boot is told as %+v", b)
	}
	failing.Store(false)
	c, _ := enter(t, l, id)
	mustSay(t, c, again, "")
	<-enrolled
	node := "node-of-" + brief(t, l, id).Hostname
	if p.polls(node) {
		t.Error("the agent polls, although it was held back")
	}
	close(letPoll)
	testkit.Eventually(t, "a poll", func() bool { return p.polls(node) })
}
