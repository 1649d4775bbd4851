package blob_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gpuaas/agent/internal/blob"
)

// origin is a server whose behaviour a test changes.
type origin struct {
	*httptest.Server
	content []byte
	asked   atomic.Int64 // requests
	sent    atomic.Int64 // bytes

	mu sync.Mutex
	do http.HandlerFunc // nil: as it should be
}

func newOrigin(t *testing.T, content []byte) *origin {
	t.Helper()
	o := &origin{content: content}
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.asked.Add(1)
		o.mu.Lock()
		do := o.do
		o.mu.Unlock()
		if do == nil {
			do = o.serve
		}
		do(counted{w, &o.sent}, r)
	}))
	t.Cleanup(o.Close)
	return o
}

type counted struct {
	http.ResponseWriter
	sent *atomic.Int64
}

func (c counted) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c counted) Write(raw []byte) (int, error) {
	n, err := c.ResponseWriter.Write(raw)
	c.sent.Add(int64(n))
	return n, err
}

func (o *origin) serve(w http.ResponseWriter, r *http.Request) {
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(o.content))
}

func (o *origin) answers(do http.HandlerFunc) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.do = do
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// target is a file that is fetched, possibly in several attempts.
type target struct{ part, notes *os.File }

func newTarget(t testing.TB) target {
	t.Helper()
	dir := t.TempDir()
	open := func(name string) *os.File {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	return target{open("part"), open("notes")}
}

func (to target) content(t *testing.T) []byte {
	t.Helper()
	raw, err := os.ReadFile(to.part.Name())
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

var quick = blob.Fetcher{Pause: time.Millisecond}

func fetch(ctx context.Context, to target, w blob.Want) error {
	return quick.Fetch(ctx, w, to.part, to.notes)
}

func random(n int) []byte {
	raw := make([]byte, n)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(raw)
	return raw
}

// wanted is a request for the content of servers.
func wanted(content []byte, from ...*origin) blob.Want {
	sum := sha256.Sum256(content)
	w := blob.Want{SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(content))}
	for _, o := range from {
		w.Sources = append(w.Sources, o.URL+"/file")
	}
	return w
}

func wantReason(t *testing.T, err error, reason blob.Reason) {
	t.Helper()
	var e *blob.Error
	if !errors.As(err, &e) || e.Reason != reason {
		t.Errorf("ended with %v, not %s", err, reason)
	}
}

const mib = 1 << 20

func TestAFileIsFetchedInParts(t *testing.T) {
	content := random(20*mib + 13)
	o := newOrigin(t, content)
	to, w := newTarget(t), wanted(content, o)
	var told atomic.Int64
	w.Progress = func(done int64) { told.Store(done) }
	if err := fetch(t.Context(), to, w); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(to.content(t), content) || told.Load() != int64(len(content)) {
		t.Errorf("other bytes arrived, or %d were told", told.Load())
	}
	if o.asked.Load() != 3 {
		t.Errorf("%d requests for 3 parts", o.asked.Load())
	}
	// What is there is not fetched again.
	if err := fetch(t.Context(), to, w); err != nil || o.asked.Load() != 3 {
		t.Errorf("%v, %d requests", err, o.asked.Load())
	}
}

// Whatever breaks off, at most the parts on their way are fetched again, and never is
// there a wrong byte.
func TestBrokenOffAtRandomOffsets(t *testing.T) {
	content := random(64*mib + 5)
	o := newOrigin(t, content)
	to, w := newTarget(t), wanted(content, o)
	w.Parallel = 2
	rng := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		stopAt := o.sent.Load() + rng.Int64N(10*mib)
		ctx, cancel := context.WithCancel(t.Context())
		o.answers(func(rw http.ResponseWriter, r *http.Request) {
			o.serve(breaking{rw, func() bool { return o.sent.Load() >= stopAt }, cancel}, r)
		})
		err := fetch(ctx, to, w)
		cancel()
		if err == nil {
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	o.answers(nil)
	before := o.sent.Load()
	if err := fetch(t.Context(), to, w); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(to.content(t), content) {
		t.Error("other bytes arrived")
	}
	// Each of the 50 interruptions costs two parts of 8 MiB at most.
	if most := int64(len(content)) + 50*2*8*mib; before > most {
		t.Errorf("%d bytes were sent, more than %d", before, most)
	}
}

// breaking ends the transfer once enough was sent.
type breaking struct {
	http.ResponseWriter
	enough func() bool
	stop   func()
}

func (b breaking) Write(raw []byte) (int, error) {
	if b.enough() {
		b.stop()
		return 0, errors.New("broken off")
	}
	return b.ResponseWriter.Write(raw)
}

// A server that ends connections in the middle is asked for the rest.
func TestConnectionsThatEndEarly(t *testing.T) {
	content := random(9 * mib)
	o := newOrigin(t, content)
	var n atomic.Int64
	o.answers(func(rw http.ResponseWriter, r *http.Request) {
		left := int64(3 * mib)
		if n.Add(1)%2 == 0 {
			left = 1000
		}
		o.serve(breaking{rw, func() bool { left -= 32 << 10; return left < 0 }, func() {}}, r)
	})
	to := newTarget(t)
	if err := fetch(t.Context(), to, wanted(content, o)); err != nil || !bytes.Equal(to.content(t), content) {
		t.Error(err)
	}
	if most := int64(len(content)) + 4*mib; o.sent.Load() > most {
		t.Errorf("%d bytes were sent, more than %d", o.sent.Load(), most)
	}
}

func TestSourcesThatCannotGiveTheFile(t *testing.T) {
	content := random(mib)
	for _, c := range []struct {
		name   string
		do     func(o *origin) http.HandlerFunc
		reason blob.Reason
	}{
		{"not there", func(*origin) http.HandlerFunc { return status(http.StatusNotFound) }, blob.NotFound},
		{"not allowed", func(*origin) http.HandlerFunc { return status(http.StatusForbidden) }, blob.Denied},
		{"an expired credential", func(*origin) http.HandlerFunc { return status(http.StatusUnauthorized) }, blob.Denied},
		{"a redirect", func(o *origin) http.HandlerFunc {
			return http.RedirectHandler(o.URL+"/other", http.StatusFound).ServeHTTP
		}, blob.Redirected},
		{"too much to do", func(*origin) http.HandlerFunc { return status(http.StatusServiceUnavailable) }, blob.Unreachable},
		{"a shorter file", func(*origin) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content[:mib-1]))
			}
		}, blob.Changed},
		{"other bytes", func(*origin) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(bytes.Repeat([]byte{7}, mib)))
			}
		}, blob.Mismatch},
		{"a range that it did not ask for", func(*origin) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Range", fmt.Sprintf("bytes 5-%d/%d", mib-1, mib))
				w.WriteHeader(http.StatusPartialContent)
				_, _ = w.Write(content[5:])
			}
		}, blob.Changed},
		{"another total", func(*origin) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", mib-1, 2*mib))
				w.WriteHeader(http.StatusPartialContent)
				_, _ = w.Write(content)
			}
		}, blob.Changed},
		{"compressed", func(*origin) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				w.Header().Set("Content-Length", strconv.Itoa(mib))
				_, _ = w.Write(content)
			}
		}, blob.Changed},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOrigin(t, content)
			o.answers(c.do(o))
			to := newTarget(t)
			wantReason(t, fetch(t.Context(), to, wanted(content, o)), c.reason)
			// A source that can is the next; what the first gave does no harm.
			good := newOrigin(t, content)
			if err := fetch(t.Context(), to, wanted(content, o, good)); err != nil || !bytes.Equal(to.content(t), content) {
				t.Errorf("with a mirror: %v", err)
			}
		})
	}
}

// A source without ranges is read once, not once for each part.
func TestASourceWithoutRanges(t *testing.T) {
	content := random(40 * mib)
	o := newOrigin(t, content)
	var broken atomic.Bool
	o.answers(func(w http.ResponseWriter, r *http.Request) {
		whole := r.Header.Get("Range") == ""
		r.Header.Del("Range")
		if whole && broken.CompareAndSwap(false, true) {
			left := 20 * mib
			o.serve(breaking{w, func() bool { left -= 32 << 10; return left < 0 }, func() {}}, r)
			return
		}
		o.serve(w, r)
	})
	to := newTarget(t)
	if err := fetch(t.Context(), to, wanted(content, o)); err != nil || !bytes.Equal(to.content(t), content) {
		t.Error(err)
	}
	// Whoever was answered with the whole file has ended the connection.
	if o.asked.Load() > 12 || !broken.Load() {
		t.Errorf("%d requests, broken off %v", o.asked.Load(), broken.Load())
	}
}

// What the disk gives back differently after a crash is fetched again.
func TestAPartThatWasDamagedOnTheDisk(t *testing.T) {
	content := random(30 * mib)
	o := newOrigin(t, content)
	to, w := newTarget(t), wanted(content, o)
	if err := fetch(t.Context(), to, w); err != nil {
		t.Fatal(err)
	}
	if _, err := to.part.WriteAt([]byte("damaged"), 9*mib); err != nil {
		t.Fatal(err)
	}
	before := o.asked.Load()
	if err := fetch(t.Context(), to, w); err != nil || !bytes.Equal(to.content(t), content) {
		t.Error(err)
	}
	if o.asked.Load() != before+1 {
		t.Errorf("%d requests for one part", o.asked.Load()-before)
	}
}

// Notes that were cut off, damaged or are about another file vouch for nothing wrong.
func TestNotesThatCannotBeTrusted(t *testing.T) {
	content := random(20 * mib)
	o := newOrigin(t, content)
	w := wanted(content, o)
	for name, spoil := range map[string]func(raw string) string{
		"cut off":        func(raw string) string { return raw[:len(raw)-3] },
		"another file":   func(raw string) string { return strings.Replace(raw, w.SHA256[:8], "00000000", 1) },
		"no part":        func(raw string) string { return raw + `{"p":99,"c":1}` + "\n" + `{"p":-1,"c":1}` + "\n" },
		"no notes":       func(string) string { return "\x00\x01\n{}" },
		"a wrong sum":    func(raw string) string { return raw + `{"p":0,"c":1}` + "\n" },
		"nothing at all": func(string) string { return "" },
	} {
		t.Run(name, func(t *testing.T) {
			to := newTarget(t)
			if err := fetch(t.Context(), to, w); err != nil {
				t.Fatal(err)
			}
			raw, err := os.ReadFile(to.notes.Name())
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(to.notes.Name(), []byte(spoil(string(raw))), 0o600); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := fetch(t.Context(), to, w); err != nil || !bytes.Equal(to.content(t), content) {
					t.Error(err)
				}
			}
		})
	}
}

func TestASourceThatFallsSilent(t *testing.T) {
	content := random(mib)
	o := newOrigin(t, content)
	release := make(chan struct{})
	defer close(release)
	o.answers(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", mib-1, mib))
		w.WriteHeader(http.StatusPartialContent)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	silent := blob.Fetcher{Pause: time.Millisecond, Stall: 50 * time.Millisecond}
	to := newTarget(t)
	wantReason(t, silent.Fetch(t.Context(), wanted(content, o), to.part, to.notes), blob.Unreachable)
}

func TestTwoTransfersOfOneFile(t *testing.T) {
	content := random(mib)
	o := newOrigin(t, content)
	to, w := newTarget(t), wanted(content, o)
	o.answers(func(rw http.ResponseWriter, r *http.Request) {
		again, err := os.OpenFile(to.part.Name(), os.O_RDWR, 0)
		if err != nil {
			t.Error(err)
			return
		}
		defer again.Close()
		wantReason(t, quick.Fetch(r.Context(), w, again, to.notes), blob.Busy)
		o.serve(rw, r)
	})
	if err := fetch(t.Context(), to, w); err != nil || o.asked.Load() != 1 {
		t.Error(err)
	}
}

func TestAFullDisk(t *testing.T) {
	content := random(mib)
	o := newOrigin(t, content)
	w := wanted(content, o)
	w.KeepFree = 1 << 60
	to := newTarget(t)
	wantReason(t, fetch(t.Context(), to, w), blob.NoSpace)
	if o.asked.Load() != 0 || len(to.content(t)) != 0 {
		t.Error("it began although there is no space")
	}
}

// A token goes to the sources, and to nobody they send to.
func TestATokenStaysWithItsSource(t *testing.T) {
	content := random(mib)
	other := newOrigin(t, content)
	o := newOrigin(t, content)
	var got atomic.Value
	o.answers(func(w http.ResponseWriter, r *http.Request) {
		got.Store(r.Header.Get("Authorization"))
		http.Redirect(w, r, other.URL, http.StatusFound)
	})
	w := wanted(content, o)
	w.Token = "canary"
	err := fetch(t.Context(), newTarget(t), w)
	wantReason(t, err, blob.Redirected)
	if got.Load() != "Bearer canary" || other.asked.Load() != 0 || strings.Contains(err.Error(), "canary") {
		t.Errorf("%v, the other was asked %d times, %v", got.Load(), other.asked.Load(), err)
	}
}

// A limit holds for all parts together.
func TestTheSpeedIsLimited(t *testing.T) {
	content := random(2 * mib)
	o := newOrigin(t, content)
	w := wanted(content, o)
	w.BytesPerSecond = 8 * mib
	began := time.Now()
	if err := fetch(t.Context(), newTarget(t), w); err != nil || time.Since(began) < 200*time.Millisecond {
		t.Errorf("%v after %s", err, time.Since(began))
	}
}
