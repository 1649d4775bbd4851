package artifact

import (
	"testing"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
)

// One tenant reads from two registries at a time, and all of them from ten.
func TestReadsOfRegistriesAreBounded(t *testing.T) {
	t.Parallel()
	r := &readers{of: map[id.Org]int{}}
	refused := func(org id.Org) bool {
		_, err := r.enter(org)
		return fault.KindOf(err) == fault.RateLimited
	}
	one := id.New[id.Org]()
	var done []func()
	enter := func(org id.Org) {
		t.Helper()
		end, err := r.enter(org)
		if err != nil {
			t.Fatal(err)
		}
		done = append(done, end)
	}
	enter(one)
	enter(one)
	if !refused(one) {
		t.Error("a third of one tenant is let in")
	}
	for range 8 {
		enter(id.New[id.Org]())
	}
	if !refused(id.New[id.Org]()) {
		t.Error("an eleventh is let in")
	}
	for _, end := range done {
		end()
	}
	if r.all != 0 || len(r.of) != 0 {
		t.Errorf("%d are left, of %v", r.all, r.of)
	}
	enter(one)
}
