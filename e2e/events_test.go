package e2e

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/apiclient"
	"gpuaas/testkit"
)

// client is the API client that others use, for the event stream.
func (p *plane) client(t testing.TB) *apiclient.Client {
	t.Helper()
	c, err := apiclient.New(apiclient.Config{URL: p.url, Token: p.token})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// awaitDelivered waits until the outbox is empty.
func awaitDelivered(t *testing.T, p *plane) {
	t.Helper()
	testkit.Succeeds(t, "all events to be delivered", 90*time.Second, func() error {
		var status apiclient.SystemStatus
		p.do(t, http.MethodGet, "/api/v1/admin/system", nil, http.StatusOK, &status)
		for _, b := range *status.Outbox {
			if b.Failed > 0 {
				t.Fatalf("%d messages to %s failed for good", b.Failed, b.Destination)
			}
			if b.Pending > 0 {
				return fmt.Errorf("%d messages to %s wait", b.Pending, b.Destination)
			}
		}
		return nil
	})
}

var errEnough = errors.New("enough")

// readEvents reads the stream from its beginning to the creation of a tenant
// that is made now, after everything else.
func readEvents(t *testing.T, p *plane, kind string) []apiclient.EventwireEnvelope {
	t.Helper()
	slug := "end-" + strings.ToLower(rand.Text()[:16])
	var end apiclient.IdentityTenantView
	p.do(t, http.MethodPost, "/api/v1/admin/tenants", naming{slug, slug}, http.StatusCreated, &end)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var events []apiclient.EventwireEnvelope
	err := apiclient.Stream(ctx, p.client(t), apiclient.StreamRequest{Type: kind, After: "0"},
		func(i apiclient.StreamItem) error {
			if i.Gap != nil {
				return fmt.Errorf("the stream has a gap: %+v", *i.Gap)
			}
			if i.Event == nil {
				return nil
			}
			if i.Event.EventType == "tenant.created" && i.Event.OrgId != nil && *i.Event.OrgId == end.OrgId {
				return errEnough
			}
			events = append(events, *i.Event)
			return nil
		})
	if !errors.Is(err, errEnough) {
		t.Fatalf("read the event stream: %v, after %d events", err, len(events))
	}
	return events
}
