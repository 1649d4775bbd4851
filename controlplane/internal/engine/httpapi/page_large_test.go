package httpapi_test

import (
	"context"
	"net/http"
	"testing"

	"gpuaas/controlplane/internal/engine/httpapi"
)

func TestLargePagesHoldUpToAThousand(t *testing.T) {
	f := inputFrame(t)
	httpapi.Register(f.API, httpapi.Operation{
		ID: "list-many", Method: http.MethodGet, Path: "/many", Summary: "Many", Tag: "test", Access: httpapi.Public(),
	}, func(_ context.Context, in *struct{ httpapi.LargePage }) (*httpapi.Listed[thing], error) {
		rows := make([]thing, in.Page().Limit())
		return httpapi.ListOf(in.Page(), rows, nil, func(x thing) thing { return x }, func(thing) any { return 1 })
	})
	f.call(t, http.MethodGet, "/many?page_size=1000", "nobody", "").expect(t, 200, "")
	f.call(t, http.MethodGet, "/many?page_size=1001", "nobody", "").expect(t, 422, "validation_error")
	if got := (httpapi.LargePage{PageSize: 1000}).Page().Limit(); got != 1001 {
		t.Errorf("got %d", got)
	}
}
