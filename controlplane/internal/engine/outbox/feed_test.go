package outbox_test

import (
	"encoding/json"
	"errors"
	"maps"
	"testing"
	"time"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/stack/stacktest"
)

func reader(name string) func() *auth.Principal {
	return func() *auth.Principal { return people[name] }
}

// A reading ends after a while with a mark, so that even a reader who may see
// nothing keeps up with the stream.
func TestFeedEndsWithAMark(t *testing.T) {
	db, access := postgrestest.New(t), stacktest.NATS(t)
	n := connectNATS(t, access)
	runRelay(t, outbox.RelayConfig{DB: db, Destinations: toNATS(n)})
	appendEvents(t, db, of(orgB, 1), of(orgB, 2))
	awaitRows(t, db, 2, "status = 'published'")

	var told []outbox.FeedItem
	err := outbox.NewShortFeed(n, 300*time.Millisecond).Read(t.Context(),
		outbox.FeedRequest{Resume: true, Reader: reader("tenant")},
		func(item outbox.FeedItem) error { told = append(told, item); return nil })
	if err != nil {
		t.Fatal(err)
	}
	if len(told) != 2 || told[0].Mark == nil || told[0].Position != 0 || told[1].Mark == nil || told[1].Position != 2 {
		t.Errorf("a reader who may see nothing was told %+v", told)
	}
}

// member is somebody in one project of orgA, and nothing else.
func member() *auth.Principal {
	return &auth.Principal{
		Kind: auth.KindUser, ID: "member", Name: "member",
		Projects: map[id.Project]auth.ProjectRole{projectA: {Org: orgA, Role: auth.ProjectAdmin}},
	}
}

var projectA, projectOther = id.New[id.Project](), id.New[id.Project]()

// read reads the whole past as somebody and returns what was shown, in order.
func read(tb testing.TB, feed *outbox.Feed, who *auth.Principal) (shown []eventwire.Envelope, last outbox.FeedItem) {
	tb.Helper()
	err := feed.Read(tb.Context(), outbox.FeedRequest{Resume: true, Reader: func() *auth.Principal { return who }},
		func(item outbox.FeedItem) error {
			if last = item; item.Event != nil {
				shown = append(shown, *item.Event)
			}
			return nil
		})
	if err != nil {
		tb.Fatal(err)
	}
	return shown, last
}

func TestAttackAMemberDoesNotSeeEventsOfAnotherProject(t *testing.T) {
	db, access := postgrestest.New(t), stacktest.NATS(t)
	n := connectNATS(t, access)
	runRelay(t, outbox.RelayConfig{DB: db, Destinations: toNATS(n)})
	in := func(project id.Project, name string) outbox.Event {
		return outbox.Event{
			Type: eventwire.ServiceAccountCreated, AggregateKind: "service_account", AggregateID: name, Org: orgA,
			Project: project,
			Payload: eventwire.ServiceAccount{
				ServiceAccountID: name, ProjectID: project.String(), OrgID: orgA.String(),
				Name: name,
			},
		}
	}
	old := in(projectOther, "old-foreign") // as the previous release wrote it
	old.Project = id.Project{}
	oldToken := outbox.Event{
		Type: eventwire.TokenCreated, AggregateKind: "token", AggregateID: "t", Org: orgA,
		Payload: eventwire.Token{Name: "old-token"},
	}
	appendEvents(t, db, in(projectOther, "foreign"), in(projectA, "own"), old, oldToken, of(orgA, 7), of(orgB, 8))
	awaitRows(t, db, 6, "status = 'published'")
	awaitRows(t, db, 2, "project_id IS NOT NULL")

	shown, _ := read(t, outbox.NewShortFeed(n, 500*time.Millisecond), member())
	kinds := map[eventwire.Type]string{} // events of different things have no order
	for _, e := range shown {
		kinds[e.EventType] = e.ProjectID
	}
	want := map[eventwire.Type]string{eventwire.ServiceAccountCreated: projectA.String(), eventwire.TenantUpdated: ""}
	if len(shown) != 2 || !maps.Equal(kinds, want) {
		t.Errorf("a member of one project was shown %d events, %v, want that of the project and that of the tenant",
			len(shown), kinds)
	}
	if all, _ := read(t, outbox.NewShortFeed(n, 500*time.Millisecond), people["tenant"]); len(all) != 5 {
		t.Errorf("the administrator of the tenant was shown %d events, want 5", len(all))
	}
}

// A reader who may see nothing must not make the server read everything, in one
// request or in many at the same time.
func TestAttackAReplayOfWhatIsHiddenIsBounded(t *testing.T) {
	access := stacktest.NATS(t)
	n := connectNATS(t, access)
	awaitNATS(t, n)
	body, err := json.Marshal(eventwire.Envelope{
		EventType: eventwire.TenantUpdated, OrgID: orgB.String(),
		Payload: []byte("{}"),
	})
	if err != nil {
		t.Fatal(err)
	}
	const foreign = 12_000
	for range foreign / 1000 {
		batch := make([]outbox.Message, 1000)
		for i := range batch {
			batch[i] = outbox.Message{ID: id.New[id.Event](), Type: string(eventwire.TenantUpdated), Body: body}
		}
		if err := errors.Join(n.Deliver(t.Context(), batch)...); err != nil {
			t.Fatal(err)
		}
	}
	feed := outbox.NewFeed(n)
	shown, last := read(t, feed, people["tenant"])
	if len(shown) != 0 || last.Mark == nil || last.Position == 0 || last.Position > foreign/2 {
		t.Fatalf("one request read %d events that its caller may not see, and ended with %+v", last.Position, last)
	}
	// It goes on from where it stopped.
	var next outbox.FeedItem
	err = feed.Read(t.Context(), outbox.FeedRequest{Resume: true, After: last.Position, Reader: reader("tenant")},
		func(item outbox.FeedItem) error { next = item; return nil })
	if err != nil || next.Position <= last.Position || next.Position > 2*last.Position {
		t.Errorf("the second request went from %d to %d (%v)", last.Position, next.Position, err)
	}
}
