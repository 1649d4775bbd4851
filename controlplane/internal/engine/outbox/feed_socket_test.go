package outbox_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/coder/websocket"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/stack/stacktest"
)

// A member of a project follows it by websocket: it hears of its own project and of no
// other, and resumes where it stopped without missing or repeating anything.
func TestAttackAWebsocketShowsNoEventsOfAnotherProject(t *testing.T) {
	db, access := postgrestest.New(t), stacktest.NATS(t)
	n := connectNATS(t, access)
	server := serve(t, db, n)
	runRelay(t, outbox.RelayConfig{DB: db, Destinations: toNATS(n)})
	awaitNATS(t, n)
	write := func(project id.Project, name string) {
		appendEvents(t, db, outbox.Event{
			Type: eventwire.ServiceAccountCreated, AggregateKind: "service_account", AggregateID: "one", Org: orgA,
			Project: project, Payload: eventwire.ServiceAccount{Name: name, ProjectID: project.String(), OrgID: orgA.String()},
		})
	}
	last := ""
	for _, own := range []string{"first", "second"} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		conn, _, err := websocket.Dial(ctx, server.URL+"/api/v1/events?last_event_id="+last, &websocket.DialOptions{
			HTTPHeader: http.Header{"Authorization": {"Bearer member"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		var message struct {
			ID, Event string
			Data      eventwire.Envelope
		}
		next := func() {
			_, raw, err := conn.Read(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(raw, &message); err != nil {
				t.Fatal(err)
			}
		}
		if next(); message.Event != "position" {
			t.Fatalf("it began with %+v", message)
		}
		if last == "" {
			write(projectOther, "foreign")
			write(projectA, own)
		}
		next()
		var payload eventwire.ServiceAccount
		if err := json.Unmarshal(message.Data.Payload, &payload); err != nil || payload.Name != own {
			t.Fatalf("heard of %q, want %q (%v)", payload.Name, own, err)
		}
		last = message.ID
		_ = conn.CloseNow()
		cancel()
		write(projectOther, "foreign again") // while nobody listens
		write(projectA, "second")
	}
}
