package decommission_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/work/decommission"
)

// desk is the API of decommissions. No workflow runs by itself.
type desk struct {
	*yard
	feed *feed
	api  *httpapi.API
}

func newDesk(tb testing.TB, change ...func(*decommission.Config)) *desk {
	tb.Helper()
	d := &desk{yard: newYard(tb, change...), feed: &feed{}}
	d.api = httpapitest.New(d.db)
	d.service.Register(d.api, d.feed)
	return d
}

// feed tells what a test put into it.
type feed struct {
	asked outbox.FeedRequest
	items []outbox.FeedItem
}

func (f *feed) Read(_ context.Context, r outbox.FeedRequest, tell func(outbox.FeedItem) error) error {
	f.asked = r
	for _, item := range f.items {
		if err := tell(item); err != nil {
			return err
		}
	}
	return nil
}

type object = map[string]any

// call sends one request as the platform administrator.
func (d *desk) call(tb testing.TB, method, path string, body any) httpapitest.Answer {
	tb.Helper()
	return d.callAs(tb, httpapitest.Root, method, path, "", body)
}

func (d *desk) callAs(tb testing.TB, token, method, path, key string, body any) httpapitest.Answer {
	tb.Helper()
	return httpapitest.Call(tb, d.api.Handler(), httpapitest.Request{
		As: token, Method: method, Path: "/api/v1/admin/" + path, Key: key, Body: body,
	})
}

// begin asks for something about a node over the API.
func (d *desk) begin(tb testing.TB, of id.Node, path string, body object) decommission.NewView {
	tb.Helper()
	var v decommission.NewView
	d.call(tb, http.MethodPost, "nodes/"+of.String()+"/"+path, body).Into(tb, http.StatusAccepted, &v)
	return v
}

// park parks a decommission as if a stage had failed.
func (d *desk) park(tb testing.TB, of id.Decommission, stage string) {
	tb.Helper()
	d.exec(tb, `UPDATE node_decommissions SET status = 'failed_manual_intervention', parked_at = now(), started_at = now(), current_stage = $2, current_attempt = 1,
		failure_class = 'node_agent_unreachable', error_code = 'agent_unreachable', error_message = 'the agent is silent' WHERE id = $1`, of, stage)
	d.exec(tb, `INSERT INTO job_events (job_id, epoch, stage, attempt, status, message) VALUES ($1, 1, $2, 1, 'started', ''),
		($1, 1, $2, 1, 'failed', 'the agent is silent')`, of, stage)
}

// told is the ids of what the feed sent.
func told(a httpapitest.Answer) string {
	var ids []string
	for line := range strings.Lines(string(a.Body)) {
		if v, ok := strings.CutPrefix(line, "id: "); ok {
			ids = append(ids, strings.TrimSpace(v))
		}
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}
