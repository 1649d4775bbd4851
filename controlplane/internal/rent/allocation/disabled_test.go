package allocation_test

import (
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/rent/allocation"
)

// A tenant that is disabled keeps what it has and can release it. It gets nothing new:
// neither by asking, nor by what it asked for before.
func TestADisabledTenantGetsNothingNew(t *testing.T) {
	w := newWorld(t)
	w.node(t, "n1")
	a := w.active(t, allocation.Ask{})
	r := w.queued(t, allocation.Ask{})
	w.exec(t, `UPDATE organizations SET disabled_at = clock_timestamp() WHERE id = $1`, w.org)
	w.node(t, "n2")
	refused := func(ask allocation.Ask) {
		t.Helper()
		ask.SKU, ask.Project = h200, w.project
		if _, err := w.service.Request(w.ctx, ask); fault.CodeOf(err) != "tenant_disabled" ||
			fault.KindOf(err) != fault.Forbidden {
			t.Errorf("it is answered %v", err)
		}
	}
	refused(allocation.Ask{})
	refused(allocation.Ask{Count: 2, WaitUpTo: time.Hour})
	if n := w.serve(t); n != 0 || w.request(t, r.ID).Status != allocation.Waiting {
		t.Errorf("%d were placed, and the request is %s", n, w.request(t, r.ID).Status)
	}
	if now := w.release(t, a); now.Status != allocation.Releasing {
		t.Errorf("released, it is %s", now.Status)
	}
	w.exec(t, `UPDATE organizations SET disabled_at = NULL WHERE id = $1`, w.org)
	if n := w.serve(t); n != 1 || w.request(t, r.ID).Status != allocation.Placed {
		t.Errorf("enabled, %d were placed, and the request is %s", n, w.request(t, r.ID).Status)
	}
}
