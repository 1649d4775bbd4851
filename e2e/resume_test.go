package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"gpuaas/contract/apiclient"
	"gpuaas/contract/eventwire"
	"gpuaas/stack"
	"gpuaas/stack/stacktest"
)

const (
	writers = 3
	changes = 40 // of each writer's tenant, besides making it
)

// TestResume has a reader whose connection breaks all the time, while others
// write: it sees every event once, those of a tenant in order.
func TestResume(t *testing.T) {
	t.Parallel()
	engines := stacktest.Start(t, stack.Options{})
	p := startPlane(t, engines.Endpoints(), planeOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	var group sync.WaitGroup
	for i := range writers {
		group.Go(func() {
			if err := writeTenant(ctx, p, fmt.Sprintf("writer-%d", i)); err != nil {
				t.Error(err)
				cancel()
			}
		})
	}
	r := &reader{client: p.client(t), seen: map[string]bool{}, versions: map[string]int64{}}
	r.readAll(ctx, t)
	group.Wait()
	t.Logf("read %d events over %d connections", len(r.seen), r.connections)
	if r.connections < 10 {
		t.Errorf("only %d connections: nothing was resumed", r.connections)
	}
}

// writeTenant makes a tenant and renames it many times.
func writeTenant(ctx context.Context, p *plane, slug string) error {
	a, err := p.call(ctx, http.MethodPost, "/api/v1/admin/tenants", naming{slug, slug})
	if err != nil {
		return err
	}
	var made apiclient.IdentityTenantView
	if err := json.Unmarshal(a.body, &made); err != nil || a.status != http.StatusCreated {
		return fmt.Errorf("create tenant %s: %s, %w", slug, a, err)
	}
	for i := range changes {
		a, err = p.call(ctx, http.MethodPatch, "/api/v1/tenants/"+made.OrgId.String(),
			map[string]string{"name": fmt.Sprintf("%s the %d", slug, i)}, header{"If-Match", a.header.Get("ETag")})
		if err != nil {
			return err
		}
		if a.status != http.StatusOK {
			return fmt.Errorf("rename tenant %s: %s", slug, a)
		}
	}
	return nil
}

// reader follows the tenants of the writers.
type reader struct {
	client      *apiclient.Client
	last        string
	seen        map[string]bool
	versions    map[string]int64 // of each tenant, the last that was told
	connections int
}

var errHangUp = errors.New("the reader hangs up")

// readAll reads from the beginning, hanging up after every few events, until
// every tenant has its last version.
func (r *reader) readAll(ctx context.Context, t *testing.T) {
	t.Helper()
	r.last = "0"
	for !r.complete() {
		r.connections++
		left := r.connections % 8 // none at all now and then
		err := apiclient.Stream(ctx, r.client, apiclient.StreamRequest{After: r.last, Type: "tenant"},
			func(i apiclient.StreamItem) error {
				if err := r.take(i); err != nil {
					return err
				}
				if left--; left <= 0 || r.complete() {
					return errHangUp
				}
				return nil
			})
		if !errors.Is(err, errHangUp) {
			t.Fatalf("read after position %s: %v; versions so far: %v", r.last, err, r.versions)
		}
	}
}

func (r *reader) complete() bool {
	if len(r.versions) < writers {
		return false
	}
	for _, v := range r.versions {
		if v < changes+1 {
			return false
		}
	}
	return true
}

func (r *reader) take(i apiclient.StreamItem) error {
	if i.Gap != nil {
		return fmt.Errorf("the stream has a gap: %+v", *i.Gap)
	}
	before, err := strconv.ParseUint(r.last, 10, 64)
	if err != nil {
		return err
	}
	now, err := strconv.ParseUint(i.Position, 10, 64)
	if err != nil {
		return err
	}
	r.last = i.Position
	if i.Event == nil {
		return nil
	}
	if now <= before {
		return fmt.Errorf("position %d follows %d", now, before)
	}
	if id := i.Event.EventId.String(); r.seen[id] {
		return fmt.Errorf("event %s was told twice", id)
	}
	r.seen[i.Event.EventId.String()] = true
	var envelope eventwire.Envelope
	var tenant eventwire.Tenant
	if err := errors.Join(json.Unmarshal(i.Raw, &envelope), json.Unmarshal(envelope.Payload, &tenant)); err != nil {
		return err
	}
	if tenant.Version != r.versions[tenant.OrgID]+1 {
		return fmt.Errorf("version %d of tenant %s follows version %d", tenant.Version, tenant.Slug, r.versions[tenant.OrgID])
	}
	r.versions[tenant.OrgID] = tenant.Version
	return nil
}
