package httpapi

import (
	_ "embed" // the documentation page
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/swaggest/swgui"
	"github.com/swaggest/swgui/v5emb"
)

const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

var (
	//go:embed docs/index.html
	docsPage string
	//go:embed docs/docs.js
	docsScript []byte
	//go:embed docs/docs.css
	docsStyle []byte
)

// Only these files of the embedded viewer are served. Its own page is not,
// because it contains scripts, which the policy above forbids.
var docsAssets = []string{"swagger-ui.css", "swagger-ui-bundle.js", "favicon-32x32.png", "favicon-16x16.png"}

// serveDocs adds the contract and a page to read and try it. Neither needs a
// login, and the page loads nothing from other hosts.
func (a *API) serveDocs() {
	yaml := sync.OnceValues(a.OpenAPI().YAML)
	a.router.Get("/openapi.yaml", a.document("get-openapi-yaml", "application/openapi+yaml", yaml))
	a.router.Get("/openapi.json", a.document("get-openapi-json", "application/openapi+json",
		sync.OnceValues(func() ([]byte, error) { return json.Marshal(a.OpenAPI()) })))

	page := template.Must(template.New("docs").Parse(docsPage))
	a.router.Get("/docs", func(w http.ResponseWriter, r *http.Request) {
		docsHeaders(r, w, "text/html; charset=utf-8")
		if err := page.Execute(w, a.cfg.Title); err != nil {
			a.cfg.Logger.WarnContext(r.Context(), "documentation page could not be written", "error", err)
		}
	})
	a.router.Get("/docs/docs.js", static("text/javascript; charset=utf-8", docsScript))
	a.router.Get("/docs/docs.css", static("text/css; charset=utf-8", docsStyle))
	viewer := v5emb.NewHandlerWithConfig(swgui.Config{BasePath: "/docs/assets"})
	for _, name := range docsAssets {
		a.router.Get("/docs/assets/"+name, func(w http.ResponseWriter, r *http.Request) {
			docsHeaders(r, w, "")
			w.Header().Set("Cache-Control", "public, max-age=3600")
			viewer.ServeHTTP(w, r)
		})
	}
}

func (a *API) document(operation, contentType string, content func() ([]byte, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		exchangeFrom(r.Context()).operation = operation
		b, err := content()
		if err != nil {
			a.fail(w, r, fmt.Errorf("write contract: %w", err))
			return
		}
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(b) // a caller that has gone needs no contract
	}
}

func static(contentType string, content []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		docsHeaders(r, w, contentType)
		_, _ = w.Write(content) // as above
	}
}

func docsHeaders(r *http.Request, w http.ResponseWriter, contentType string) {
	exchangeFrom(r.Context()).operation = "get-docs"
	w.Header().Set("Content-Security-Policy", docsPolicy)
	if contentType != "" {
		w.Header().Set("Content-Type", contentType)
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
