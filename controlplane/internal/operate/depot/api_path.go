package depot

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// object is what a path of the distribution protocol names.
type object string

const (
	base      object = "base" // says that there is a registry
	tags      object = "tags"
	manifests object = "manifests"
	blobs     object = "blobs"
	uploads   object = "uploads"
	referrers object = "referrers"
)

// request is what somebody wants of the registry.
type request struct {
	object     object
	repository string
	reference  string // a tag, a digest, or the number of an upload
}

var (
	repositoryForm = regexp.MustCompile(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$`)
	tagForm        = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)
	digestForm     = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	uploadForm     = regexp.MustCompile(`^[0-9a-f-]{36}$`)
)

const maxRepository = 255

// parse reads a path. What it does not know does not exist.
func parse(path string) (request, bool) {
	rest, ok := strings.CutPrefix(path, "/v2/")
	if !ok {
		return request{}, false
	}
	if rest == "" {
		return request{object: base}, true
	}
	if name, ok := strings.CutSuffix(rest, "/tags/list"); ok {
		return named(request{tags, name, ""}, true)
	}
	if at := strings.LastIndex(rest, "/blobs/uploads/"); at >= 0 {
		r := request{uploads, rest[:at], rest[at+len("/blobs/uploads/"):]}
		return named(r, r.reference == "" || uploadForm.MatchString(r.reference))
	}
	at := strings.LastIndexByte(rest, '/')
	if at < 0 {
		return request{}, false
	}
	front, reference := rest[:at], rest[at+1:]
	at = strings.LastIndexByte(front, '/')
	if at < 0 {
		return request{}, false
	}
	r := request{object(front[at+1:]), front[:at], reference}
	if r.object != manifests && r.object != blobs && r.object != referrers {
		return request{}, false
	}
	return named(r, digestForm.MatchString(reference) || r.object == manifests && tagForm.MatchString(reference))
}

func named(r request, sound bool) (request, bool) {
	return r, sound && len(r.repository) <= maxRepository && repositoryForm.MatchString(r.repository)
}

// methods are what may be done with an object. Nothing is deleted but an upload: others may
// run what a manifest names.
var methods = map[object][]string{
	base: {http.MethodGet, http.MethodHead}, tags: {http.MethodGet}, referrers: {http.MethodGet},
	manifests: {http.MethodGet, http.MethodHead, http.MethodPut}, blobs: {http.MethodGet, http.MethodHead},
	uploads: {http.MethodPost, http.MethodGet, http.MethodPatch, http.MethodPut, http.MethodDelete},
}

func (r request) allows(method string) bool { return slices.Contains(methods[r.object], method) }

// writes says whether somebody who may only read is refused.
func (r request) writes(method string) bool {
	return r.object == uploads || method != http.MethodGet && method != http.MethodHead
}
