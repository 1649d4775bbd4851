package reconciliation_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/reconciliation"
	simulated "gpuaas/sim/maas"
	simfault "gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/fleet"
	"gpuaas/sim/maas/region"
)

// door knows how sites are reached, and with which credentials.
type door struct {
	url, token string
	opened     int
}

func (d *door) Access(context.Context, id.Site) (site.Access, error) {
	return site.Access{URL: d.url, Token: redact.New(d.token)}, nil
}

func (d *door) Client(a site.Access) (*maas.Client, error) {
	d.opened++
	return maas.New(maas.Config{URL: a.URL, Token: a.Token, RetryWait: time.Millisecond, Loopback: anyPort})
}

// anyPort lets the regions of tests be here.
func anyPort(netip.AddrPort) bool { return true }

// simulation is a simulated MAAS as reconciliation sees it.
type simulation struct {
	*simulated.Region
	door    *door
	regions *reconciliation.RegionsOf
}

func simulate(t *testing.T, machines int, stage string) *simulation {
	t.Helper()
	s := &simulation{Region: simulated.StartTest(t,
		simulated.Options{Seed: 7, Fleet: fleet.Options{Machines: machines, Stage: stage}})}
	s.door = &door{url: s.URL, token: s.Token}
	s.regions = &reconciliation.RegionsOf{Sites: s.door, Clients: s.door}
	t.Cleanup(s.regions.Close)
	return s
}

func (s *simulation) view(t *testing.T) reconciliation.Region {
	t.Helper()
	return view(t, s.regions)
}

func view(t *testing.T, regions *reconciliation.RegionsOf) reconciliation.Region {
	t.Helper()
	r, err := regions.Open(t.Context(), id.Site{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (s *simulation) happen(t *testing.T, name, what string) {
	t.Helper()
	if err := s.Happen(name, what); err != nil {
		t.Fatal(err)
	}
}

func (s *simulation) fault(t *testing.T, rule simfault.Rule) {
	t.Helper()
	if _, err := s.Faults.Add(rule); err != nil {
		t.Fatal(err)
	}
}

// administrator is somebody who works in MAAS directly.
var administrator = region.Caller{User: &region.User{Name: "admin", Admin: true}}

// answers makes a region that answers what a test wants.
func answers(t *testing.T, handle http.HandlerFunc) *reconciliation.RegionsOf {
	t.Helper()
	g := httptest.NewServer(handle)
	t.Cleanup(g.Close)
	d := &door{url: g.URL, token: "a:b:c"}
	regions := &reconciliation.RegionsOf{Sites: d, Clients: d}
	t.Cleanup(regions.Close)
	return regions
}

func says(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_, _ = w.Write([]byte(body))
	}
}

func listing(ids ...string) string {
	var out []string
	for _, m := range ids {
		out = append(out, fmt.Sprintf(`{"system_id": %q, "hostname": "gpu-%s", "status_name": "Ready"}`, m, m))
	}
	return "[" + strings.Join(out, ",") + "]"
}

// exceptionsOf returns the machines of both listings.
func exceptionsOf(t *testing.T, r reconciliation.Region) map[string]reconciliation.Machine {
	t.Helper()
	out := map[string]reconciliation.Machine{}
	n, err := r.Exceptions(t.Context(), func(m reconciliation.Machine) { out[m.SystemID] = m })
	if err != nil || n != len(out) {
		t.Fatalf("%d exceptions, %d handed out, %v", n, len(out), err)
	}
	off, err := r.SwitchedOff(t.Context(), func(m reconciliation.Machine) { out[m.SystemID] = m })
	if err != nil || n+off != len(out) {
		t.Fatalf("%d exceptions and %d that are off, %d handed out, %v", n, off, len(out), err)
	}
	return out
}

func changedSince(t *testing.T, r reconciliation.Region, cursor int64) reconciliation.Changes {
	t.Helper()
	c, err := r.Changed(t.Context(), cursor)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSorted(c.Machines) || len(slices.Compact(slices.Clone(c.Machines))) != len(c.Machines) {
		t.Errorf("machines %v", c.Machines)
	}
	return c
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	if fault.CodeOf(err) != code {
		t.Errorf("got %v, want %s", err, code)
	}
}
