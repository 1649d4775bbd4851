package faults

import (
	"context"
	"errors"
	"strings"
	"sync"

	"gpuaas/contract/agentwire"
	"gpuaas/sim/lab"
)

// boots is what goes wrong on machines themselves, when they boot for the first
// time, and what was seen of it.
type boots struct {
	mu      sync.Mutex
	failing map[string]bool          // by host name: the first boot fails
	held    map[string]chan struct{} // by host name: the agent is silent until it is closed
	mute    map[string]chan struct{} // by host name: it enrols, and does not poll until it is closed
	tokens  map[string][]string      // that agents came with
	polls   map[string]bool          // by host name: it has enrolled, and begins to poll
	data    [][]byte                 // user data that was seen
	answers map[string]answer        // by host name and type of the task: what agents say in place of the truth
}

// answer is what an agent says of a task; nothing at all is the truth.
type answer func(v agentwire.Verified) (any, *agentwire.TaskError)

func newBoots() *boots {
	return &boots{failing: map[string]bool{}, held: map[string]chan struct{}{}, mute: map[string]chan struct{}{}, tokens: map[string][]string{}, polls: map[string]bool{}, answers: map[string]answer{}}
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
		return // a machine that is switched off polls no more
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

// hold keeps agents from coming, or from polling once they have; the function
// lets them.
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

// polling says whether an agent of a machine has enrolled and begun to poll.
func (b *boots) polling(hostname string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.polls[hostname]
}

// forget lets a machine that is installed anew be seen polling anew.
func (b *boots) forget(hostname string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.polls, hostname)
}

// answer makes the agent of a machine say something of tasks of a type; nil: the
// truth again, of all of them.
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
