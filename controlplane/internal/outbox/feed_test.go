package outbox_test

import (
	"testing"
	"time"

	"gpuaas/controlplane/internal/outbox"
	"gpuaas/controlplane/internal/postgres/postgrestest"
	"gpuaas/stack/stacktest"
)

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
		outbox.FeedRequest{Resume: true, Reader: people["tenant"]},
		func(item outbox.FeedItem) error { told = append(told, item); return nil })
	if err != nil {
		t.Fatal(err)
	}
	if len(told) != 2 || told[0].Mark == nil || told[0].Position != 0 || told[1].Mark == nil || told[1].Position != 2 {
		t.Errorf("a reader who may see nothing was told %+v", told)
	}
}
