package agenttask

import (
	"slices"
	"testing"

	"gpuaas/controlplane/internal/base/id"
)

func woken(w *waiter) bool {
	select {
	case <-w.woken:
		return true
	default:
		return false
	}
}

func TestANotificationWakesWhomItConcerns(t *testing.T) {
	one, other := id.New[id.Node](), id.New[id.Node]()
	for name, c := range map[string]struct {
		payload    string
		one, other bool
	}{
		"a node":      {one.String(), true, false},
		"another":     {other.String(), false, true},
		"nobody here": {id.New[id.Node]().String(), false, false},
		"every node":  {everyNode, true, true},
		"nonsense":    {"nonsense", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			q := New(QueueConfig{})
			first, second, third := q.waiting.add(one, func() {}), q.waiting.add(one, func() {}), q.waiting.add(other, func() {})
			for range 2 { // the second finds them woken already
				q.notified(c.payload)
			}
			if a, b, o := woken(first), woken(second), woken(third); a != c.one || b != c.one || o != c.other {
				t.Errorf("woken: %t %t, other %t", a, b, o)
			}
			if woken(first) {
				t.Error("two notifications are two wake-ups")
			}
			q.waiting.remove(first)
			q.notified(c.payload)
			if a, b := woken(first), woken(second); a || b != c.one {
				t.Errorf("after the first has left: %t %t", a, b)
			}
			q.waiting.remove(second)
			q.waiting.remove(third)
			if len(q.waiting.by) != 0 {
				t.Errorf("left behind: %v", q.waiting.by)
			}
		})
	}
}

func TestAPollEndsTheEarlierOnesOfItsNodeOnly(t *testing.T) {
	w := newWaiters()
	one, other := id.New[id.Node](), id.New[id.Node]()
	var left []string
	add := func(node id.Node, name string) *waiter {
		return w.add(node, func() { left = append(left, name) })
	}
	gone := add(one, "gone")
	w.remove(gone)
	add(one, "first")
	add(other, "other")
	if left != nil {
		t.Fatalf("%v left", left)
	}
	add(one, "second")
	if !slices.Equal(left, []string{"first"}) {
		t.Errorf("%v left", left)
	}
}
