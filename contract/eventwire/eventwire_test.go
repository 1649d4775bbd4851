package eventwire_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/eventwire"
)

func TestSubjects(t *testing.T) {
	for _, c := range []struct{ prefix, want string }{
		{"", "gpuaas.tenant.created"},
		{"gpuaas", "gpuaas.tenant.created"},
		{"acme.cloud", "acme.cloud.tenant.created"},
	} {
		got := eventwire.Subject(c.prefix, eventwire.TenantCreated)
		if got != c.want {
			t.Errorf("Subject(%q) = %q, want %q", c.prefix, got, c.want)
		}
	}
	if got := eventwire.Subjects(""); got != "gpuaas.>" {
		t.Errorf("Subjects = %q", got)
	}
}

var audiences = []eventwire.Audience{eventwire.ToPlatform, eventwire.ToTenant, eventwire.ToProject}

var typeForm = regexp.MustCompile(`^[a-z][a-z_]*(\.[a-z][a-z_]*)+$`)

func TestEventsAreWellFormed(t *testing.T) {
	seen := map[eventwire.Type]bool{}
	for _, d := range eventwire.Events() {
		if !typeForm.MatchString(string(d.Type)) {
			t.Errorf("%s: want aggregate.verb in snake case", d.Type)
		}
		if seen[d.Type] {
			t.Errorf("%s is listed twice", d.Type)
		}
		seen[d.Type] = true
		if !slices.Contains(audiences, d.Audience) {
			t.Errorf("%s: its audience %q is none: say who is told of it at most", d.Type, d.Audience)
		}
		if !strings.HasSuffix(d.Description, ".") {
			t.Errorf("%s: description is not a sentence: %q", d.Type, d.Description)
		}
	}
}

// The wire form is a promise to readers in other languages.
func TestEnvelopeOnTheWire(t *testing.T) {
	got, err := json.Marshal(eventwire.Envelope{
		EventID: "e", EventType: eventwire.TenantCreated, OccurredAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Version: eventwire.Version, CorrelationID: "c", Payload: json.RawMessage(`{"org_id":"o"}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"event_id":"e","event_type":"tenant.created","occurred_at":"2026-01-02T03:04:05Z",` +
		`"version":"1.0","correlation_id":"c","payload":{"org_id":"o"}}`
	if string(got) != want {
		t.Errorf("envelope is\n%s\nwant\n%s", got, want)
	}
}
