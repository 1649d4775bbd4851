package blob_test

import (
	"bytes"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"gpuaas/agent/internal/blob"
)

// A source that gives one worker a range slowly, and another one the whole file, cannot
// exchange a part after it was hashed.
func TestAttackAPartIsNotExchangedAfterItWasHashed(t *testing.T) {
	content := random(20 * mib)
	evil := bytes.Repeat([]byte{7}, 8*mib)
	o := newOrigin(t, content)
	hashed := make(chan struct{})
	var slow atomic.Bool
	o.answers(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Range") == fmt.Sprintf("bytes=0-%d", 8*mib-1) && slow.CompareAndSwap(false, true):
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", 8*mib-1, len(content)))
			w.WriteHeader(http.StatusPartialContent)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-hashed:
			case <-r.Context().Done():
			}
			_, _ = w.Write(evil)
		default:
			r.Header.Del("Range")
			o.serve(w, r)
		}
	})
	to, w := newTarget(t), wanted(content, o)
	var once sync.Once
	w.Progress = func(int64) { once.Do(func() { close(hashed) }) }
	if err := fetch(t.Context(), to, w); err == nil && !bytes.Equal(to.content(t), content) {
		t.Error("wrong bytes took their place")
	}
}

// A mirror that does not have the file does not hide that the first source is only down,
// and is not shown its token.
func TestAMirrorIsSomebodyElse(t *testing.T) {
	content := random(mib)
	first, mirror := newOrigin(t, content), newOrigin(t, content)
	first.answers(status(http.StatusServiceUnavailable))
	var shown atomic.Value
	mirror.answers(func(w http.ResponseWriter, r *http.Request) {
		shown.Store(r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusNotFound)
	})
	w := wanted(content, first, mirror)
	w.Token = "canary"
	to := newTarget(t)
	wantReason(t, fetch(t.Context(), to, w), blob.Unreachable)
	_, err := quick.Small(t.Context(), w, "*/*", mib)
	wantReason(t, err, blob.Unreachable)
	if shown.Load() != "" {
		t.Errorf("the mirror was shown %v", shown.Load())
	}
	if len(to.content(t)) != 0 {
		t.Error("nothing came, and space stays taken")
	}
}
