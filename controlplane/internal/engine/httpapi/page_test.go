package httpapi_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/httpapi"
)

type keyset struct {
	At time.Time  `json:"at"`
	ID id.Project `json:"id"`
}

func TestCursorRoundTrip(t *testing.T) {
	want := keyset{At: time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC), ID: projectA}
	var got keyset
	if err := httpapi.DecodeCursor(httpapi.EncodeCursor(want), &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestPages(t *testing.T) {
	f := inputFrame(t)
	first := f.call(t, http.MethodGet, "/things?page_size=1", "nobody", "").expect(t, 200, "")
	var page httpapi.List[thing]
	if err := json.Unmarshal([]byte(first.body), &page); err != nil {
		t.Fatal(err)
	}
	if len(page.Items) != 1 || page.Items[0].Name != "1" || page.NextCursor == "" {
		t.Fatalf("first page %s", first.body)
	}
	second := f.call(t, http.MethodGet, "/things?page_size=1&cursor="+page.NextCursor, "nobody", "").expect(t, 200, "")
	page = httpapi.List[thing]{}
	if err := json.Unmarshal([]byte(second.body), &page); err != nil {
		t.Fatal(err)
	}
	if page.Items[0].Name != "11" {
		t.Errorf("second page %s", second.body)
	}
	whole := f.call(t, http.MethodGet, "/things", "nobody", "").expect(t, 200, "")
	page = httpapi.List[thing]{}
	if err := json.Unmarshal([]byte(whole.body), &page); err != nil {
		t.Fatal(err)
	}
	if len(page.Items) != 2 || page.NextCursor != "" {
		t.Errorf("whole list %s", whole.body)
	}
}

func TestEmptyListIsNotNull(t *testing.T) {
	b, err := json.Marshal(httpapi.NewList(httpapi.Page{PageSize: 5}, nil, func(thing) any { return nil }))
	if err != nil || string(b) != `{"items":[]}` {
		t.Errorf("%s %v", b, err)
	}
}

func TestLimitFetchesOneMore(t *testing.T) {
	if got := (httpapi.Page{PageSize: 200}).Limit(); got != 201 {
		t.Errorf("got %d", got)
	}
}

func FuzzDecodeCursor(f *testing.F) {
	f.Add(httpapi.EncodeCursor(keyset{At: time.Unix(0, 0), ID: projectA}))
	f.Add(httpapi.EncodeCursor(keyset{}))
	f.Add("")
	f.Add("bnVsbA")
	f.Add("e30")
	f.Add("eyJhdCI6IlwwMDAwIn0")
	f.Fuzz(func(t *testing.T, s string) {
		var k keyset
		err := httpapi.DecodeCursor(s, &k)
		if err == nil {
			var again keyset
			if err := httpapi.DecodeCursor(httpapi.EncodeCursor(k), &again); err != nil || !again.At.Equal(k.At) ||
				again.ID != k.ID {
				t.Fatalf("%q decodes to what does not come back: %+v %+v %v", s, k, again, err)
			}
			return
		}
		var e *fault.Error
		if !errors.As(err, &e) || e.Kind != fault.Invalid || e.Code != "cursor_invalid" {
			t.Fatalf("%q: %v", s, err)
		}
	})
}
