package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
)

// Followed is what an operation answers that is a page, or a feed of what comes after
// it if the caller follows.
type Followed[I, P any] struct {
	// Follows reports whether the caller wants the feed.
	Follows func(in *I) bool
	// Page answers a page.
	Page func(ctx context.Context, in *I) (*P, error)
	// Feed sends events until it returns, as the handler of RegisterStream does.
	Feed func(ctx context.Context, in *I, send func(Event) error) error
}

// RegisterFollowed adds an operation that is a page or a feed, at one path. P is the
// type of the body of a page; events are those of RegisterStream.
func RegisterFollowed[I, P any](a *API, op Operation, events map[string]any, f Followed[I, P]) {
	op.Stream = true
	if _, taken := events[problemEvent]; taken || op.Method != http.MethodGet || len(events) == 0 {
		panic(fmt.Sprintf("httpapi: stream %q: needs method GET and at least one event, none of them named %s", op.ID,
			problemEvent))
	}
	described := a.describe(op, reflect.TypeFor[I]())
	a.nameIDs(reflect.TypeFor[I](), reflect.TypeFor[P]())
	described.Responses = map[string]*huma.Response{"200": {
		Description: "A page, or, for a caller who follows, a stream of server-sent events or a websocket.",
		Content: map[string]*huma.MediaType{
			"application/json": {Schema: a.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[P](), true, "")},
			streamType:         {Schema: a.eventSchema(events)},
		},
	}}
	huma.Register(a.huma, described, func(_ context.Context, in *I) (*huma.StreamResponse, error) {
		return &huma.StreamResponse{Body: func(hctx huma.Context) {
			r, w := humachi.Unwrap(hctx)
			if f.Follows(in) {
				a.stream(w, r, op, events, func(ctx context.Context, send func(Event) error) error {
					return f.Feed(ctx, in, send)
				})
				return
			}
			page, err := f.Page(r.Context(), in)
			if err != nil {
				a.fail(w, r, err)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(page) // the caller may have gone
		}}, nil
	})
	a.finish(op)
}
