package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// probe is a request that must be refused.
type probe struct {
	what    string
	method  string
	path    string
	body    []byte
	headers []header
	status  int // 0: any that blames the caller; odd: any that does not blame the control plane
}

// idOfNothing is an id that nothing has.
const idOfNothing = "0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3c"

// odd marks a request that may be fine, such as a search for what nobody has.
const odd = -1

// junk makes probes of one operation, with ids of things that exist for what
// is not being tried out.
type junk struct {
	t   *testing.T
	op  operation
	ids map[string]string // path parameter → id
	out []probe
}

func (j *junk) add(what, path string, body []byte, status int, headers ...header) {
	sound := []header{}
	if j.op.has("header", "If-Match") {
		sound = append(sound, header{"If-Match", `"1"`})
	}
	j.out = append(j.out, probe{what, j.op.method, path, body, append(sound, headers...), status})
}

// path is that of the operation, with one parameter replaced.
func (j *junk) path(param, value string) string {
	out := j.op.path
	for _, p := range j.op.Parameters {
		if p.In != "path" {
			continue
		}
		id := j.ids[p.Name]
		if p.Name == param {
			id = value
		}
		if id == "" {
			id = idOfNothing
		}
		out = strings.ReplaceAll(out, "{"+p.Name+"}", id)
	}
	return out
}

// sound is a body that would be accepted.
func (j *junk) sound() []byte {
	s, ok := j.op.body()
	if !ok {
		return nil
	}
	return j.encode(s.sample())
}

func (j *junk) encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		j.t.Fatal(err)
	}
	return b
}

func (j *junk) probes(badTokens map[string]string) []probe {
	j.strangers(badTokens)
	j.paths()
	j.queries()
	j.oddQueries()
	j.headers()
	if s, ok := j.op.body(); ok {
		j.bodies()
		j.properties(s)
	} else if j.op.mutates() {
		j.add("a body of 2 MiB", j.path("", ""), j.encode(strings.Repeat("a", 2<<20)), http.StatusRequestEntityTooLarge)
		j.add("a body that is not JSON", j.path("", ""), []byte("hello"), http.StatusUnsupportedMediaType,
			header{"Content-Type", "text/plain"})
	}
	return j.out
}

func (j *junk) strangers(badTokens map[string]string) {
	if j.op.Access == "public" {
		return
	}
	j.add("no token", j.path("", ""), j.sound(), http.StatusUnauthorized, header{"Authorization", ""})
	for what, value := range badTokens {
		j.add(what, j.path("", ""), j.sound(), http.StatusUnauthorized, header{"Authorization", value})
	}
}

// moreThanTheContractSays lists operations whose sound request cannot be made
// from the contract alone.
var moreThanTheContractSays = map[string]string{
	"update-maas-site":          "a list that is given must not be empty",
	"set-maas-site-credentials": "a MAAS token has a form of its own",
	"get-power-choice":          "one of several parameters must name the machine",
	"create-site-profile":       "architecture and intervals have forms of their own",
	"upsert-roce-assignments":   "addresses have a form of their own",
	"remove-trust-authority":    "a fingerprint has a form of its own",
	"diff-operation-definition": "the other version must be named",
	"take-payment-event":        "providers are a list of names, and a signature has a form of its own",
	"put-payment-secret":        "providers are a list of names",
	"promote-agent-release":     "channels are a list of names",

	"complete-agent-release-upload": "a release is signed",
}

func (j *junk) paths() {
	for _, p := range j.op.Parameters {
		if p.In != "path" {
			continue
		}
		for _, value := range []string{
			"junk", "%00", "%ff", "..%2f..", "'%20OR%201=1--", strings.Repeat("a", 5000),
			"0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3",
		} {
			j.add(p.Name+" is "+value[:min(len(value), 40)], j.path(p.Name, value), j.sound(), 0)
		}
		absent := http.StatusNotFound
		if reason := moreThanTheContractSays[j.op.ID]; reason != "" {
			absent = 0 // the request is refused before anything is looked up
		}
		j.add(p.Name+" is of nothing", j.path(p.Name, idOfNothing), j.sound(), absent)
	}
}

func (j *junk) queries() {
	add := func(name, value string) {
		j.add(fmt.Sprintf("query %s=%.40s", name, value), j.path("", "")+"?"+name+"="+value, j.sound(), 0)
	}
	add("surprise", "1")
	for _, p := range j.op.Parameters {
		if p.In != "query" {
			continue
		}
		add(p.Name, "%00")
		add(p.Name, "%ff%fe")
		if p.Schema.MaxLength > 0 {
			add(p.Name, strings.Repeat("a", p.Schema.MaxLength+1))
		}
		switch {
		case p.Name == "cursor":
			for _, raw := range []string{"null", "[]", "42", `"text"`, `{"surprise":1}`, `{} {}`, "\xff\x00"} {
				add(p.Name, base64.RawURLEncoding.EncodeToString([]byte(raw)))
			}
			add(p.Name, "!!!")
			add(p.Name, "A")
		case p.Name == "last_event_id":
			for _, v := range []string{"junk", "-1", "1.5", "99999999999999999999999"} {
				add(p.Name, v)
			}
		case p.Schema.Type.name == "integer":
			for _, v := range []string{"junk", "1.5", "-1", "0", "99999999999999999999", "NaN"} {
				add(p.Name, v)
			}
			if most := p.Schema.Maximum; most != nil {
				add(p.Name, strconv.FormatFloat(*most+1, 'f', 0, 64))
			}
		case len(p.Schema.Enum) > 0:
			add(p.Name, "junk")
			add(p.Name, url.QueryEscape(strings.ToUpper(fmt.Sprint(p.Schema.Enum[0]))))
		case p.Schema.Format == "date-time":
			add(p.Name, "yesterday")
			add(p.Name, "2026-13-45T99:99:99Z")
		case j.op.ID == "stream-events" && p.Name == "type":
			add(p.Name, "junk")
		}
	}
}

// oddQueries ask for what nobody has, at the edge of what can be asked.
func (j *junk) oddQueries() {
	if j.op.mutates() || strings.HasPrefix(j.op.ID, "stream-") { // what is sound opens a stream
		return
	}
	for _, p := range j.op.Parameters {
		if p.In != "query" {
			continue
		}
		values := []string{"%27;DROP%20TABLE%20users;--", "%F0%9F%92%A5", strings.Repeat("a", 10_000), "%25%5F%5C", ""}
		switch {
		case p.Name == "cursor":
			values = []string{base64.RawURLEncoding.EncodeToString([]byte("{}"))}
		case p.Schema.Format == "date-time":
			values = []string{"0000-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z", "2026-01-01T00:00:00%2B23:59"}
		}
		for _, v := range values {
			j.add(fmt.Sprintf("odd query %s=%.40s", p.Name, v), j.path("", "")+"?"+p.Name+"="+v, nil, odd)
		}
	}
}

func (j *junk) headers() {
	if j.op.has("header", "Idempotency-Key") {
		j.add("a key that is too long", j.path("", ""), j.sound(), 0, header{"Idempotency-Key", strings.Repeat("k", 129)})
		j.add("a key with a space", j.path("", ""), j.sound(), 0, header{"Idempotency-Key", "a b"})
	}
	if j.op.has("header", "If-Match") {
		missing, old := http.StatusPreconditionRequired, http.StatusPreconditionFailed
		if strings.Contains(j.path("", ""), idOfNothing) {
			missing, old = 0, 0 // that there is nothing may be said first
		}
		j.add("no If-Match", j.path("", ""), j.sound(), missing, header{"If-Match", ""})
		j.add("an old If-Match", j.path("", ""), j.sound(), old, header{"If-Match", `"999"`})
		j.add("no version in If-Match", j.path("", ""), j.sound(), 0, header{"If-Match", "junk"})
	}
	if j.op.has("header", "Last-Event-ID") {
		j.add("a foreign Last-Event-ID", j.path("", ""), nil, 0, header{"Last-Event-ID", "junk"})
		j.add("a long Last-Event-ID", j.path("", ""), nil, 0, header{"Last-Event-ID", strings.Repeat("1", 200)})
	}
}

// bodies are wrong as a whole.
func (j *junk) bodies() {
	path := j.path("", "")
	sound := j.sound()
	for what, text := range map[string]string{
		"half a body": "{", "no body": "", "null": "null", "a list": "[]", "a text": `"text"`, "a number": "42",
		"an unknown field": `{"surprise":1,` + string(sound[1:]),
		"two bodies":       string(sound) + string(sound),
		"a body and more":  string(sound) + "x",
		"a deep body":      strings.Repeat("[", 100_000),
		"not UTF-8":        "{\"\xff\":1}",
		"not JSON":         "name=value",
	} {
		j.add(what, path, []byte(text), 0)
	}
	j.add("a body of 2 MiB", path, j.encode(strings.Repeat("a", 2<<20)), http.StatusRequestEntityTooLarge)
	for _, kind := range []string{"text/plain", "application/xml", "multipart/form-data; boundary=x", "junk", ""} {
		j.add("content type "+kind, path, sound, http.StatusUnsupportedMediaType, header{"Content-Type", kind})
	}
}

// properties are wrong one at a time.
func (j *junk) properties(s schema) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p, required := s.Properties[name], slices.Contains(s.Required, name)
		for _, wrong := range p.wrong() {
			j.with(name, wrong)
		}
		if required {
			if !p.Type.null {
				j.with(name, nil)
			}
			j.with(name, absent{})
			sample, _ := s.sample().(map[string]any)
			sample[strings.ToUpper(name)] = sample[name]
			delete(sample, name)
			j.add(name+" in other letters", j.path("", ""), j.encode(sample), 0)
		}
		if p.Type.name == "string" {
			j.addRaw(name, `"\u0000"`)
			j.addRaw(name, "\"\xff\"")
		}
	}
}

type absent struct{}

func (j *junk) with(name string, value any) {
	s, _ := j.op.body()
	sample, _ := s.sample().(map[string]any)
	sample[name] = value
	if _, gone := value.(absent); gone {
		delete(sample, name)
	}
	j.add(fmt.Sprintf("%s is %.40v", name, value), j.path("", ""), j.encode(sample), 0)
}

func (j *junk) addRaw(name, text string) {
	const mark = "PUT-IT-HERE"
	s, _ := j.op.body()
	sample, _ := s.sample().(map[string]any)
	sample[name] = mark
	body := strings.ReplaceAll(string(j.encode(sample)), `"`+mark+`"`, text)
	j.add(name+" is "+text, j.path("", ""), []byte(body), 0)
}

// wrong lists values that the schema does not allow.
func (s schema) wrong() []any {
	object, list := any(map[string]any{"a": 1}), any([]any{1})
	switch s.Type.name {
	case "string":
		out := []any{object, list, 42, true}
		if s.MaxLength > 0 {
			out = append(out, strings.Repeat("a", s.MaxLength+1))
		}
		if s.MinLength > 0 || len(s.Enum) > 0 && !slices.Contains(s.Enum, any("")) || s.Format == "email" {
			out = append(out, "")
		}
		if len(s.Enum) > 0 || s.Format == "email" || s.Format == "uuid" || s.Format == "date-time" {
			out = append(out, "junk")
		}
		return out
	case "integer":
		out := []any{object, list, "42", 1.5, true, json.Number("1e400"), json.Number("99999999999999999999")}
		if s.Minimum != nil {
			out = append(out, *s.Minimum-1)
		}
		return out
	case "number":
		return []any{object, list, "42", true}
	case "boolean":
		return []any{object, list, "true", 1}
	case "array":
		out := []any{object, "text", 42}
		if s.Items != nil && s.Items.Type.name == "string" {
			out = append(out, list, []any{object})
		}
		return out
	case "object":
		return []any{list, "text", 42}
	}
	return nil // anything goes
}
