package reconciliation_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/work/reconciliation"
	simfault "gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/fleet"
)

func TestEveryStatusMeansSomething(t *testing.T) {
	want := map[maas.Status]reconciliation.State{
		maas.StatusNew: reconciliation.Free, maas.StatusReady: reconciliation.Free,
		maas.StatusAllocated: reconciliation.Taken, maas.StatusReserved: reconciliation.Taken,
		maas.StatusDeploying: reconciliation.Deploying, maas.StatusDeployed: reconciliation.Installed,
		maas.StatusReleasing: reconciliation.Leaving, maas.StatusDiskErasing: reconciliation.Leaving,
		maas.StatusRetired: reconciliation.Withdrawn, maas.StatusMissing: reconciliation.Withdrawn,
		maas.StatusCommissioning: reconciliation.Maintenance, maas.StatusTesting: reconciliation.Maintenance,
		maas.StatusRescueMode: reconciliation.Maintenance, maas.StatusEnteringRescueMode: reconciliation.Maintenance,
		maas.StatusExitingRescueMode: reconciliation.Maintenance,
		maas.StatusBroken:            reconciliation.Failed,
	}
	for _, s := range maas.Statuses {
		if strings.HasPrefix(string(s), "failed_") {
			want[s] = reconciliation.Failed
		}
		body := fmt.Sprintf(`[{"system_id": "abc234", "status_name": %q, "osystem": "ubuntu"}]`, s.Label())
		got, err := view(t, answers(t, says(body))).Read(t.Context(), []string{"abc234"})
		if err != nil || len(got) != 1 || got[0].State != want[s] || want[s] == "" || got[0].Status != s.Label() {
			t.Errorf("%s became %+v, %v; want %s", s, got, err, want[s])
		}
	}
	for body, want := range map[string]reconciliation.State{
		`[{"system_id": "abc234", "status_name": "Deployed", "osystem": ""}]`:            reconciliation.Hollow,
		`[{"system_id": "abc234", "status_name": "Being admired", "osystem": "ubuntu"}]`: reconciliation.Strange,
	} {
		got, err := view(t, answers(t, says(body))).Read(t.Context(), []string{"abc234"})
		if err != nil || got[0].State != want {
			t.Errorf("%s became %+v, %v", body, got, err)
		}
	}
}

func TestWhatIsKeptOfAMachine(t *testing.T) {
	body := `[{"system_id": "abc234", "hostname": "gpu-1", "status_name": "Deployed", "osystem": "ubuntu", "power_state": "on", "owner": "admin",
		"ip_addresses": ["10.0.0.7"], "current_installation_result_id": 42, "enable_hw_sync": true, "sync_interval": 900, "last_sync": "2026-03-01T10:00:00.000Z",
		"boot_interface": {"mac_address": "AA:BB:CC:00:00:01"},
		"interface_set": [
			{"name": "eno1", "mac_address": "aa:bb:cc:00:00:01", "links": [{"mode": "auto", "ip_address": "10.0.0.7"}, {"mode": "link_up"}]},
			{"name": "ens1", "mac_address": "AA:BB:CC:00:00:02", "links": null}]}]`
	got, err := view(t, answers(t, says(body))).Read(t.Context(), []string{"abc234"})
	if err != nil {
		t.Fatal(err)
	}
	m := got[0]
	synced := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	if m.Hostname != "gpu-1" || m.Power != "on" || m.Owner != "admin" || m.Installation != 42 || !m.SyncEnabled ||
		m.SyncInterval != 15*time.Minute ||
		m.LastSync == nil || !m.LastSync.Equal(synced) || !slices.Equal(m.IPs, []string{"10.0.0.7"}) ||
		!slices.Equal(m.MACs, []string{"aa:bb:cc:00:00:01", "aa:bb:cc:00:00:02"}) || len(m.Links) != 1 ||
		m.Links[0] != (reconciliation.Link{Interface: "eno1", Address: "10.0.0.7"}) {
		t.Errorf("kept %+v", m)
	}
	null := `[{"system_id": "abc234", "status_name": "New", "hostname": null, "owner": null, "power_state": null, "ip_addresses": null, "interface_set": null,
		"boot_interface": null, "last_sync": null, "sync_interval": null, "current_installation_result_id": null, "osystem": null}]`
	got, err = view(t, answers(t, says(null))).Read(t.Context(), []string{"abc234"})
	if err != nil || got[0].Power != "unknown" || got[0].LastSync != nil || got[0].Installation != 0 ||
		got[0].MACs != nil || got[0].Links != nil {
		t.Errorf("of nulls %+v, %v", got, err)
	}
}

// If MAAS does not answer, or not completely, every question returns an error.
func TestNoAnswerIsNoInformation(t *testing.T) {
	for name, tt := range map[string]struct {
		rule simfault.Rule
		late bool
	}{
		"500": {rule: simfault.Rule{Fault: simfault.ErrorBefore, Status: 500}},
		"502": {rule: simfault.Rule{
			Fault: simfault.ErrorBefore, Status: 502, ContentType: "text/html",
			Text: "<html>bad gateway</html>",
		}},
		"hangs":   {rule: simfault.Rule{Fault: simfault.Hang}, late: true},
		"cut off": {rule: simfault.Rule{Fault: simfault.Truncate}},
		"dropped": {rule: simfault.Rule{Fault: simfault.Drop}},
		"a page": {rule: simfault.Rule{
			Fault: simfault.ErrorAfter, Status: 200, ContentType: "text/html",
			Text: "<html>sign in</html>",
		}},
		"forbidden": {rule: simfault.Rule{Fault: simfault.ErrorBefore, Status: 403, Text: "no"}},
		"not found": {rule: simfault.Rule{Fault: simfault.ErrorBefore, Status: 404, Text: "404 page not found"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := simulate(t, 3, "deployed")
			ids := s.SystemIDs()
			s.happen(t, ids[0], "release")
			r := s.view(t)
			cursor := changedSince(t, r, 0).Cursor
			s.fault(t, tt.rule)
			for question, ask := range map[string]func(ctx context.Context) error{
				"exceptions": func(ctx context.Context) error {
					_, err := r.Exceptions(ctx, func(reconciliation.Machine) {})
					return err
				},
				"off": func(ctx context.Context) error {
					_, err := r.SwitchedOff(ctx, func(reconciliation.Machine) {})
					return err
				},
				"events": func(ctx context.Context) error {
					c, err := r.Changed(ctx, cursor)
					if c.Cursor != 0 || c.Lost || c.Machines != nil {
						t.Errorf("events: %+v", c)
					}
					return err
				},
				"machines": func(ctx context.Context) error {
					got, err := r.Read(ctx, ids)
					if got != nil {
						t.Errorf("machines: %v", got)
					}
					return err
				},
				"machine": func(ctx context.Context) error {
					_, exists, err := r.Direct(ctx, ids[0])
					if exists {
						t.Error("a machine exists")
					}
					return err
				},
				"twin": func(ctx context.Context) error {
					_, _, err := r.Find(ctx, "gpu-00001", nil, "10.0.0.1")
					return err
				},
			} {
				ctx := t.Context()
				if tt.late {
					limited, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
					defer cancel()
					ctx = limited
				}
				if err := ask(ctx); err == nil || fault.CodeOf(err) == "internal" {
					t.Errorf("%s: %v", question, err)
				}
			}
		})
	}
}

func TestAnswersAboutOthersAreRefused(t *testing.T) {
	read := func(body string, ids ...string) ([]reconciliation.Machine, error) {
		return view(t, answers(t, says(body))).Read(t.Context(), ids)
	}
	if got, err := read(listing("abc234"), "abc234", "def678"); err != nil || len(got) != 1 {
		t.Errorf("a missing machine: %v %v", got, err)
	}
	if got, err := read("[]", "abc234"); err != nil || len(got) != 0 {
		t.Errorf("no machine: %v %v", got, err)
	}
	_, err := read(listing("abc234", "ghk444"), "abc234", "def678")
	wantCode(t, err, reconciliation.CodeAnswerMixedUp)
	_, err = read(listing("abc234", "abc234"), "abc234", "def678")
	wantCode(t, err, reconciliation.CodeAnswerMixedUp)
	_, err = view(t, answers(t, says(listing("abc234", "def678", "abc234")))).Exceptions(t.Context(),
		func(reconciliation.Machine) {})
	wantCode(t, err, reconciliation.CodeAnswerMixedUp)
	_, err = view(t, answers(t, says(listing("abc234", "def678", "abc234")))).SwitchedOff(t.Context(),
		func(reconciliation.Machine) {})
	wantCode(t, err, reconciliation.CodeAnswerMixedUp)
	_, exists, err := view(t, answers(t, says(`{"system_id": "def678", "status_name": "Ready"}`))).Direct(t.Context(),
		"abc234")
	if exists {
		t.Error("another machine exists for it")
	}
	wantCode(t, err, reconciliation.CodeAnswerMixedUp)
	_, err = view(t, answers(t, says(`{"events": [{"id": 5, "node": "abc234"}]}`))).Changed(t.Context(), 5000)
	wantCode(t, err, reconciliation.CodeAnswerMixedUp)
	// An empty list of ids must not ask for everything.
	silent := answers(t, func(_ http.ResponseWriter, q *http.Request) { t.Errorf("asked %s", q.URL) })
	if got, err := view(t, silent).Read(t.Context(), nil); err != nil || got != nil {
		t.Errorf("of nothing: %v %v", got, err)
	}
}

// Against a MAAS without the filter by power, the sweep finds these machines.
func TestAMAASWithoutTheFilterByPower(t *testing.T) {
	r := view(t, answers(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Query().Has("power_state") {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"power_state": ["No such constraint."]}`))
			return
		}
		says(listing("abc234"))(w, q)
	}))
	if got := exceptionsOf(t, r); len(got) != 1 {
		t.Errorf("got %v", got)
	}
}

// The two listings are independent: if one fails, the other still counts.
func TestAListingThatFailsLeavesTheOther(t *testing.T) {
	for name, broken := range map[string]bool{"what is off": true, "what is not deployed": false} {
		t.Run(name, func(t *testing.T) {
			r := view(t, answers(t, func(w http.ResponseWriter, q *http.Request) {
				if q.URL.Query().Has("power_state") == broken {
					w.WriteHeader(http.StatusInternalServerError)
					return
				}
				says(listing("abc234"))(w, q)
			}))
			each := func(reconciliation.Machine) {}
			n, errNot := r.Exceptions(t.Context(), each)
			off, errOff := r.SwitchedOff(t.Context(), each)
			if (errOff != nil) != broken || (errNot != nil) == broken || n+off != 1 {
				t.Errorf("not deployed: %d, %v; off: %d, %v", n, errNot, off, errOff)
			}
		})
	}
}

func TestNoListingThatFailsKeepsWhatTheOtherShowsFromACycle(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fail func(m *plainMAAS)
		node int
		want reconciliation.Type
	}{
		"what is off":          {func(m *plainMAAS) { m.noSwitchedOff = true }, 0, reconciliation.TypeReleased},
		"what is not deployed": {func(m *plainMAAS) { m.noExceptions = true }, 1, reconciliation.TypePoweredOff},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2)
			w.cycle(t)
			w.maas.machines["m000"].Status, w.maas.machines["m000"].State = "Ready", reconciliation.Free
			w.maas.machines["m001"].Power = "off"
			c.fail(w.maas)
			w.maas.noReads = true // only the listings show it
			w.silence(1)
			run := w.cycle(t)
			if _, found := w.open(t, c.node)[c.want]; !found || run.Outcome != reconciliation.Partly ||
				len(w.open(t, 1-c.node)) != 0 {
				t.Errorf("%s: found %v and %v", run.Outcome, w.open(t, 0), w.open(t, 1))
			}
		})
	}
}

// Nothing that MAAS says can make a row that the database refuses, or one
// without bounds.
func TestWhatMAASSaysIsHarmless(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", 5000)
	var addresses, nics []string
	for i := range 3000 {
		addresses = append(addresses, fmt.Sprintf(`"10.1.%d.%d"`, i/250, i%250))
		nics = append(nics,
			fmt.Sprintf(
				`{"name": "e%d\u0000%s", "mac_address": "02:00:00:00:%02x:%02x", "links": [{"ip_address": "10.2.%d.%d\u0000"}, {"ip_address": "%s"}]}`, i, long[:200], i/256, i%256, i/250, i%250, long[:200]))
	}
	body := `[{"system_id": "abc234", "hostname": "gpu\u0000-1` + "\xff" + long + `", "status_name": "Being\u0000 admired ` + long + `", "power_state": "o\u0000n` + long + `",
		"owner": "ad\u0000min` + long + `", "sync_interval": 9223372036854775807, "ip_addresses": ["10.0.0.7", "10.0.0.7", "10.0.0.8,10.0.0.9", "\u0000", "", ` + strings.Join(addresses, ",") + `],
		"interface_set": [` + strings.Join(nics, ",") + `]}]`
	got, err := view(t, answers(t, says(body))).Read(t.Context(), []string{"abc234"})
	if err != nil {
		t.Fatal(err)
	}
	m := got[0]
	if m.State != reconciliation.Strange || !strings.HasPrefix(m.Hostname, "gpu\uFFFD-1") ||
		!strings.HasPrefix(m.Status, "Being admired") || !strings.HasPrefix(m.Owner, "ad\uFFFDmin") {
		t.Errorf("%.40q %.40q %.40q %s", m.Hostname, m.Status, m.Owner, m.State)
	}
	texts := []string{m.SystemID, m.Hostname, m.Status, m.Power, m.Owner}
	texts = append(append(texts, m.IPs...), m.MACs...)
	for _, l := range m.Links {
		texts = append(texts, l.Interface, l.Address)
	}
	for _, s := range texts {
		if !utf8.ValidString(s) || strings.ContainsRune(s, 0) || len(s) > 300 {
			t.Errorf("kept %d bytes: %.60q", len(s), s)
		}
	}
	if len(m.IPs) != 256 || len(m.MACs) != 256 || len(m.Links) > 512 ||
		!slices.Equal(m.IPs[:2], []string{"10.0.0.7", "10.1.0.0"}) || m.SyncInterval < 0 {
		t.Errorf("%d addresses (%v), %d MACs, %d links, sync every %s", len(m.IPs), m.IPs[:2], len(m.MACs), len(m.Links),
			m.SyncInterval)
	}
	_, err = view(t, answers(t, says(`[{"system_id": "x\u0000y", "status_name": "Ready"}]`))).Read(t.Context(),
		[]string{"abc234"})
	if wantCode(t, err, reconciliation.CodeAnswerMixedUp); strings.ContainsRune(err.Error(), 0) {
		t.Errorf("%q", err)
	}
}

func TestAMachineIsAbsentOnlyByTheWordOfMAAS(t *testing.T) {
	s := simulate(t, 2, "deployed")
	ids := s.SystemIDs()
	r := s.view(t)
	s.happen(t, ids[0], "delete")
	if got, err := r.Read(t.Context(), ids); err != nil || len(got) != 1 || got[0].SystemID != ids[1] {
		t.Errorf("read %v %v", got, err)
	}
	if _, exists, err := r.Direct(t.Context(), ids[0]); exists || err != nil {
		t.Errorf("the deleted one: %v %v", exists, err)
	}
	if m, exists, err := r.Direct(t.Context(), ids[1]); !exists || err != nil || m.State != reconciliation.Installed {
		t.Errorf("the other: %+v %v %v", m, exists, err)
	}
}

func TestReleasing(t *testing.T) {
	s := simulate(t, 4, "deployed")
	ids := s.SystemIDs()
	r := s.view(t)
	for i, erase := range []string{"none", "quick", "secure"} {
		if err := r.Release(t.Context(), ids[i], erase,
			"by gpuaas reconciliation, as the policy of the site says"); err != nil {
			t.Errorf("%s: %v", erase, err)
		}
		if err := r.Release(t.Context(), ids[i], erase, "again"); err != nil {
			t.Errorf("%s again: %v", erase, err)
		}
	}
	wantCode(t, r.Release(t.Context(), ids[3], "thoroughly", ""), "erase_mode_invalid")
	s.fault(t, simfault.Rule{Fault: simfault.Ignored, Operation: "machine.release"})
	wantCode(t, r.Release(t.Context(), ids[3], "none", "x"), "release_not_begun")
	s.Faults.Clear()
	s.fault(t, simfault.Rule{Fault: simfault.ErrorBefore, Operation: "machine.release", Status: 500})
	if err := r.Release(t.Context(), ids[3], "none", "x"); fault.KindOf(err) != fault.Ambiguous {
		t.Errorf("one that failed before: %v", err)
	}
	s.Faults.Clear()
	s.fault(t, simfault.Rule{Fault: simfault.LostAnswer, Operation: "machine.release"})
	if err := r.Release(t.Context(), ids[3], "none", "x"); err != nil {
		t.Errorf("one whose answer was lost: %v", err)
	}
}

// Times of MAAS are compared with MAAS's own clock, however far it is off.
func TestTheClockIsThatOfMAAS(t *testing.T) {
	r := view(t, answers(t, func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Date", time.Now().Add(-7*time.Hour).UTC().Format(http.TimeFormat))
		says(listing("abc234"))(w, q)
	}))
	if _, err := r.Read(t.Context(), []string{"abc234"}); err != nil {
		t.Fatal(err)
	}
	if behind := time.Since(r.Now()); behind < 7*time.Hour-5*time.Second || behind > 7*time.Hour+5*time.Second {
		t.Errorf("MAAS is %s behind", behind)
	}
}

func TestAClientLivesFromRunToRun(t *testing.T) {
	t.Parallel()
	s := simulate(t, 60, "deployed")
	first := s.view(t)
	if _, err := first.Read(t.Context(), s.SystemIDs()); err != nil {
		t.Fatal(err)
	}
	if c := first.Cost(); c.Requests != 2 || c.Records != 60 || c.Waited <= 0 {
		t.Errorf("sixty machines cost %+v", c)
	}
	second := s.view(t)
	if c := second.Cost(); c.Requests != 0 || c.Records != 0 || s.door.opened != 1 {
		t.Errorf("a new view begins with %+v, and is client %d", c, s.door.opened)
	}
	s.door.token = "x:y:z"
	if _, err := s.view(t).Read(t.Context(), s.SystemIDs()[:1]); s.door.opened != 2 ||
		fault.CodeOf(err) != maas.CodeTokenInvalid {
		t.Errorf("client %d after the token was changed, %v", s.door.opened, err)
	}
	if _, err := second.Read(t.Context(), s.SystemIDs()[:1]); err != nil {
		t.Errorf("the run that had begun: %v", err)
	}
}

// A listing of a hundred thousand machines needs little memory.
func TestAHundredThousandExceptions(t *testing.T) {
	const machines = 100_000
	r := view(t, answers(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Query().Has("power_state") {
			says("[]")(w, q)
			return
		}
		nic := strings.Repeat(`{"name": "ens1", "mac_address": "aa:bb:cc:dd:ee:ff", "links": [{"ip_address": "10.0.0.1"}]},`,
			2)
		_, _ = w.Write([]byte("["))
		for n := range machines {
			comma := ","
			if n == 0 {
				comma = ""
			}
			_, _ = fmt.Fprintf(w, `%s{"system_id": "m%05d", "status_name": "Broken", "interface_set": [%s]}`, comma, n,
				strings.TrimSuffix(nic, ","))
		}
		_, _ = w.Write([]byte("]"))
	}))
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // as in the product, whatever the suite runs with
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	before, peak, n := stats.HeapAlloc, uint64(0), 0
	total, err := r.Exceptions(t.Context(), func(reconciliation.Machine) {
		if n++; n%5000 == 0 {
			runtime.ReadMemStats(&stats)
			peak = max(peak, stats.HeapAlloc)
		}
	})
	if err != nil || total != machines || n != machines || r.Cost().Records != machines {
		t.Fatalf("%d of %d machines, cost %+v, %v", n, total, r.Cost(), err)
	}
	if grown := int64(peak) - int64(before); grown > 64<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	} else {
		t.Logf("the heap grew by %d MiB at most", grown>>20)
	}
}

func TestFindingAServerAgain(t *testing.T) {
	bmc := fleet.BMCAddress(1)
	var macs []string
	for name, tt := range map[string]struct {
		befall   func(t *testing.T, s *simulation, systemID string)
		hostname string
		macs     func() []string
		power    string
		by       string
		code     string
	}{
		"by its name":            {recreated, "gpu-00001", nil, "", "hostname", ""},
		"by its name and domain": {recreated, "gpu-00001.maas", nil, "", "hostname", ""},
		"by its interface":       {recreated, "other", func() []string { return macs }, "", "mac_address", ""},
		"by its BMC":             {recreated, "other", nil, bmc, "power_address", ""},
		"by all of them":         {recreated, "gpu-00001", func() []string { return macs }, bmc, "mac_address", ""},
		"not at all":             {recreated, "other", nil, "10.9.9.9", "", ""},
		"not by nothing":         {recreated, "", nil, "", "", ""},
		"not by nonsense":        {recreated, "", func() []string { return []string{"zz", ""} }, "nonsense", "", ""},
		"not a server of the name": {
			recreated, "gpu-00001", func() []string { return []string{"02:00:00:00:00:99"} }, "", "",
			"",
		},
		"not what is gone": {
			func(t *testing.T, s *simulation, m string) { t.Helper(); s.happen(t, m, "delete") },
			"gpu-00001", func() []string { return macs }, bmc, "", "",
		},
		"two of the BMC": {func(t *testing.T, s *simulation, m string) {
			t.Helper()
			s.happen(t, m, "twin")
			s.happen(t, m, "recreate")
		}, "other", nil, bmc, "", "twin_ambiguous"},
		"two by what they show": {
			recreated, "gpu-00002",
			func() []string { return append(slices.Clone(macs), "b8:3f:00:00:02:00") }, "", "", "twin_ambiguous",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := simulate(t, 3, "deployed")
			old := s.SystemIDs()[0]
			r := s.view(t)
			m, _, err := r.Direct(t.Context(), old)
			if err != nil {
				t.Fatal(err)
			}
			macs = m.MACs
			tt.befall(t, s, old)
			var given []string
			if tt.macs != nil {
				given = tt.macs()
			}
			found, by, err := r.Find(t.Context(), tt.hostname, given, tt.power)
			if tt.code != "" {
				wantCode(t, err, tt.code)
				return
			}
			if err != nil || by != tt.by || (found != nil) != (tt.by != "") {
				t.Fatalf("found %+v by %q, %v", found, by, err)
			}
			if found != nil && (found.SystemID == old || found.State != reconciliation.Free) {
				t.Errorf("found %+v", found)
			}
		})
	}
}

func recreated(t *testing.T, s *simulation, systemID string) {
	t.Helper()
	s.happen(t, systemID, "recreate")
}
