package region

import (
	"encoding/base64"
	"strings"
	"time"
)

// What follows comes from a booted node: from the machines of this process, or
// over the metadata service from something real.

// Metadata reads one item of a machine's metadata.
func (r *Region) Metadata(systemID, item string) (string, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	m := r.bySystem[systemID]
	if m == nil {
		return "", missing("Machine")
	}
	switch item {
	case "instance-id":
		return m.SystemID, nil
	case "local-hostname":
		return m.FQDN(), nil
	case "vendor-data":
		return "#cloud-config\nsystem_info:\n  package_mirrors: []\n", nil
	case "public-keys":
		return "", nil
	case "":
		return "instance-id\nlocal-hostname\npublic-keys\nvendor-data", nil
	}
	return "", &RefusalError{Status: 404, Text: "No such metadata item: " + item, Missing: true}
}

const commissioningUserData = "Content-Type: multipart/mixed; boundary=\"===============0==\"\nMIME-Version: " +
	"1.0\n\n--===============0==\nContent-Type: text/x-shellscript; charset=\"utf-8\"\n\n#!/bin/sh\nexec " +
	"maas-run-remote-scripts\n\n--===============0==--\n"

// UserData returns the user data of a machine. A machine that is being deployed
// is Deployed from then on: MAAS does not know what cloud-init does with it.
func (r *Region) UserData(systemID string) ([]byte, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.bySystem[systemID]
	if m == nil {
		return nil, false, missing("Machine")
	}
	if m.Status.in(Deploying, Deployed, Allocated) {
		r.fetched(m)
		return m.userData(), m.HasUserData, nil
	}
	return []byte(commissioningUserData), true, nil
}

func (m *Machine) userData() []byte {
	if b, err := base64.StdEncoding.DecodeString(m.UserData); err == nil {
		return b
	}
	return []byte(m.UserData)
}

func (r *Region) fetched(m *Machine) {
	if m.Status != Deploying {
		return
	}
	now := r.clock.Now()
	for _, i := range r.state.Images {
		if os, series := i.system(); os == m.OSystem && series == m.DistroSeries {
			i.LastDeployed = now
		}
	}
	r.say(m, Info, "Image Deployed", "deployed "+m.OSystem+"/"+m.DistroSeries+"/"+m.Architecture)
	r.move(m, Deployed)
	r.say(m, Info, "Deployed", "")
	m.Ops++
	if m.EnableHWSync {
		m.LastSync = now
		r.scheduleSync(m)
	}
}

// NetbootOff makes the next boot come from the disk.
func (r *Region) NetbootOff(systemID string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.bySystem[systemID]
	if m == nil {
		return missing("Machine")
	}
	m.Netboot = false
	r.say(m, Debug, "Installation complete", "Node disabled netboot")
	r.changes++
	return nil
}

// Signal takes a node's report on commissioning, tests, erasing and syncing.
func (r *Region) Signal(systemID, status string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.bySystem[systemID]
	switch {
	case m == nil:
		return missing("Machine")
	case status == "":
		return badRequest("No provided status!")
	}
	r.changes++
	switch m.Status {
	case Commissioning:
		r.signalCommissioning(m, status)
	case Testing:
		r.signalTesting(m, status)
	case DiskErasing:
		switch status {
		case "OK":
			r.say(m, Info, "Disks erased", "")
		case "FAILED":
			r.fail(m, FailedDiskErasing, "Failed to erase disks.")
		}
	case EnteringRescue:
		switch status {
		case "OK":
			r.move(m, RescueMode)
			r.say(m, Info, "Rescue mode", "")
		case "FAILED":
			r.fail(m, FailedEnteringRescue, "Failed to enter rescue mode.")
		}
	case Deployed:
		switch {
		case !m.EnableHWSync:
		case status == "WORKING": // it brings no results
			r.ping(m)
		default:
			r.report(m)
		}
	default:
	}
	return nil
}

func (r *Region) signalCommissioning(m *Machine, status string) {
	switch status {
	case "WORKING":
		if s := r.sets[m.CommissioningSet]; s != nil {
			s.LastPing = r.clock.Now()
		}
	case "TESTING":
		r.finishSet(m.CommissioningSet, ScriptPassed)
		r.move(m, Testing) // MAAS says nothing of it, so the last message stays
	case "OK":
		r.finishSet(m.CommissioningSet, ScriptPassed)
		m.Owner = ""
		to := Ready
		if m.Enlisting {
			to = New
		}
		r.say(m, Info, to.String(), "")
		r.move(m, to)
		m.Ops++
	case "FAILED":
		// What the node reported as failed stays so; what did not run will not.
		r.finishSet(m.CommissioningSet, ScriptAborted)
		r.finishSet(m.TestingSet, ScriptAborted)
		r.say(m, Info, "Failed commissioning", "")
		r.move(m, FailedCommissioning)
		m.Ops++
	}
}

func (r *Region) signalTesting(m *Machine, status string) {
	switch status {
	case "OK":
		r.finishSet(m.TestingSet, ScriptPassed)
		to := Ready
		if m.OSystem != "" {
			to = Deployed
		} else {
			m.Owner = ""
		}
		r.say(m, Info, to.String(), "")
		r.move(m, to)
		m.Ops++
		if to == Deployed && m.EnableHWSync {
			r.scheduleSync(m)
		}
	case "FAILED":
		r.finishSet(m.TestingSet, ScriptFailed)
		r.say(m, Info, "Failed testing", "")
		r.move(m, FailedTesting)
		m.Ops++
	}
}

// Report is one line of curtin's or cloud-init's reporting.
type Report struct {
	Origin      string `json:"origin"`
	Name        string `json:"name"`
	EventType   string `json:"event_type"`
	Result      string `json:"result"`
	Description string `json:"description"`
	// Timestamp is when it happened on the node, in seconds. 0 means now.
	Timestamp float64 `json:"timestamp"`
}

func (r *Region) heard(m *Machine, p Report, level Level, kind, text string) {
	e := &Event{Level: level, Type: kind, Text: text, Action: p.Name}
	if p.Timestamp > 0 {
		e.At = time.UnixMilli(int64(p.Timestamp * 1000))
	}
	r.enter(m, e)
}

// stages are what MAAS shows people when curtin begins a stage.
var stages = map[string]string{
	"cmd-install/stage-partitioning": "Configuring storage",
	"cmd-install/stage-extract":      "Installing OS",
	"cmd-install/stage-curthooks":    "Configuring OS",
}

const installationFailed = "Installation failed (refer to the installation log for more information)."

// Receive takes a report of a node.
func (r *Region) Receive(systemID string, p Report) error {
	r.mu.Lock()
	m := r.bySystem[systemID]
	if m == nil {
		r.mu.Unlock()
		return missing("Machine")
	}
	r.receive(m, p)
	erased := m.Status == DiskErasing && p.Origin == "cloudinit" && p.Name == "modules-final" && p.EventType == "finish"
	running := false
	if erased {
		running = r.startReleasing(m, Caller{}, "")
	}
	r.mu.Unlock()
	if running {
		return r.powerOffForRelease(r.life, m, DiskErasing)
	}
	return nil
}

func (r *Region) receive(m *Machine, p Report) {
	r.changes++
	text := "'" + p.Origin + "' " + p.Description
	failed := p.Result == "FAIL" || p.Result == "FAILURE"
	switch {
	case m.Status == Deploying && p.Origin == "curtin":
		r.receiveCurtin(m, p, text, failed)
	case m.Status == Deployed && p.Result == "FAIL":
		r.heard(m, p, Error, "Node post-installation failure", text)
	case m.Status == Commissioning && failed:
		r.heard(m, p, Error, "Node commissioning failure", text)
		if p.Name == "modules-final" {
			r.finishSet(m.CommissioningSet, ScriptFailed)
			r.fail(m, FailedCommissioning,
				"Commissioning failed, cloud-init reported a failure (refer to the event log for more information)")
		}
	case m.Status == Commissioning:
		r.heard(m, p, Debug, "Node commissioning", text)
	}
}

func (r *Region) receiveCurtin(m *Machine, p Report, text string, failed bool) {
	if failed {
		r.heard(m, p, Error, "Node installation failure", text)
		if !strings.Contains(p.Name, "/") {
			r.finishSet(m.InstallationSet, ScriptFailed)
			r.fail(m, FailedDeployment, installationFailed)
		}
		return
	}
	if p.EventType == "start" {
		if said := stages[p.Name]; said != "" {
			r.heard(m, p, Info, said, "")
		}
	}
	r.heard(m, p, Debug, "Node installation", text)
	if p.Name == "cmd-install" && p.EventType == "start" {
		r.finishSet(m.InstallationSet, ScriptRunning)
		r.say(m, Debug, "Script result", "/tmp/install.log changed status from 'Pending' to 'Running'")
	}
}
