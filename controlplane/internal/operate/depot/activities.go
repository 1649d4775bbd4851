package depot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
)

const (
	maxManifest = 1 << 20
	maxNames    = 1000        // that a manifest may name, for a node to read by it
	maxChildren = 100         // manifests of an index, likewise
	keptNames   = 200_000     // digests that are remembered, of all manifests together
	lookTime    = time.Minute // for all manifests that one question of a node needs
	// stall is how long either side may bring nothing.
	stall = 2 * time.Minute
	// checkEvery is how many bytes of a push come between two looks at the disk.
	checkEvery = 1 << 20
	// keepFree is what a push leaves of the file system: at least this share of its bytes
	// and files, and this many bytes.
	keepFreeShare = 10
	keepFreeBytes = 2 << 30
)

func unavailable(cause error) error {
	return fault.Wrap(cause, fault.Unavailable, "registry_unavailable", "the registry of the platform does not answer").
		WithRemedy("try again later; an operator sees why in the log of the registry")
}

// Headers that are passed on: all others are between a client and us, or between us and the
// registry.
var (
	asked    = []string{"Accept", "Content-Length", "Content-Range", "Content-Type", "If-Range", "Range"}
	answered = []string{
		"Accept-Ranges", "Content-Length", "Content-Range", "Content-Type", "Docker-Content-Digest",
		"Docker-Distribution-Api-Version", "Docker-Upload-Uuid", "Etag", "Link", "Location", "Oci-Chunk-Min-Length",
		"Oci-Filters-Applied", "Oci-Subject", "Range",
	}
)

func only(h http.Header, names []string) http.Header {
	out := http.Header{}
	for _, name := range names {
		if values := h[name]; len(values) > 0 {
			out[name] = values
		}
	}
	return out
}

// newProxy passes requests on under the name of the control plane.
func (s *Service) newProxy() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Transport: s.cfg.Registry,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = "https", agentwire.PlatformRegistry, ""
			p.Out.Header = only(p.Out.Header, asked)
		},
		ModifyResponse: func(r *http.Response) error {
			if code := r.StatusCode; code == http.StatusUnauthorized || code == http.StatusForbidden ||
				code < http.StatusOK || code >= http.StatusMultipleChoices && code < http.StatusBadRequest {
				return fmt.Errorf("it answers the control plane with status %d", r.StatusCode)
			}
			r.Header = only(r.Header, answered)
			if at := r.Header.Get("Location"); at != "" { // where it is, is between the registry and us
				u, err := url.Parse(at)
				if err != nil {
					return fmt.Errorf("it sends to %q", at)
				}
				r.Header.Set("Location", (&url.URL{Path: u.Path, RawQuery: u.RawQuery}).String())
			}
			maps.Copy(r.Header, http.Header{ // an interim answer would have cleared those of the frame
				"Cache-Control": {"no-store"}, "Content-Security-Policy": {"default-src 'none'; frame-ancestors 'none'"},
				"X-Content-Type-Options": {"nosniff"},
			})
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if _, ours := fault.As(err); !ours && r.Context().Err() == nil {
				s.cfg.Logger.ErrorContext(r.Context(), "the registry did not answer", "error", err)
			}
			refuse(w, err)
		},
		ErrorLog:   slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelDebug),
		BufferPool: buffers{&sync.Pool{New: func() any { return new([256 << 10]byte) }}},
	}
}

// pass passes a request on, for so long at most. Neither side is waited for without end,
// and all end when the process does.
func (s *Service) pass(w http.ResponseWriter, r *http.Request, most time.Duration) {
	ctx, cancel := context.WithTimeout(r.Context(), most)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	r = r.WithContext(ctx)
	control := http.NewResponseController(w)
	var last atomic.Int64 // both directions move the deadlines
	later := func() {
		now := time.Now()
		if last.Swap(now.Unix()) == now.Unix() { // once a second: it costs more than the bytes
			return
		}
		until := now.Add(stall)
		_ = errors.Join(control.SetReadDeadline(until), control.SetWriteDeadline(until)) // a recorder has none
	}
	later()
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &incoming{ReadCloser: r.Body, later: later, room: s.room, ended: func() {
			_ = control.SetReadDeadline(time.Time{}) // the registry may take long to keep what has come
		}}
	}
	s.proxy.ServeHTTP(&outgoing{w, later}, r)
}

// buffers are what transfers are copied through.
type buffers struct{ pool *sync.Pool }

// Get implements httputil.BufferPool.
func (b buffers) Get() []byte {
	return b.pool.Get().(*[256 << 10]byte)[:] //nolint:forcetypeassert // it holds nothing else
}

// Put implements httputil.BufferPool.
func (b buffers) Put(used []byte) { b.pool.Put((*[256 << 10]byte)(used)) }

// incoming is the body of a push.
type incoming struct {
	io.ReadCloser

	later, ended func()
	room         func() error
	left         int
}

// Read implements io.Reader.
func (b *incoming) Read(into []byte) (int, error) {
	if b.left <= 0 {
		if err := b.room(); err != nil {
			return 0, err
		}
		b.left = checkEvery
	}
	n, err := b.ReadCloser.Read(into)
	b.left -= n
	if errors.Is(err, io.EOF) {
		b.ended()
	} else {
		b.later()
	}
	return n, err
}

// outgoing is the answer to a pull.
type outgoing struct {
	http.ResponseWriter

	later func()
}

// Write implements http.ResponseWriter.
func (w *outgoing) Write(b []byte) (int, error) {
	w.later()
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *outgoing) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// room refuses to fill a file system that others need, too.
func (s *Service) room() error {
	if s.cfg.Folder == "" {
		return nil
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(s.cfg.Folder, &fs); err != nil {
		return fmt.Errorf("look at the file system of the registry: %w", err)
	}
	return roomOf(fs)
}

func roomOf(fs unix.Statfs_t) error {
	free, all := int64(fs.Bavail)*fs.Bsize, int64(fs.Blocks)*fs.Bsize //nolint:gosec // far below the limit of the type
	if free < keepFreeBytes || free < all/keepFreeShare || fs.Ffree < fs.Files/keepFreeShare {
		return fault.New(fault.Unavailable, "registry_full", "the registry takes nothing more: %d GiB and %d files are free on "+
			"its disk, and a tenth of both, and 2 GiB, are kept", free>>30, fs.Ffree).
			WithRemedy("ask whoever runs the platform to give the registry more space")
	}
	return nil
}

// naming is what a manifest names by digest: an index manifests, another one blobs.
type naming struct{ manifests, blobs []string }

func (n naming) size() int { return 1 + len(n.manifests) + len(n.blobs) }

// names reads what a manifest names. Under its digest it never names anything else.
func (s *Service) names(ctx context.Context, repository, digest string) (naming, error) {
	key := repository + "@" + digest
	s.mu.Lock()
	found, there := s.named[key]
	s.mu.Unlock()
	if there {
		return found, nil
	}
	found, there, err := s.readNames(ctx, repository, digest)
	if err != nil || !there {
		return naming{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, there := s.named[key]; there { // another request was faster
		return old, nil
	}
	for old, n := range s.named { // any one: what is read again costs little
		if s.kept+found.size() <= keptNames {
			break
		}
		delete(s.named, old)
		s.kept -= n.size()
	}
	s.named[key] = found
	s.kept += found.size()
	return found, nil
}

// readNames reads a manifest by its digest. What no node would fetch names nothing.
func (s *Service) readNames(ctx context.Context, repository, digest string) (out naming, there bool, _ error) {
	at := url.URL{
		Scheme: "https", Host: agentwire.PlatformRegistry, Path: "/v2/" + repository + "/manifests/" + digest,
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return out, false, fmt.Errorf("ask for a manifest: %w", err)
	}
	r.Header.Set("Accept", "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, "+
		"application/vnd.docker.distribution.manifest.v2+json, application/vnd.docker.distribution.manifest.list.v2+json")
	answer, err := s.cfg.Registry.RoundTrip(r)
	if err != nil {
		return out, false, unavailable(err)
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound: // whoever asks for it is told so
		return out, false, nil
	default:
		return out, false, unavailable(fmt.Errorf("status %d", answer.StatusCode))
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxManifest+1))
	if err != nil {
		return out, false, unavailable(err)
	}
	sum := sha256.Sum256(body)
	if len(body) > maxManifest || "sha256:"+hex.EncodeToString(sum[:]) != digest {
		return out, true, nil
	}
	var m struct {
		MediaType string      `json:"mediaType"`
		Config    descriptor  `json:"config"`
		Layers    descriptors `json:"layers"`
		Manifests descriptors `json:"manifests"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return out, true, nil // it is no manifest
	}
	if m.MediaType == "application/vnd.oci.image.index.v1+json" ||
		m.MediaType == "application/vnd.docker.distribution.manifest.list.v2+json" {
		if out.manifests = m.Manifests.sound(); len(out.manifests) > maxChildren {
			out.manifests = nil
		}
		return out, true, nil
	}
	out.blobs = append(m.Layers, m.Config).sound()
	return out, true, nil
}

type descriptor struct {
	Digest string `json:"digest"`
}

// descriptors are read one by one, and no more than are used: a few bytes of JSON would
// otherwise become much memory.
type descriptors []descriptor

var errTooMany = errors.New("it names too much")

// UnmarshalJSON implements json.Unmarshaler.
func (d *descriptors) UnmarshalJSON(raw []byte) error {
	in := json.NewDecoder(bytes.NewReader(raw))
	if t, err := in.Token(); err != nil || t != json.Delim('[') {
		return err
	}
	for in.More() {
		if len(*d) == maxNames {
			return errTooMany
		}
		var one descriptor
		if err := in.Decode(&one); err != nil {
			return err
		}
		*d = append(*d, one)
	}
	return nil
}

// sound lists the digests among them.
func (d descriptors) sound() []string {
	var out []string
	for _, one := range d {
		if digestForm.MatchString(one.Digest) {
			out = append(out, one.Digest)
		}
	}
	return out
}
