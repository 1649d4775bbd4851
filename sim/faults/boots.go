package faults

import (
	"context"
	"errors"
	"strings"
	"sync"

	"gpuaas/contract/agentwire"
	"gpuaas/sim/lab"
)

// boots makes the first boots of machines go wrong, and records what it saw.
type boots struct {
	mu      sync.Mutex
	failing map[string]bool          // by host name: the first boot fails
	held    map[string]chan struct{} // by host name: the agent is silent until it is closed
	mute    map[string]chan struct{} // by host name: the agent enrols, but polls only after it is closed
	tokens  map[string][]string      // tokens with which agents enrolled
	polls   map[string]bool          // by host name: the agent has enrolled and polls
	data    [][]byte                 // user data that was seen
	answers map[string]answer        // by host name and task type: what agents say instead of the truth
}

// answer returns what an agent says about a task. If it returns nothing, the
// agent tells the truth.
type answer func(v agentwire.Verified) (any, *agentwire.TaskError)

func newBoots() *boots {
	return &boots{
		failing: map[string]bool{}, held: map[string]chan struct{}{}, mute: map[string]chan struct{}{},
		tokens: map[string][]string{}, polls: map[string]bool{}, answers: map[string]answer{},
	}
}

var errFirstBoot = errors.New("the first boot fails, as it was told to")

func (b *boots) beforeEnroll(ctx context.Context, boot lab.Boot) error {
	b.mu.Lock()
	b.tokens[boot.Hostname] = append(b.tokens[boot.Hostname], boot.Token)
	b.data = append(b.data, boot.UserData)
	failing, held := b.failing[boot.Hostname], b.held[boot.Hostname]
	b.mu.Unlock()
	if failing {
		return errFirstBoot
	}
	return waitFor(ctx, held)
}

func (b *boots) beforePoll(ctx context.Context, boot lab.Boot) {
	b.mu.Lock()
	mute := b.mute[boot.Hostname]
	b.mu.Unlock()
	if waitFor(ctx, mute) != nil {
		return // a machine that is off polls no more
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.polls[boot.Hostname] = true
}

func waitFor(ctx context.Context, opened <-chan struct{}) error {
	if opened == nil {
		return nil
	}
	select {
	case <-opened:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *boots) fail(hostname string, failing bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failing[hostname] = failing
}

// hold keeps agents from enrolling, or from polling after that. letGo ends it.
func (b *boots) hold(hostname string, from map[string]chan struct{}) (letGo func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	gate := make(chan struct{})
	from[hostname] = gate
	return sync.OnceFunc(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		close(gate)
		delete(from, hostname)
	})
}

// polling says whether the agent of a machine has enrolled and polls.
func (b *boots) polling(hostname string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.polls[hostname]
}

// forget forgets that an agent polled, because its machine is reinstalled.
func (b *boots) forget(hostname string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.polls, hostname)
}

// answer makes the agent of a machine say something about tasks of a type. If
// say is nil, it tells the truth again about all of them.
func (b *boots) answer(hostname, task string, say answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if say != nil {
		b.answers[hostname+" "+task] = say
		return
	}
	for key := range b.answers {
		if strings.HasPrefix(key, hostname+" ") {
			delete(b.answers, key)
		}
	}
}

func (b *boots) say(hostname string, v agentwire.Verified) (any, *agentwire.TaskError) {
	b.mu.Lock()
	say := b.answers[hostname+" "+v.Type]
	b.mu.Unlock()
	if say == nil {
		return nil, nil
	}
	return say(v)
}
