package region

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ScriptStatus is the state of one script.
type ScriptStatus int

// The script states that the simulator uses.
const (
	ScriptPending ScriptStatus = 0
	ScriptRunning ScriptStatus = 1
	ScriptPassed  ScriptStatus = 2
	ScriptFailed  ScriptStatus = 3
	ScriptAborted ScriptStatus = 5
)

var scriptStatusNames = map[ScriptStatus]string{
	-1: "Unknown", ScriptPending: "Pending", ScriptRunning: "Running",
	ScriptPassed: "Passed", ScriptFailed: "Failed", 4: "Timed out", ScriptAborted: "Aborted",
}

// The kinds of script sets.
const (
	setCommissioning = 0
	setInstallation  = 1
	setTesting       = 2
)

var setNames = map[int]string{setCommissioning: "Commissioning", setInstallation: "Installation", setTesting: "Testing"}

// ScriptSet is one run of scripts on a machine.
type ScriptSet struct {
	ID       int
	Machine  string
	Kind     int
	Created  time.Time
	Updated  time.Time
	Started  time.Time
	Ended    time.Time
	LastPing time.Time
	Scripts  []*Script
	Ran      bool // a node really ran them; MAAS can also be told of an end without
}

// Script is one script of a run.
type Script struct {
	ID, ScriptID int
	Name         string
	Status       ScriptStatus
}

var commissioningScripts = []string{
	"20-maas-01-install-lldpd", "20-maas-02-dhcp-unconfigured-ifaces", "20-maas-03-machine-resources",
	"30-maas-01-bmc-config",
	"40-maas-01-machine-config-hints", "50-maas-01-commissioning", "maas-capture-lldpd", "maas-get-fruid-api-data",
	"maas-kernel-cmdline",
	"maas-list-modaliases", "maas-lshw", "maas-serial-ports", "maas-support-info",
}

var testingScripts = []string{
	"smartctl-validate", "smartctl-short", "smartctl-long", "smartctl-conveyance",
	"stress-ng-cpu-long", "stress-ng-cpu-short", "stress-ng-memory-long", "stress-ng-memory-short", "memtester",
	"badblocks", "7z", "fio", "ntp", "internet-connectivity", "gateway-connectivity", "rack-controller-connectivity",
}

var releaseScripts = []string{"wipe-disks"}

// NodeScriptDoc is a script that MAAS keeps, on the wire.
type NodeScriptDoc struct {
	ID       int                 `json:"id"`
	Name     string              `json:"name"`
	Type     int                 `json:"type"`
	TypeName string              `json:"type_name"`
	Default  bool                `json:"default"`
	Tags     []string            `json:"tags"`
	History  []ScriptRevisionDoc `json:"history"`
}

// ScriptRevisionDoc is one upload of a script, on the wire.
type ScriptRevisionDoc struct {
	ID      int    `json:"id"`
	Comment string `json:"comment"`
}

// NodeScripts lists the scripts that the region comes with.
func (r *Region) NodeScripts() []NodeScriptDoc {
	var out []NodeScriptDoc
	for _, kind := range []struct {
		number int
		name   string
		names  []string
	}{
		{0, "Commissioning script", commissioningScripts},
		{2, "Testing script", testingScripts},
		{3, "Release script", releaseScripts},
	} {
		for _, name := range kind.names {
			n := len(out) + 1
			out = append(out, NodeScriptDoc{
				ID: n, Name: name, Type: kind.number, TypeName: kind.name, Default: true, Tags: []string{},
				History: []ScriptRevisionDoc{{ID: n, Comment: "Created by maas-" + Version}},
			})
		}
	}
	return out
}

// testsAsked returns the tests of a form: the default one unless named, or
// none.
func testsAsked(f url.Values) []string {
	given, ok := f["testing_scripts"]
	if !ok {
		return []string{"smartctl-validate"}
	}
	names := strings.FieldsFunc(strings.Join(given, ","), func(c rune) bool { return c == ',' })
	return slices.DeleteFunc(names, func(n string) bool { return n == "none" })
}

func checkScripts(f url.Values, field string, known []string) error {
	for _, name := range strings.FieldsFunc(strings.Join(f[field], ","), func(c rune) bool { return c == ',' }) {
		if name != "none" && !slices.Contains(known, name) {
			return choice(field, name)
		}
	}
	return nil
}

func (r *Region) addSet(m *Machine, kind int, names []string) *ScriptSet {
	now := r.clock.Now()
	s := &ScriptSet{ID: r.id("scriptset"), Machine: m.SystemID, Kind: kind, Created: now, Updated: now}
	for n, name := range names {
		s.Scripts = append(s.Scripts, &Script{ID: r.id("script"), ScriptID: n + 1, Name: name})
	}
	r.state.Sets = append(r.state.Sets, s)
	r.sets[s.ID] = s
	m.SetIDs = append(m.SetIDs, s.ID)
	r.prune(m, kind)
	if kind == setInstallation {
		s.Scripts = []*Script{{ID: r.id("script"), Name: "/tmp/install.log"}}
	}
	return s
}

// prune drops the oldest runs of a kind beyond the number that the settings
// keep.
func (r *Region) prune(m *Machine, kind int) {
	var same []int
	for _, id := range m.SetIDs {
		if r.sets[id].Kind == kind {
			same = append(same, id)
		}
	}
	most := r.number("max_node_" + strings.ToLower(setNames[kind]) + "_results")
	for len(same) > max(most, 1) {
		old := same[0]
		same = same[1:]
		delete(r.sets, old)
		m.SetIDs = slices.DeleteFunc(m.SetIDs, func(id int) bool { return id == old })
		r.state.Sets = slices.DeleteFunc(r.state.Sets, func(s *ScriptSet) bool { return s.ID == old })
	}
}

// beginSet lets a machine begin with the first script of a run.
func (r *Region) beginSet(id int) {
	if s := r.sets[id]; s != nil && len(s.Scripts) > 0 {
		s.Started, s.Scripts[0].Status = r.clock.Now(), ScriptRunning
	}
}

// finishSet ends the scripts of a run that have not ended.
func (r *Region) finishSet(id int, status ScriptStatus) {
	s := r.sets[id]
	if s == nil {
		return
	}
	now := r.clock.Now()
	s.Updated = now
	for _, x := range s.Scripts {
		if x.Status == ScriptPending || x.Status == ScriptRunning {
			x.Status = status
		}
	}
	switch status {
	case ScriptPassed:
		if s.Started.IsZero() {
			s.Started = now
		}
		s.Ended, s.LastPing = now, now
	case ScriptRunning:
		s.Started = now
	case ScriptPending, ScriptFailed, ScriptAborted:
	}
}

func (r *Region) setStatus(id int) ScriptStatus {
	s := r.sets[id]
	if s == nil || len(s.Scripts) == 0 {
		return -1
	}
	for _, status := range []ScriptStatus{ScriptRunning, ScriptPending, ScriptFailed, ScriptAborted} {
		if slices.ContainsFunc(s.Scripts, func(x *Script) bool { return x.Status == status }) {
			return status
		}
	}
	return ScriptPassed
}

// failScript notes that a node reported the failure of a script.
func (r *Region) failScript(id int, name string) {
	if s := r.sets[id]; s != nil {
		for _, x := range s.Scripts {
			if x.Name == name {
				x.Status = ScriptFailed
			}
		}
	}
}

// summary returns the status that a machine shows for a run. There is none
// while the run is pending.
func (r *Region) summary(id int) ScriptStatus {
	s := r.setStatus(id)
	if s == ScriptAborted {
		return -1
	}
	return s
}

func mailDate(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format("Mon, 02 Jan 2006 15:04:05 +0000")
}

func (r *Region) setDoc(s *ScriptSet, output bool) map[string]any {
	results := []map[string]any{}
	for _, x := range s.Scripts {
		d := map[string]any{
			"id": x.ID, "created": mailDate(s.Created), "updated": mailDate(s.Updated), "name": x.Name, "status": int(x.Status),
			"status_name": scriptStatusNames[x.Status], "exit_status": exitStatus(s, x.Status), "started": mailDate(s.Started),
			"ended":   mailDate(s.Ended),
			"runtime": runtime(s), "starttime": epoch(s.Started), "endtime": epoch(s.Ended), "estimated_runtime": "0:00:00",
			"parameters": map[string]any{},
			"script_id":  x.ScriptID, "script_revision_id": nil, "suppressed": false,
		}
		if s.Kind == setInstallation {
			d["script_id"] = nil
		}
		if output {
			d["output"], d["stdout"], d["stderr"], d["result"] = "", "", "", ""
		}
		results = append(results, d)
	}
	status := r.setStatus(s.ID)
	name := scriptStatusNames[status]
	if len(s.Scripts) == 0 {
		name = "Failed to apply custom network configuration" // MAAS's words for an empty run
	}
	return map[string]any{
		"id": s.ID, "system_id": s.Machine, "type": s.Kind, "type_name": setNames[s.Kind], "last_ping": mailDate(s.LastPing),
		"status":      int(status),
		"status_name": name, "started": mailDate(s.Started), "ended": mailDate(s.Ended), "runtime": runtime(s),
		"results":      results,
		"resource_uri": fmt.Sprintf("/MAAS/api/2.0/nodes/%s/results/%d/", s.Machine, s.ID),
	}
}

func exitStatus(s *ScriptSet, status ScriptStatus) any {
	switch {
	case s.Ran && status == ScriptPassed:
		return 0
	case s.Ran && status == ScriptFailed:
		return 1
	}
	return nil
}

// epoch returns a time in seconds, or an empty text.
func epoch(t time.Time) any {
	if t.IsZero() {
		return ""
	}
	return float(float64(t.UnixMilli()) / 1000)
}

func (r *Region) markRun(id int) {
	if s := r.sets[id]; s != nil {
		s.Ran = true
	}
}

func runtime(s *ScriptSet) string {
	if s.Started.IsZero() || s.Ended.IsZero() {
		return ""
	}
	d := s.Ended.Sub(s.Started).Round(time.Second)
	return fmt.Sprintf("%d:%02d:%02d", int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60)
}

// Results lists the script runs of a machine.
func (r *Region) Results(c Caller, systemID string, q url.Values) (any, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	m, err := r.forReading(c, systemID)
	if err != nil {
		return nil, err
	}
	output, err := wordBool(q, "include_output")
	if err != nil {
		return nil, err
	}
	kind := strings.ToLower(q.Get("type"))
	list := []map[string]any{}
	for _, id := range m.SetIDs {
		if s := r.sets[id]; s != nil && (kind == "" || strings.ToLower(setNames[s.Kind]) == kind) {
			list = append(list, r.setDoc(s, output))
		}
	}
	return list, nil
}

// Result reads one run by its id or as current-commissioning and the like.
func (r *Region) Result(c Caller, systemID, which string, q url.Values) (any, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	m, err := r.forReading(c, systemID)
	if err != nil {
		return nil, err
	}
	output, err := wordBool(q, "include_output")
	if err != nil {
		return nil, err
	}
	id, _ := strconv.Atoi(which)
	switch which {
	case "current-commissioning":
		id = m.CommissioningSet
	case "current-testing":
		id = m.TestingSet
	case "current-installation":
		id = m.InstallationSet
	}
	s := r.sets[id]
	if s == nil || s.Machine != m.SystemID {
		return nil, missing("ScriptSet")
	}
	return r.setDoc(s, output), nil
}
