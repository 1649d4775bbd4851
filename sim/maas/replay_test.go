package maas_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gpuaas/sim/maas"
	"gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/region"
	"gpuaas/sim/maas/simclock"
)

var update = flag.Bool("update", false, "write docs/maas-conformance.md")

// recording is one exchange with a real region.
type recording struct {
	At          string            `json:"at"`
	Label       string            `json:"label"`
	Method      string            `json:"method"`
	Path        string            `json:"path"`
	Params      map[string]any    `json:"params"`
	User        string            `json:"user"`
	Status      int               `json:"status"`
	ContentType string            `json:"content_type"`
	Headers     map[string]string `json:"headers"`
	Body        any               `json:"body"`
}

func recordings(t *testing.T, name string) []recording {
	t.Helper()
	f, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var list []recording
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var r recording
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

// stubBMC is the power of the recording: it always obeys.
type stubBMC struct{ state map[string]string }

// replay takes a simulator through the history of the recording.
type replay struct {
	t       *testing.T
	region  *maas.Region
	clock   *simclock.Manual
	machine string            // the id here of the one that acts
	names   map[string]string // system ids of the recording, and those here
	ids     map[string]string // numbers of the recording by kind: "interface 4"
	// between is what happened before an exchange without being recorded.
	between map[string]func(*replay)
	learn   func(r *replay, e recording, a answer)
	// played leaves out of the events what only the player of the recording
	// caused. Nil: nothing.
	played func(story string) string
}

const recordedMachine, recordedRack = "p3edc3", "7ht4h6"

func newReplay(t *testing.T) *replay {
	clock := simclock.NewManual(time.Date(2026, 11, 15, 0, 53, 0, 0, time.UTC))
	r := &replay{
		t: t, clock: clock, ids: map[string]string{}, names: map[string]string{recordedRack: "(rack)"},
		between: between, learn: learn,
	}
	r.region = maas.StartTest(t, maas.Options{
		Clock: clock, Seed: 1, Passive: true,
		BMC: &stubBMC{state: map[string]string{}}, Images: []string{"custom/gpu-h100-v10", "custom/gpu-h100-v2"},
	})
	subnets, err := r.region.Subnet("cidr:10.20.0.0/16")
	if err != nil {
		t.Fatal(err)
	}
	r.ids["subnet 2"], r.ids["vlan 5002"] = strconv.Itoa(subnets.ID), strconv.Itoa(subnets.VLAN.ID)
	r.admin("POST", "/account/?op=create_authorisation_token", url.Values{"name": {"k"}})
	var fabric struct{ ID int }
	r.decode(r.admin("POST", "/fabrics/", url.Values{"name": {"fabric-1"}}), &fabric)
	r.ids["fabric 1"] = strconv.Itoa(fabric.ID)
	return r
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (r *replay) admin(method, path string, form url.Values) answer {
	return r.send(method, path, form, signature(r.region.Token, r.clock.Now(), ""))
}

func (r *replay) send(method, path string, form url.Values, header string) answer {
	r.t.Helper()
	target := strings.TrimSuffix(r.region.URL, "/MAAS") + path
	if !strings.HasPrefix(path, "/MAAS/") {
		target = r.region.URL + "/api/2.0" + path
	}
	return send(r.t, method, target, form, header)
}

func (r *replay) decode(a answer, v any) {
	r.t.Helper()
	if err := json.Unmarshal([]byte(a.body), v); err != nil {
		r.t.Fatalf("read %q: %v", a.body, err)
	}
}

func (r *replay) machineDoc() region.MachineDoc {
	r.t.Helper()
	var m region.MachineDoc
	r.decode(r.admin("GET", "/machines/"+r.machine+"/", nil), &m)
	return m
}

// translate replaces the numbers of the recording by those here.
func (r *replay) translate(e recording) (string, url.Values) {
	path := r.renamed(e.Path)
	for _, kind := range []string{"interface", "blockdevice", "fabric"} {
		for recorded, here := range r.ids {
			if k, n, _ := strings.Cut(recorded, " "); k == kind {
				path = strings.Replace(path, "/"+kind+"s/"+n+"/", "/"+kind+"s/@"+here+"/", 1)
			}
		}
	}
	for _, cursor := range []string{"before 152", "after 5"} {
		if name, n, _ := strings.Cut(cursor, " "); strings.HasSuffix(path, name+"="+n) {
			path = strings.TrimSuffix(path, n) + r.ids[cursor]
		}
	}
	path = strings.ReplaceAll(path, "@", "")
	form := url.Values{}
	for k, v := range e.Params {
		values, ok := v.([]any)
		if !ok {
			values = []any{v}
		}
		for _, one := range values {
			s := r.renamed(fmt.Sprint(one))
			kind := map[string]string{"subnet": "subnet", "vlan": "vlan", "root_device": "blockdevice", "id": "link"}[k]
			if here, known := r.ids[kind+" "+s]; known {
				s = here
			}
			form.Add(k, s)
		}
	}
	return path, form
}

func (r *replay) renamed(s string) string {
	for recorded, here := range r.names {
		s = strings.ReplaceAll(s, recorded, here)
	}
	return s
}

func (r *replay) play(e recording) answer {
	path, form := r.translate(e)
	if e.Method == http.MethodGet || e.Method == http.MethodDelete {
		form = nil
	}
	return r.send(e.Method, path, form, r.credentials(e))
}

func (r *replay) credentials(e recording) string {
	now, key := r.clock.Now(), r.region.Token
	switch {
	case strings.HasPrefix(e.Path, "/MAAS/metadata/"):
		r.must(r.region.Happen(r.machine, "netboot"))
		answer, err := r.region.MachineToken(region.Caller{User: &region.User{Name: "admin", Admin: true}}, r.machine)
		r.must(err)
		token, _ := answer.(map[string]string)
		return signature(token["consumer_key"]+":"+token["token_key"]+":"+token["token_secret"], now, "")
	case e.User == "":
		return ""
	case e.User == "operator":
		key = r.region.OperatorToken
	}
	parts := strings.Split(key, ":")
	switch e.Label {
	case "bad consumer":
		return signature("bad:"+parts[1]+":"+parts[2], now, "")
	case "bad token":
		return signature(parts[0]+":bad:"+parts[2], now, "")
	case "bad secret":
		return signature(parts[0]+":"+parts[1]+":bad", now, "")
	case "nonce1", "nonce reuse":
		return signature(key, now, "fixednonce1")
	case "old ts":
		return signature(key, now.Add(-1000*time.Second), "")
	case "future ts":
		return signature(key, now.Add(1000*time.Second), "")
	case "missing ts":
		return strings.ReplaceAll(signature(key, now, ""), "oauth_timestamp", "x")
	case "basic":
		return "Basic YTpi"
	}
	return signature(key, now, "")
}

func TestReplayOfTheRecording(t *testing.T) {
	report := newConformance()
	newReplay(t).run(recordings(t, "recorded.jsonl.gz"), report)
	newSyncReplay(t).run(recordings(t, "recorded-sync.jsonl.gz"), report)
	report.settle(t)
	doc := report.document()
	t.Logf("%d exchanges replayed, %d accepted differences in %d of them", report.played, len(report.accepted),
		report.touched())
	path := filepath.Join("..", "..", "docs", "maas-conformance.md")
	if *update {
		if err := os.WriteFile(path, []byte(doc), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(kept) != doc {
		t.Error("docs/maas-conformance.md is not what the replay found: run the test with -update")
	}
}

func (r *replay) run(history []recording, report *conformance) {
	r.t.Helper()
	for _, e := range history {
		if before := r.between[e.At]; before != nil {
			before(r)
		}
		r.clock.Advance(time.Second)
		a := r.play(e)
		r.learn(r, e, a)
		report.add(e, compare(r, e, a))
	}
}

// learn records the ids that the simulator gave to what the recording made.
func learn(r *replay, e recording, a answer) {
	if e.Label != "create ipmi commission=false" {
		return
	}
	var m region.MachineDoc
	r.decode(a, &m)
	r.machine, r.names[recordedMachine] = m.SystemID, m.SystemID
	r.ids["interface 4"], r.ids["interface 5"] = strconv.Itoa(m.Interfaces[0].ID), strconv.Itoa(m.Interfaces[1].ID)
}

// between is what happened in the recording without being recorded: a script
// acted as the node and changed rows of the database.
var between = map[string]func(*replay){
	"03-03": func(r *replay) {
		h := &region.Hardware{BootMethod: "uefi", CPUCount: 192, Memory: 2097152, Disks: []region.Disk{
			{
				Name: "nvme0n1", Model: "Samsung PM9A3", Serial: "S0", IDPath: "/dev/disk/by-id/nvme-eui.0001", Firmware: "GDC5",
				Size: 960_000_000_000, BlockSize: 512, Tags: []string{"ssd"},
			},
			{
				Name: "nvme1n1", Model: "Samsung PM9A3", Serial: "S1", IDPath: "/dev/disk/by-id/nvme-eui.0002", Firmware: "GDC5",
				Size: 3_840_000_000_000, BlockSize: 512, Tags: []string{"ssd"},
			},
			{
				Name: "nvme2n1", Model: "Samsung PM9A3", Serial: "S2", IDPath: "/dev/disk/by-id/nvme-eui.0003", Firmware: "GDC5",
				Size: 3_840_000_000_000, BlockSize: 512, Tags: []string{"ssd"},
			},
		}}
		if err := r.region.Inspect(r.machine, h); err != nil {
			r.t.Fatal(err)
		}
		for n, d := range r.machineDoc().BlockDevices {
			r.ids["blockdevice "+strconv.Itoa(n+1)] = strconv.Itoa(d.ID)
		}
		for _, i := range []string{"interface 4", "interface 5"} {
			r.admin("PUT", "/nodes/"+r.machine+"/interfaces/"+r.ids[i]+"/", url.Values{"vlan": {r.ids["vlan 5002"]}})
		}
	},
	"04-36": func(r *replay) {
		r.report("cmd-install", "start", "", "curtin command install")
		r.report("cmd-install/stage-partitioning", "start", "", "configuring storage")
		r.report("cmd-install/stage-extract", "start", "", "acquiring and extracting image from http://x")
		r.report("cmd-install/stage-extract", "finish", "FAIL", "acquiring image")
	},
	"04-37": func(r *replay) { r.report("cmd-install", "finish", "FAIL", "curtin command install") },
	"05-01": func(r *replay) {
		r.report("cmd-install", "start", "", "curtin command install")
		r.report("cmd-install/stage-partitioning", "start", "", "configuring storage")
		r.report("cmd-install/stage-extract", "start", "", "acquiring image")
		r.report("cmd-install/stage-curthooks", "start", "", "configuring installed system")
	},
	"05-14": func(r *replay) {
		r.reportAs("cloudinit", "modules-final", "finish", "FAIL", "running modules for final")
		early := region.Report{
			Origin: "cloudinit", Name: "init-network/search-MAAS", EventType: "finish", Result: "FAIL",
			Description: "searching for network data from DataSourceMAAS", Timestamp: float64(r.clock.Now().Unix() - 1),
		}
		if err := r.region.Receive(r.machine, early); err != nil {
			r.t.Fatal(err)
		}
	},
	"06-00": func(r *replay) { r.takeBack() },
	"06-09": func(r *replay) { r.takeBack() },
	"06-35": func(r *replay) {
		r.reportAs("cloudinit", "modules-final", "finish", "SUCCESS", "running modules for final")
	},
	"06-37": func(r *replay) {
		if _, err := r.region.Faults.Add(fault.Rule{Fault: fault.BMCFailure}); err != nil {
			r.t.Fatal(err)
		}
	},
	"06-42": func(r *replay) {
		r.region.Faults.Clear()
	},
	"06-44": func(r *replay) { // rows changed behind the region's back
		for _, what := range []string{"disown", "power_on"} {
			if err := r.region.Happen(r.machine, what); err != nil {
				r.t.Fatal(err)
			}
		}
	},
	"06-72": func(r *replay) {
		r.ids["before 152"] = strconv.Itoa(r.eventID("Failed to query node's BMC") - 2)
		r.ids["after 5"] = strconv.Itoa(r.eventID("Aborted commissioning") - 4)
	},
}

func (r *replay) report(name, event, result, description string) {
	r.reportAs("curtin", name, event, result, description)
}

func (r *replay) reportAs(origin, name, event, result, description string) {
	r.t.Helper()
	if err := r.region.Receive(r.machine, region.Report{
		Origin: origin, Name: name, EventType: event, Result: result,
		Description: description,
	}); err != nil {
		r.t.Fatal(err)
	}
}

// eventID is the number here of the latest event of a type.
func (r *replay) eventID(kind string) int {
	r.t.Helper()
	var page region.EventPage
	r.decode(r.admin("GET", "/events/?op=query&level=DEBUG&limit=1000&id="+r.machine, nil), &page)
	for _, e := range page.Events {
		if e.Type == kind {
			return e.ID
		}
	}
	r.t.Fatalf("no event %q", kind)
	return 0
}

// takeBack releases the machine, which the recording did without a line.
func (r *replay) takeBack() {
	r.t.Helper()
	if a := r.admin("POST", "/machines/"+r.machine+"/?op=release", url.Values{}); a.status != http.StatusOK {
		r.t.Fatalf("release: %d %s", a.status, a.body)
	}
}

func signature(key string, at time.Time, nonce string) string {
	parts := strings.Split(key, ":")
	if nonce == "" {
		nonce = fmt.Sprintf("n%d", nonces.Add(1))
	}
	return fmt.Sprintf(
		`OAuth oauth_version="1.0", oauth_signature_method="PLAINTEXT", oauth_consumer_key="%s", oauth_token="%s", oauth_signature="%%26%s", oauth_nonce="%s", oauth_timestamp="%d"`, parts[0], parts[1], parts[2], nonce, at.Unix())
}

var nonces atomic.Int64

func send(t *testing.T, method, target string, form url.Values, header string) answer {
	t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	q, err := http.NewRequestWithContext(t.Context(), method, target, body)
	if err != nil {
		t.Fatal(err)
	}
	if form != nil {
		q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if header != "" {
		q.Header.Set("Authorization", header)
	}
	p, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Body.Close()
	b, err := io.ReadAll(p.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{p.StatusCode, p.Header, string(b)}
}
