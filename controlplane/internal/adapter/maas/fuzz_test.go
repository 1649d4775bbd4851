package maas_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
)

func TestSnippets(t *testing.T) {
	for in, want := range map[string]string{
		"No Machine matches the given query.":  "No Machine matches the given query.",
		"a\r\nb\x00c\x1b[31m":                  "a b c [31m",
		"<html><title>502</title> Bad </html>": "502 Bad",
		"Invalid signature. Expected signature base string: &abc": "Invalid signature. Expected signature " +
			"base string: [redacted]",
		`{"token_secret": "abc", "x": 1}`:          `{"token_secret": [redacted]`,
		"key zGz7pN8wWJ4fQ2kLmR9xT3vB1cD6hS5y end": "key [redacted] end",
		"sent %26abcdefgh12 there":                 "sent [redacted] there",
		"Cannot disconnect interface because the machine is not New": "Cannot disconnect interface because " +
			"the machine is not New",
		"Authorization: OAuth oauth_token=\"x\"": "Authorization: [redacted]",
		"'/dev/disk/by-id/x' It should be one of: '1', '2'": "'/dev/disk/by-id/x' It should be one " +
			"of: '1', '2'",
		"electroencephalographically speaking, the word has no digits in it": "electroencephalographically speaking, " +
			"the word has no digits in it",
		strings.Repeat("ä", 400): strings.Repeat("ä", 148) + "…",
		"hunter2 was the power password and hunter2 must not be repeated": "[redacted] was the power password and " +
			"[redacted] must not be repeated",
		strings.Repeat("x ", maas.MaxExamined) + "zGz7pN8wWJ4fQ2kLmR9xT3vB1cD6hS": strings.Repeat("x ", 148) + "x…",
	} {
		if got := maas.Sanitise([]byte(in), "hunter2"); got != want {
			t.Errorf("%.60q became %q, want %q", in, got, want)
		}
	}
}

func FuzzSnippet(f *testing.F) {
	for _, e := range recorded() {
		if e.Status >= 400 {
			f.Add([]byte(e.body()))
		}
	}
	f.Add([]byte("\xff\xfe<" + secret + ">&" + secret))
	f.Fuzz(func(t *testing.T, b []byte) {
		got := maas.Sanitise(b, secret)
		if len(got) > 300 || !utf8.ValidString(got) || strings.Contains(got, secret) || control.MatchString(got) {
			t.Errorf("%q", got)
		}
	})
}

func FuzzErrorAnswer(f *testing.F) {
	for _, e := range recorded() {
		if e.Status >= 300 {
			f.Add(e.Status, e.ContentType, []byte(e.body()), "10", true)
		}
	}
	f.Fuzz(func(t *testing.T, status int, contentType string, body []byte, after string, write bool) {
		if status < 300 || status > 599 {
			return
		}
		err := maas.Judge(write, status, http.Header{"Content-Type": {contentType}, "Retry-After": {after}}, body, secret)
		f, ok := fault.As(err)
		if !ok || f.Code == "" || f.Remedy == "" {
			t.Fatalf("no fault: %v", err)
		}
		if write && status >= 500 && f.Kind != fault.Ambiguous {
			t.Errorf("a write that failed with %d is %s", status, f.Kind)
		}
		if !write && f.Kind == fault.Ambiguous {
			t.Error("a read is never ambiguous")
		}
		for _, field := range f.Fields {
			if strings.Contains(field.Message, secret) || strings.Contains(field.Path, secret) {
				t.Errorf("field %v", field)
			}
		}
		checkShown(t, err.Error())
	})
}

func FuzzURL(f *testing.F) {
	for _, s := range []string{
		"http://maas:5240", "https://h/MAAS/api/2.0/", "http://u:p@h", "http://h/..",
		"http://[::1]:1/x%2f", "//h", "http://h?x",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := maas.ParseURL(raw)
		if err != nil {
			checkFault(t, err, fault.Invalid, maas.CodeURLInvalid)
			return
		}
		if u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Hostname() == "" ||
			!strings.HasSuffix(u.Path, "/api/2.0/") ||
			(u.Scheme != "http" && u.Scheme != "https") {
			t.Errorf("%q became %v", raw, u)
		}
	})
}

func TestPruningChangesNothing(t *testing.T) {
	compared := 0
	for key, e := range recorded() {
		if e.Status != http.StatusOK || !strings.HasPrefix(e.ContentType, "application/json") {
			continue
		}
		var indented bytes.Buffer
		if err := json.Indent(&indented, e.Body, "", "    "); err != nil {
			t.Fatal(err)
		}
		for name, same := range map[string]func([]byte) bool{
			"machine": samePruned[maas.Machine], "machines": samePruned[[]maas.Machine],
			"interfaces": samePruned[[]maas.Interface],
			"racks":      samePruned[[]maas.RackController], "results": samePruned[[]maas.ResultSet],
			"fabrics": samePruned[[]maas.Fabric],
		} {
			if !same(e.Body) || !same(indented.Bytes()) {
				t.Errorf("%s read as %s", key, name)
			}
			compared++
		}
	}
	full := fullMachine(t)
	if small := maas.Prune[maas.Machine](full); compared < 500 || len(small) > len(full)/2 {
		t.Errorf("%d compared; %d of %d bytes kept", compared, len(small), len(full))
	}
}

func samePruned[T any](body []byte) bool {
	var plain, pruned T
	plainErr := json.Unmarshal(body, &plain)
	prunedErr := json.Unmarshal(maas.Prune[T](body), &pruned)
	return (plainErr == nil) == (prunedErr == nil) && (plainErr != nil || reflect.DeepEqual(plain, pruned))
}

func FuzzPrune(f *testing.F) {
	for _, s := range []string{
		`{"system_id": "a\\\"b", "x": {"y": ["}", 1]}, "memory": 1e3 , "locked": true}`, `[{"system_id":"a"} , {}]`,
		`{"a":1,}`, `{"a" 1}`, `[1,2`, `"`, ` null `,
		`{"interface_set": [{"links": [{"id": 1, "z": [[]]}], "vlan": null}], "status_name": "Ready"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if !json.Valid(b) || bytes.ContainsRune(b, '\\') || bytes.ContainsAny(b, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") ||
			!utf8.Valid(b) {
			_ = maas.Prune[maas.Machine](b) // names are compared byte by byte, which the decoder does not
			return
		}
		if got := maas.Prune[maas.Machine](b); !json.Valid(got) || !samePruned[maas.Machine](b) {
			t.Errorf("%s became %s", b, got)
		}
	})
}

func FuzzMachine(f *testing.F) {
	for _, e := range recorded() {
		if e.Status == http.StatusOK && strings.Contains(e.Path, "/machines/") {
			f.Add([]byte(e.body()))
		}
	}
	f.Add([]byte(`{"system_id": "x", "status_name": "Dreaming", "new_field": {"a": [1]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := maas.DecodeMachine(b)
		if err != nil {
			if _, ok := fault.As(err); !ok {
				t.Fatalf("no fault: %v", err)
			}
			checkShown(t, err.Error())
			return
		}
		if m.SystemID == "" || m.Status == "" || m.Status.Label() == "" && m.Status.Known() {
			t.Errorf("%+v", m)
		}
	})
}

func TestUnknownStatusesAndFieldsSurvive(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", json200)
		_, _ = w.Write([]byte(`{"system_id": "abc", "status_name": "Day dreaming", "status": 99, "quantum": {"x": [1, null]}, "sync_interval": null}`))
	}))
	defer s.Close()
	m, err := client(t, s.URL).Machine(t.Context(), "abc")
	if err != nil || m.Status != maas.Unknown("Day dreaming") || m.Status.Known() || m.Status.Label() != "Day dreaming" {
		t.Errorf("%q %v", m.Status, err)
	}
}

func TestStatuses(t *testing.T) {
	if len(maas.Statuses) != 23 {
		t.Fatalf("%d statuses", len(maas.Statuses))
	}
	for code, s := range maas.Statuses {
		if !s.Known() || maas.ParseStatus(s.Label()) != s || maas.ParseStatus(string(s)) != s {
			t.Errorf("%d %s %q", code, s, s.Label())
		}
		if s.Free() && strings.HasPrefix(string(s), "failed_") {
			t.Errorf("%s counts as free", s)
		}
	}
	// The recording holds numbers beside names: the order above must agree.
	seen := 0
	for _, e := range recorded() {
		var m struct {
			Code *int        `json:"status"`
			Name maas.Status `json:"status_name"`
		}
		if json.Unmarshal(e.Body, &m) == nil && m.Code != nil && m.Name != "" {
			seen++
			if maas.Statuses[*m.Code] != m.Name {
				t.Errorf("status %d is %s", *m.Code, m.Name)
			}
		}
	}
	if seen < 50 {
		t.Errorf("only %d recorded statuses", seen)
	}
}
