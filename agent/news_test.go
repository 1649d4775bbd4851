package agent

import (
	"context"
	"slices"
	"testing"
	"time"

	"gpuaas/agent/internal/inspect"
	"gpuaas/contract/agentwire"
)

// If a look at the addresses shows what is known, that is no news: an agent
// whose reports are refused must not try more often because of it.
func TestOnlyOtherAddressesAreNews(t *testing.T) {
	a := &Agent{machine: inspect.Machine{}, news: make(chan struct{}, 1)}
	present := a.machine.Addresses()
	roam, retry := make(chan time.Time), make(chan time.Time)
	waiting := func(known *agentwire.Capabilities) <-chan bool {
		went := make(chan bool, 1)
		go func() { went <- a.awaitNews(t.Context(), retry, nil, roam, known) }()
		return went
	}
	known := agentwire.Capabilities{Addresses: present}
	went := waiting(&known)
	for range 3 { // each is taken only by a loop that has gone on waiting
		roam <- time.Time{}
	}
	select {
	case <-went:
		t.Fatal("the same addresses were news")
	case retry <- time.Time{}:
	}
	if !<-went {
		t.Error("it is not to be reported again")
	}
	known = agentwire.Capabilities{CPUs: 4, Addresses: []string{"192.0.2.1"}}
	went = waiting(&known)
	roam <- time.Time{}
	if !<-went || !slices.Equal(known.Addresses, present) || known.CPUs != 4 {
		t.Errorf("other addresses: %+v, want %s", known, present)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if a.awaitNews(ended, nil, nil, nil, &known) {
		t.Error("there is news after the end")
	}
}
