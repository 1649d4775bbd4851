package maas_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
)

func ops(g *region) []string {
	var out []string
	for _, r := range g.asked() {
		out = append(out, r.Method+" "+r.op())
	}
	return out
}

// MAAS commits before it turns to the BMC: a 5xx to a write proves nothing, so
// the write is neither repeated nor called a failure.
func TestTrap5xxAfterCommit(t *testing.T) {
	for _, status := range []int{500, 502, 503, 504} {
		g := serve(t, func(_ int, _ request, w http.ResponseWriter) {
			w.Header().Set("Retry-After", "10")
			http.Error(w, "Something went wrong after the commit", status)
		})
		err := commission(t.Context(), client(t, g.URL))
		if fault.KindOf(err) != fault.Ambiguous || len(g.asked()) != 1 {
			t.Errorf("%d: %v after %d requests", status, err, len(g.asked()))
		}
		if f, _ := fault.As(err); !strings.Contains(f.Remedy, "read the machine") {
			t.Errorf("remedy %q", f.Remedy)
		}
	}
}

func TestTrapLaggingAnswers(t *testing.T) {
	_, c := replay(t, "04/30", "04/31") // the answer says Deploying, the next read Allocated
	m, err := c.Abort(t.Context(), sysid, "nah")
	if err != nil || m.Status != maas.StatusAllocated || m.PowerState != maas.PowerOff {
		t.Errorf("after abort %s %s, %v", m.Status, m.PowerState, err)
	}

	g := serve(t, func(n int, _ request, w http.ResponseWriter) {
		if n == 0 {
			put(w, recorded()["04/30"])
			return
		}
		http.Error(w, "gone fishing", http.StatusInternalServerError)
	})
	_, err = client(t, g.URL).Abort(t.Context(), sysid, "")
	checkFault(t, err, fault.Ambiguous, maas.CodeAmbiguous)
}

func TestTrapPowerOnAllocatedDeploys(t *testing.T) {
	g, c := replay(t, "04/31")
	_, err := c.PowerOn(t.Context(), sysid, "")
	checkFault(t, err, fault.Conflict, maas.CodeWouldDeploy)
	if got := ops(g); !slices.Equal(got, []string{"GET "}) {
		t.Errorf("sent %v", got)
	}
	_, c = replay(t, "05/16-deployed", "05/17", "06/3")
	m, err := c.PowerOn(t.Context(), sysid, "")
	if err != nil || m.PowerState != maas.PowerOn {
		t.Errorf("power on of a Deployed machine: %s %v", m.PowerState, err)
	}
}

// images answers the listing that precedes a deployment.
func images(names ...string) string {
	var items []string
	for _, name := range names {
		items = append(items, `{"id": 1, "type": "Uploaded", "name": "`+name+`", "architecture": "amd64/generic"}`)
	}
	return "[" + strings.Join(items, ", ") + "]"
}

func serveDeploy(t *testing.T, have []string, keys ...string) *region {
	t.Helper()
	at := 0
	return serve(t, func(_ int, r request, w http.ResponseWriter) {
		if r.Path == "/boot-resources/" {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			_, _ = io.WriteString(w, images(have...))
			return
		}
		if at < len(keys) {
			put(w, recorded()[keys[at]])
		}
		at++
	})
}

func TestTrapImagePrefixMatch(t *testing.T) {
	// The image vanished between the listing and the deployment.
	g := serveDeploy(t, []string{"gpu-h100-v1"}, "04/22", "04/30", "04/31")
	_, err := client(t, g.URL).Deploy(t.Context(), sysid, maas.DeployOptions{Image: "custom/gpu-h100-v1"})
	checkFault(t, err, fault.Conflict, maas.CodeImageMismatch)
	if got := ops(g); !slices.Equal(got, []string{"GET ", "POST deploy", "POST abort", "GET "}) {
		t.Errorf("sent %v", got)
	}

	g = serveDeploy(t, []string{"gpu-h100-v10", "gpu-h100-v2"})
	_, err = client(t, g.URL).Deploy(t.Context(), sysid, maas.DeployOptions{Image: "custom/gpu-h100-v1"})
	checkFault(t, err, fault.Invalid, maas.CodeImageMissing)
	if len(g.asked()) != 1 {
		t.Error("a deployment of an image that MAAS does not have was sent")
	}

	g = serveDeploy(t, []string{"gpu-h100-v1"}, "04/22", "02/17")
	_, err = client(t, g.URL).Deploy(t.Context(), sysid, maas.DeployOptions{Image: "custom/gpu-h100-v1"})
	checkFault(t, err, fault.Ambiguous, maas.CodeImageMismatch)

	_, c := replay(t, "04/35")
	if m, err := c.Deploy(t.Context(), sysid, maas.DeployOptions{Image: "noble"}); err != nil ||
		m.Image() != "ubuntu/noble" {
		t.Errorf("%s %v", m.Image(), err)
	}
}

func TestTrapCustomImagePrefix(t *testing.T) {
	for name, want := range map[string]string{
		"gpuaas-h200": "custom/gpuaas-h200", "custom/gpuaas-h200": "custom/gpuaas-h200", "ubuntu/noble": "ubuntu/noble",
		"noble": "noble",
		"":      "", "custom/a/b": "", "/x": "", "x/": "", "a b": "", "custom/\x00": "",
	} {
		got, err := maas.ImageRef(name)
		if got != want || (want == "") != (err != nil) {
			t.Errorf("%q is sent as %q, %v", name, got, err)
		}
	}
	g := serveDeploy(t, []string{"gpuaas-h200"}, "02/15")
	_, err := client(t, g.URL).Deploy(t.Context(), sysid, maas.DeployOptions{
		Image: "gpuaas-h200", EnableHWSync: true, UserData: redact.New("#cloud-config\n{}\n"),
	})
	checkFault(t, err, fault.Conflict, maas.CodeStateConflict)
	f := g.asked()[1].Form
	if f.Get("distro_series") != "custom/gpuaas-h200" || f.Get("user_data") != "I2Nsb3VkLWNvbmZpZwp7fQo=" ||
		f.Get("enable_hw_sync") != "true" {
		t.Errorf("sent %v", f)
	}
}

// Most operations answer a wrong status with 409, commission with 400.
func TestTrapNonUniformStateErrors(t *testing.T) {
	for key, call := range map[string]op{
		"02/37": commission, "04/6": commission, "05/26": commission, "02/15": deploy,
		"04/25": deploy, "02/17": abort,
	} {
		_, c := replay(t, key)
		checkFault(t, call(t.Context(), c), fault.Conflict, maas.CodeStateConflict)
	}
}

// MAAS takes "0" for true in some forms.
func TestTrapBooleansAsWords(t *testing.T) {
	g := serve(t, func(_ int, _ request, w http.ResponseWriter) { put(w, recorded()["02/36"]) })
	c := client(t, g.URL)
	if _, err := c.Commission(t.Context(), sysid,
		maas.CommissionOptions{EnableSSH: true, SkipBMCConfig: true, TestingScripts: []string{"none"}}); err != nil {
		t.Fatal(err)
	}
	f := g.asked()[0].Form
	for name, want := range map[string]string{
		"enable_ssh": "true", "skip_bmc_config": "true", "skip_networking": "false", "skip_storage": "false",
		"testing_scripts": "none",
	} {
		if f.Get(name) != want {
			t.Errorf("%s = %q", name, f.Get(name))
		}
	}
}

func TestTrapReleaseNoOpOnReady(t *testing.T) {
	g, c := replay(t, "06/14")
	got, err := c.Release(t.Context(), sysid, maas.ReleaseOptions{Erase: maas.EraseSecure})
	if err != nil || got.Outcome != maas.ReleaseNothing {
		t.Errorf("release of a Ready machine: %s %v", got.Outcome, err)
	}
	if len(g.asked()) != 1 {
		t.Error("a release that erases nothing was sent")
	}
}

func TestReleaseOutcomes(t *testing.T) {
	for name, c := range map[string]struct {
		keys    []string
		options maas.ReleaseOptions
		want    maas.ReleaseOutcome
		form    string
	}{
		"powers off": {
			[]string{"06/12", "06/13", "06/14"},
			maas.ReleaseOptions{Comment: "bye"},
			maas.ReleaseDone,
			"comment=bye",
		},
		"erases quick": {
			[]string{"06/20", "06/22", "06/23"},
			maas.ReleaseOptions{Erase: maas.EraseQuick},
			maas.ReleaseErasing, "erase=true&quick_erase=true",
		},
		"erases secure": {
			[]string{"06/27", "06/28", "06/29"},
			maas.ReleaseOptions{Erase: maas.EraseSecure, Force: true},
			maas.ReleaseErasing, "erase=true&force=true&secure_erase=true",
		},
		"erases full": {
			[]string{"06/31", "06/32", "06/34"},
			maas.ReleaseOptions{Erase: maas.EraseFull},
			maas.ReleaseErasing, "erase=true",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, cl := replay(t, c.keys...)
			got, err := cl.Release(t.Context(), sysid, c.options)
			if err != nil || got.Outcome != c.want {
				t.Errorf("%s %v", got.Outcome, err)
			}
			if sent := g.asked()[1].Form.Encode(); sent != c.form {
				t.Errorf("sent %s", sent)
			}
		})
	}
}

// A machine whose latest commissioning had not passed becomes New, not Ready.
func TestTrapReleaseEndsInNew(t *testing.T) {
	_, c := replay(t, "06/12", "06/13", "02/41")
	got, err := c.Release(t.Context(), sysid, maas.ReleaseOptions{})
	if err != nil || got.Machine.Status != maas.StatusNew || got.Outcome != maas.ReleaseDone {
		t.Errorf("%s %s %v", got.Machine.Status, got.Outcome, err)
	}
	if v := maas.UntilReleased(got.Machine); !v.Done() {
		t.Error("a wait for the release would never end")
	}
}

func TestTrapNextURILosesItsCursor(t *testing.T) {
	page := func(w http.ResponseWriter, events string) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_, _ = io.WriteString(w, `{"count": 0, "events": [`+events+
			`], "next_uri": "/MAAS/api/2.0/events/?op=query", "prev_uri": null}`)
	}
	event := func(id string) string {
		return `{"id": ` + id + `, "node": "abc", "level": "INFO", "created": "Sun, 15 Nov. 2026 00:44:27", "type": "Ready"}`
	}
	g := serve(t, func(n int, r request, w http.ResponseWriter) {
		page(w, []string{event("500"), "", event("502") + "," + event("500"), event("502") + "," + event("501")}[n])
	})
	tail := maas.NewTail(client(t, g.URL), maas.LevelInfo, 0)
	var seen []int64
	for range 4 {
		events, err := tail.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			seen = append(seen, e.ID)
			if e.Created.Year() != 2026 {
				t.Errorf("created %v", e.Created)
			}
		}
	}
	// 501 was committed after 502: the overlap finds it.
	if !slices.Equal(seen, []int64{502, 501}) {
		t.Errorf("saw %v", seen)
	}
	for i, want := range []string{"", "400", "400", "402"} {
		if got := g.asked()[i].Query.Get("after"); got != want {
			t.Errorf("request %d asked for events after %q, want %q", i, got, want)
		}
	}
}

func TestTrapUnauthenticatedListAnswers400(t *testing.T) {
	_, c := replay(t, "01/0")
	err := list(t.Context(), c)
	checkFault(t, err, fault.Forbidden, maas.CodeTokenInvalid)
	if f, _ := fault.As(err); !strings.Contains(f.Remedy, "proxy") {
		t.Errorf("remedy %q", f.Remedy)
	}
}

func TestTrapNullBodies(t *testing.T) {
	null := func(_ int, _ request, w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_, _ = io.WriteString(w, "null")
	}
	c := client(t, serve(t, null).URL)
	_, err := c.PowerOff(t.Context(), sysid, true, "")
	checkFault(t, err, fault.Conflict, maas.CodePowerUncontrolled)
	_, err = c.MachineToken(t.Context(), sysid)
	checkFault(t, err, fault.NotFound, maas.CodeNoMachineToken)
	_, err = c.Machine(t.Context(), sysid)
	checkFault(t, err, fault.Invalid, maas.CodeAnswerInvalid)
	_, err = c.Abort(t.Context(), sysid, "")
	checkFault(t, err, fault.Ambiguous, maas.CodeAnswerInvalid)
	if text, err := c.Setting(t.Context(), "upstream_dns"); text != "" || err != nil {
		t.Errorf("%q %v", text, err)
	}
}

func TestTrapMarkBrokenNeedsOwnership(t *testing.T) {
	_, c := replay(t, "02/18", "02/41")
	_, err := c.MarkBroken(t.Context(), sysid, "x")
	checkFault(t, err, fault.Conflict, maas.CodeNotOwner)
}

func TestLockedMachinesAreNamedAsSuch(t *testing.T) {
	_, c := replay(t, "05/23", "05/20-locked")
	checkFault(t, remove(t.Context(), c), fault.Conflict, maas.CodeMachineLocked)
}

func TestTrapMarkFixedResurrectsDeployed(t *testing.T) {
	_, c := replay(t, "05/31")
	m, err := c.MarkFixed(t.Context(), sysid, "ok")
	checkFault(t, err, fault.Conflict, maas.CodeResurrected)
	if !m.Hollow() || m.Installed() {
		t.Errorf("%s %q", m.Status, m.OSystem)
	}
	if v := maas.UntilDeployed(m); v.Done() && !v.Failed() {
		t.Error("a hollow machine ended a wait for a deployment")
	}
}

// MAAS names the BMC also when it is a rack that is missing. Which of the two
// it is, the racks tell.
func TestTrapNoRackIsNoFaultOfTheBMC(t *testing.T) {
	racks := func(status string) string {
		return `[{"system_id":"arghdg","service_set":[{"name":"rackd","status":"` + status + `"}]}]`
	}
	for name, tt := range map[string]struct{ exchange, racks, code string }{
		"rack away":                       {"08/41", "", maas.CodeRackUnavailable},
		"rack away, unknown BMC":          {"08/50", racks("dead"), maas.CodeRackUnavailable},
		"racks cannot be listed":          {"08/50", "broken", maas.CodeRackUnavailable},
		"rack there, BMC on no network":   {"08/50", racks("running"), maas.CodeBMCFailure},
		"rack there, BMC does not answer": {"08/42", "", maas.CodeBMCFailure},
	} {
		e := recorded()[tt.exchange]
		g := serve(t, func(_ int, r request, w http.ResponseWriter) {
			if r.Path == "/rackcontrollers/" {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, tt.racks)
				return
			}
			put(w, e)
		})
		_, err := client(t, g.URL).Commission(t.Context(), sysid, maas.CommissionOptions{})
		checkFault(t, err, fault.Ambiguous, tt.code)
		if f, _ := fault.As(err); !strings.Contains(f.Message, e.body()) {
			t.Errorf("%s: %q lacks what MAAS said: %q", name, f.Message, e.body())
		}
	}
}

// A machine may be named after the rack that it stands in.
func TestTrapTheNameOfAMachineIsNoRackController(t *testing.T) {
	for text, code := range map[string]string{
		"Failed to power on rack07-u31: Power action failed: k_g key is wrong": maas.CodeBMCFailure,
		"Unable to connect to any rack controller arghdg":                      maas.CodeRackUnavailable,
		"No rack controllers are connected":                                    maas.CodeRackUnavailable,
	} {
		g := serve(t, func(_ int, _ request, w http.ResponseWriter) {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, text)
		})
		_, err := client(t, g.URL).Commission(t.Context(), sysid, maas.CommissionOptions{})
		checkFault(t, err, fault.Ambiguous, code)
	}
}

func TestTrapTokenIsGoneAfterAllocation(t *testing.T) {
	g := serve(t, func(_ int, _ request, w http.ResponseWriter) { put(w, recorded()["08/06"]) })
	_, err := client(t, g.URL).MachineToken(t.Context(), sysid)
	checkFault(t, err, fault.NotFound, maas.CodeNoMachineToken)
}

func TestTrapASyncRenamesWhatIsInstalled(t *testing.T) {
	g := serve(t, func(_ int, _ request, w http.ResponseWriter) { put(w, recorded()["08/09"]) })
	m, err := client(t, g.URL).Machine(t.Context(), sysid)
	if err != nil || m.Image() != "ubuntu/noble" || m.InstallationResultID == 0 {
		t.Errorf("%s of installation %d, %v", m.Image(), m.InstallationResultID, err)
	}
}

func TestTrapADHCPLinkWithoutASubnet(t *testing.T) {
	g := serve(t, func(_ int, r request, w http.ResponseWriter) {
		if r.Method == http.MethodGet {
			put(w, recorded()["08/31"])
			return
		}
		put(w, recorded()["08/32"])
	})
	c := client(t, g.URL)
	m, err := c.Machine(t.Context(), sysid)
	if err != nil || len(m.Interfaces[0].Links) != 1 || m.Interfaces[0].Links[0].Subnet != nil {
		t.Errorf("links %+v, %v", m.Interfaces[0].Links, err)
	}
	_, err = c.Deploy(t.Context(), sysid, maas.DeployOptions{Image: "ubuntu/noble"})
	checkFault(t, err, fault.Invalid, maas.CodeFieldErrors)
}
