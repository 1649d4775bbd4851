package certificate_test

import (
	"testing"

	"gpuaas/controlplane/internal/base/id"
)

// The cost of a document without the engine's signature, for many nodes at a
// time.
func BenchmarkIssue(b *testing.B) {
	w := newWorld(b)
	b.RunParallel(func(p *testing.PB) {
		d := w.draft()
		d.Node = w.newNode(b, "n"+id.NewString())
		for p.Next() {
			d.Decommission = id.New[id.Decommission]()
			if _, err := w.service.Issue(w.ctx, d); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
