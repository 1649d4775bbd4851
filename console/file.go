package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

// policy lets the page load and ask nothing but its own origin, run nothing
// that stands inside it, and be framed by nobody.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; " +
	"connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// What a console has no use for, it cannot be tricked into using.
const permissions = "accelerometer=(), autoplay=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), " +
	"hid=(), " +
	"magnetometer=(), microphone=(), midi=(), payment=(), serial=(), usb=(), xr-spatial-tracking=()"

func protect(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Permissions-Policy", permissions)
}

// contentTypes do not depend on what the machine knows of file names.
var contentTypes = map[string]string{
	".css":         "text/css; charset=utf-8",
	".html":        "text/html; charset=utf-8",
	".ico":         "image/x-icon",
	".js":          "text/javascript; charset=utf-8",
	".json":        "application/json",
	".png":         "image/png",
	".svg":         "image/svg+xml",
	".txt":         "text/plain; charset=utf-8",
	".webmanifest": "application/manifest+json",
	".woff2":       "font/woff2",
}

// These are compressed already.
var compressed = map[string]bool{".png": true, ".woff2": true}

// file is one file of the console, ready to be sent.
type file struct {
	content []byte
	kind    string
	cache   string
	tag     string
	shrunk  func() []byte // nil where it gains nothing; made when first asked for
}

func newFile(name string, content []byte) *file {
	extension := path.Ext(name)
	sum := sha256.Sum256(content)
	f := &file{
		content: content, kind: contentTypes[extension], cache: "no-cache",
		tag: base64.RawURLEncoding.EncodeToString(sum[:12]),
	}
	if f.kind == "" {
		f.kind = "application/octet-stream"
	}
	if strings.HasPrefix(name, assets) { // the build names these after their content
		f.cache = "public, max-age=31536000, immutable"
	}
	f.shrunk = sync.OnceValue(func() []byte {
		if compressed[extension] {
			return nil
		}
		return shrink(content)
	})
	return f
}

func shrink(content []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level exists
	_, _ = w.Write(content)                               // memory takes everything
	_ = w.Close()                                         // as above
	if b.Len() >= len(content) {
		return nil
	}
	return b.Bytes()
}

func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	protect(h)
	h.Set("Cache-Control", f.cache)
	h.Set("Vary", "Accept-Encoding")
	body, tag, coding := f.content, `"`+f.tag+`"`, ""
	if shrunk := f.shrunk(); shrunk != nil && acceptsGzip(r.Header) {
		body, tag, coding = shrunk, `"`+f.tag+`-gzip"`, "gzip"
	}
	h.Set("ETag", tag)
	if f.isKnown(r.Header) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if coding != "" {
		h.Set("Content-Encoding", coding)
	}
	h.Set("Content-Type", f.kind)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // a caller who is gone needs no file
	}
}

// isKnown reports whether the caller has this very content, in either encoding.
func (f *file) isKnown(h http.Header) bool {
	for _, tag := range strings.Split(strings.Join(h.Values("If-None-Match"), ","), ",") {
		tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
		if tag == "*" || tag == `"`+f.tag+`"` || tag == `"`+f.tag+`-gzip"` {
			return true
		}
	}
	return false
}

func acceptsGzip(h http.Header) bool {
	for _, coding := range strings.Split(strings.Join(h.Values("Accept-Encoding"), ","), ",") {
		name, weight, _ := strings.Cut(coding, ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		_, value, weighted := strings.Cut(weight, "=")
		q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		return !weighted || err == nil && q > 0
	}
	return false
}
