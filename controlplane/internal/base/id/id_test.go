package id_test

import (
	"encoding/json"
	"regexp"
	"testing"

	"gpuaas/controlplane/internal/base/id"
)

func TestNewIsVersion7AndUnique(t *testing.T) {
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := map[string]bool{}
	for range 1000 {
		s := id.NewString()
		if !form.MatchString(s) || seen[s] {
			t.Fatalf("bad or repeated id %s", s)
		}
		seen[s] = true
	}
}

func TestRoundTrips(t *testing.T) {
	want := id.New[id.Project]()
	var scanned, parsed id.Project
	if err := scanned.Scan(want.String()); err != nil || scanned != want {
		t.Errorf("Scan: %v %v", scanned, err)
	}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &parsed); err != nil || parsed != want {
		t.Errorf("JSON: %v %v", parsed, err)
	}
}

func TestAttackTheNilUUIDIsNoID(t *testing.T) {
	const zero = "00000000-0000-0000-0000-000000000000"
	if u, err := id.Parse[id.Site](zero); err == nil {
		t.Errorf("%s is taken for an id", u)
	}
	var u id.Site
	if err := u.UnmarshalText([]byte(zero)); err == nil {
		t.Error("the nil UUID is read from text")
	}
	if _, err := id.Parse[id.Site]("ffffffff-ffff-ffff-ffff-ffffffffffff"); err != nil {
		t.Errorf("all ones is an id like any other: %v", err)
	}
}

// Rows and histories of workflows hold ids that were never set.
func TestWhatWasKeptIsReadBack(t *testing.T) {
	type kept struct {
		Node id.Node `json:"node_id"`
	}
	b, err := json.Marshal(kept{})
	if err != nil {
		t.Fatal(err)
	}
	read := kept{Node: id.New[id.Node]()}
	if err := json.Unmarshal(b, &read); err != nil || !read.Node.IsZero() {
		t.Errorf("%s is read as %v, %v", b, read, err)
	}
	var scanned id.Node
	if err := scanned.Scan("00000000-0000-0000-0000-000000000000"); err != nil || !scanned.IsZero() {
		t.Errorf("Scan: %v %v", scanned, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("0199a8c4-8a40-7000-8000-000000000000")
	f.Add("not-an-id")
	f.Fuzz(func(t *testing.T, s string) {
		u, err := id.Parse[id.Project](s)
		if err != nil {
			return
		}
		again, err := id.Parse[id.Project](u.String())
		if err != nil || again != u {
			t.Fatalf("%q parsed to %s, which does not parse back", s, u)
		}
	})
}
