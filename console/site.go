package console

import (
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

const (
	indexFile = "index.html"
	assets    = "/assets/"
)

// site is the console as a set of files, known when the process starts: no path
// of a request is ever looked up in a file system.
type site struct {
	files   map[string]*file // by path
	page    *file            // nil when the console was not built
	missing http.Handler
}

func newSite(built fs.FS, missing http.Handler) (*site, error) {
	s := &site{files: map[string]*file{}, missing: missing}
	err := fs.WalkDir(built, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasPrefix(path.Base(name), ".") {
			return err
		}
		content, err := fs.ReadFile(built, name)
		if err != nil {
			return err
		}
		s.files["/"+name] = newFile("/"+name, content)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read console: %w", err)
	}
	s.page = s.files["/"+indexFile]
	return s, nil
}

// ServeHTTP answers with a file, or with the page where a person opens an
// address: what stands there is for the page to find out.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		s.missing.ServeHTTP(w, r)
		return
	}
	found, known := s.files[r.URL.Path]
	opened := r.URL.Path == "/" || !strings.HasPrefix(r.URL.Path, assets) && acceptsPage(r.Header)
	switch {
	case known:
		found.serve(w, r)
	case opened && s.page != nil:
		s.page.serve(w, r)
	case opened && acceptsPage(r.Header):
		notBuilt(w, r)
	default:
		s.missing.ServeHTTP(w, r)
	}
}

// acceptsPage tells a browser that opens an address from a program that asks
// for data: only the former names HTML.
func acceptsPage(h http.Header) bool {
	for _, kind := range strings.Split(strings.Join(h.Values("Accept"), ","), ",") {
		media, _, _ := strings.Cut(kind, ";")
		if strings.EqualFold(strings.TrimSpace(media), "text/html") {
			return true
		}
	}
	return false
}

const notBuiltPage = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>gpuaas: the console was not built</title>
<h1>The console was not built into this program</h1>
<p>Build it with <code>make console</code>, then build the program again with <code>make build</code>.</p>
<p>Everything else works: the command line, and the API with its <a href="/docs">documentation</a>.</p>
</html>
`

func notBuilt(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	w.Header().Set("Content-Type", contentTypes[".html"])
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusServiceUnavailable)
	if r.Method != http.MethodHead {
		_, _ = w.Write([]byte(notBuiltPage)) // a caller who is gone needs no page
	}
}
