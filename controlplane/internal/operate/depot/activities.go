package depot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gpuaas/controlplane/internal/base/fault"
)

const (
	maxManifest = 4 << 20
	// stall is how long either side may bring nothing.
	stall = 2 * time.Minute
	// checkEvery is how many bytes of a push come between two looks at the disk.
	checkEvery = 64 << 20
	// keepFree is what a push leaves of the file system: at least this share, and this many
	// bytes.
	keepFreeShare = 10 // a tenth
	keepFreeBytes = 2 << 30
)

func trimmed(raw []byte) string { return string(bytes.TrimSpace(raw)) }

func unavailable(cause error) error {
	return fault.Wrap(cause, fault.Unavailable, "registry_unavailable", "the registry of the platform does not answer").
		WithRemedy("try again later; an operator sees why in the log of the registry")
}

// newProxy passes requests on under the name of the control plane.
func (s *Service) newProxy() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(s.cfg.Upstream.URL)
			p.Out.Host = s.cfg.Upstream.URL.Host
			for _, name := range []string{"Authorization", "Cookie", "Origin", "Referer"} {
				p.Out.Header.Del(name)
			}
			if password, err := s.cfg.Upstream.password(); err == nil { // else the registry refuses, see below
				p.Out.SetBasicAuth(s.cfg.Upstream.User, password.Reveal())
			}
		},
		ModifyResponse: func(r *http.Response) error {
			r.Header.Del("Set-Cookie")
			if r.StatusCode == http.StatusUnauthorized || r.StatusCode == http.StatusForbidden {
				return fmt.Errorf("it refuses the control plane with status %d", r.StatusCode)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil {
				s.cfg.Logger.ErrorContext(r.Context(), "the registry did not answer", "error", err)
			}
			refuse(w, err)
		},
		ErrorLog:      slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelDebug),
		FlushInterval: -1,
	}
}

// pass passes a request on. Neither side is waited for without end.
func (s *Service) pass(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	later := func() {
		until := time.Now().Add(stall)
		_ = errors.Join(control.SetReadDeadline(until), control.SetWriteDeadline(until)) // a recorder has none
	}
	later()
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &incoming{ReadCloser: r.Body, later: later, room: s.cfg.Upstream.room}
	}
	s.proxy.ServeHTTP(&outgoing{w, later}, r)
	_ = errors.Join(control.SetReadDeadline(time.Time{}), control.SetWriteDeadline(time.Time{}))
}

// incoming is the body of a push.
type incoming struct {
	io.ReadCloser

	later func()
	room  func() error
	left  int
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
	b.later()
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
func (u Upstream) room() error {
	if u.Folder == "" {
		return nil
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(u.Folder, &fs); err != nil {
		return fmt.Errorf("look at the file system of the registry: %w", err)
	}
	free, all := int64(fs.Bavail)*fs.Bsize, int64(fs.Blocks)*fs.Bsize //nolint:gosec // far below the limit of the type
	if free < keepFreeBytes || free < all/keepFreeShare {
		return fault.New(fault.Unavailable, "registry_full", "the registry takes nothing more: %d GiB of its disk are free, "+
			"and a tenth of it, and 2 GiB, are kept", free>>30).
			WithRemedy("ask whoever runs the platform to give the registry more space")
	}
	return nil
}

// naming is what a manifest names by digest: an index manifests, another one blobs.
type naming struct{ manifests, blobs []string }

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
	for old := range s.named { // any one: what is read again costs little
		if len(s.named) < 1000 {
			break
		}
		delete(s.named, old)
	}
	s.named[key] = found
	return found, nil
}

func (s *Service) readNames(ctx context.Context, repository, digest string) (out naming, there bool, _ error) {
	password, err := s.cfg.Upstream.password()
	if err != nil {
		return out, false, err
	}
	at := s.cfg.Upstream.URL.JoinPath("v2", repository, "manifests", digest)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return out, false, fmt.Errorf("ask for a manifest: %w", err)
	}
	r.SetBasicAuth(s.cfg.Upstream.User, password.Reveal())
	r.Header["Accept"] = []string{strings.Join([]string{
		"application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.index.v1+json",
		"application/vnd.docker.distribution.manifest.v2+json", "application/vnd.docker.distribution.manifest.list.v2+json",
	}, ",")}
	answer, err := http.DefaultClient.Do(r)
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
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxManifest))
	if err != nil {
		return out, false, unavailable(err)
	}
	type one struct {
		Digest string `json:"digest"`
	}
	var m struct {
		Config    one   `json:"config"`
		Layers    []one `json:"layers"`
		Manifests []one `json:"manifests"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return out, false, fmt.Errorf("read manifest %s: %w", digest, err)
	}
	for _, d := range m.Manifests {
		out.manifests = append(out.manifests, d.Digest)
	}
	for _, d := range append(m.Layers, m.Config) {
		out.blobs = append(out.blobs, d.Digest)
	}
	return out, true, nil
}
