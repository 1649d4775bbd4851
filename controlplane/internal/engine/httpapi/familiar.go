package httpapi

import (
	"container/list"
	"crypto/sha256"
	"sync"
	"time"

	"gpuaas/controlplane/internal/base/redact"
)

// familiarFor is how long a valid token exempts its holder from the limit on
// strangers.
const familiarFor = 10 * time.Minute

// familiar remembers, by their hash, which tokens were valid recently. It only
// decides who counts as a stranger: somebody who guesses tokens does not hold
// up other callers behind the same address.
type familiar struct {
	clock func() time.Time

	mu     sync.Mutex
	most   int
	bykey  map[[sha256.Size]byte]*list.Element
	recent *list.List // of *acquaintance, the most recent first
}

type acquaintance struct {
	key   [sha256.Size]byte
	since time.Time
}

func newFamiliar(clock func() time.Time) *familiar {
	return &familiar{clock: clock, most: maxTracked, bykey: map[[sha256.Size]byte]*list.Element{}, recent: list.New()}
}

func (f *familiar) knows(token redact.Secret) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	e, ok := f.bykey[sha256.Sum256([]byte(token.Reveal()))]
	return ok && f.clock().Sub(e.Value.(*acquaintance).since) < familiarFor //nolint:forcetypeassert // the list holds nothing else
}

// note remembers whether a token was valid just now.
func (f *familiar) note(token redact.Secret, good bool) {
	key := sha256.Sum256([]byte(token.Reveal()))
	f.mu.Lock()
	defer f.mu.Unlock()
	if e, ok := f.bykey[key]; ok {
		f.recent.Remove(e)
		delete(f.bykey, key)
	}
	if !good {
		return
	}
	f.bykey[key] = f.recent.PushFront(&acquaintance{key: key, since: f.clock()})
	if len(f.bykey) > f.most {
		oldest := f.recent.Remove(f.recent.Back()).(*acquaintance) //nolint:forcetypeassert // as above
		delete(f.bykey, oldest.key)
	}
}
