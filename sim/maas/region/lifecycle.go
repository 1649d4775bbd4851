package region

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// move changes a status and logs it.
func (r *Region) move(m *Machine, to Status) {
	if to == New || to == Ready && !m.Status.in(Commissioning, Testing) || to == Allocated && m.Status == Ready {
		r.takeToken(m) // the API key goes with the owner; commissioning leaves it
	}
	text := fmt.Sprintf("From '%s' to '%s'", m.Status, to)
	if to == Allocated && m.Owner != "" {
		text += " (to " + m.Owner + ")"
	}
	m.PreviousStatus, m.Status = m.Status, to
	r.say(m, Debug, "Node changed status", text)
	r.changes++
}

// step changes a status where MAAS checks the transition.
func (r *Region) step(m *Machine, to Status) error {
	if !Legal(m.Status, to) {
		return conflict("Invalid transition: %s -> %s.", m.Status, to)
	}
	r.move(m, to)
	return nil
}

// fail sets a failure status, as MAAS itself does.
func (r *Region) fail(m *Machine, to Status, reason string) {
	m.ErrorDescription = reason
	r.sayDuring(m, "mark_failed", Error, "Marking node failed", reason)
	r.move(m, to)
	m.Ops++
}

const cannotCommission = "Commission is not available because of the current state of the node."

// Commission starts commissioning. The record changes first and the BMC comes
// afterwards: if it fails, the storage and network configuration is gone all
// the same.
func (r *Region) Commission(ctx context.Context, c Caller, systemID string, f url.Values) (*MachineDoc, error) {
	r.mu.Lock()
	m, err := r.forAdmin(c, systemID)
	if err == nil {
		err = checkCommission(m, f)
	}
	if err != nil {
		r.mu.Unlock()
		return nil, err
	}
	was, state := m.Status, m.PowerState
	r.startCommissioning(m, c, f)
	doc := r.machineDoc(m)
	doc.PowerState = state
	r.mu.Unlock()
	if err := r.pause(ctx); err != nil {
		return nil, err
	}
	if err := r.cycle(ctx, m, "commission"); err != nil {
		r.change(func() {
			r.say(m, Warning, "Failed to query node's BMC",
				fmt.Sprintf("(%s) - Aborting COMMISSIONING and reverting to %s. Unable to power control the node. Please check "+
					"power credentials.", c.name(), strings.ToUpper(was.String())))
			r.finishSet(m.CommissioningSet, ScriptAborted)
			r.move(m, was)
			m.Ops++
		})
		return nil, powerFailure(err)
	}
	return doc, nil
}

func checkCommission(m *Machine, f url.Values) error {
	if !m.Status.in(New, FailedCommissioning, Ready, Broken) {
		return fieldError("__all__", cannotCommission)
	}
	if err := checkScripts(f, "commissioning_scripts", commissioningScripts); err != nil {
		return err
	}
	if err := checkScripts(f, "testing_scripts", testingScripts); err != nil {
		return err
	}
	if m.PowerType == "" {
		return &RefusalError{Status: http.StatusInternalServerError, Text: notConfigured}
	}
	return nil
}

func (r *Region) startCommissioning(m *Machine, c Caller, f url.Values) {
	m.SkipNetworking, m.SkipStorage, m.SkipBMCConfig = formBool(f, "skip_networking"), formBool(f, "skip_storage"),
		formBool(f, "skip_bmc_config")
	r.sayRequest(m, c, "User starting node commissioning", f.Get("comment"))
	r.say(m, Info, "Commissioning", "")
	m.Owner = c.name()
	r.move(m, Commissioning)
	m.Ops++
	m.Enlisting = false
	m.CommissioningSet = r.addSet(m, setCommissioning, commissioningScripts).ID
	tests := testsAsked(f)
	set := r.addSet(m, setTesting, tests)
	if m.RunTests = len(tests) > 0; m.RunTests { // without tests the earlier ones stay the current ones
		m.TestingSet = set.ID
	}
	if !m.SkipNetworking {
		for _, i := range m.Interfaces {
			r.dropLinks(m, i)
		}
	}
	if !m.SkipStorage {
		m.wipeLayout()
	}
	r.limit(m)
}

// limit starts MAAS's own time-out of the machine's present work.
func (r *Region) limit(m *Machine) {
	patience := time.Duration(r.number("node_timeout")) * time.Minute
	switch m.Status {
	case Commissioning:
		r.watch(m, "Commissioning", patience, FailedCommissioning)
	case Deploying:
		r.watch(m, "Deploying", 2*patience, FailedDeployment)
	default:
	}
}

// watch is MAAS's own time-out of an operation.
func (r *Region) watch(m *Machine, what string, limit time.Duration, to Status) {
	op, from := m.Ops, m.Status
	r.clock.AfterFunc(r.timing.scaled(limit), func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.closed || m.Ops != op || m.Status != from {
			return
		}
		reason := fmt.Sprintf("Node operation '%s' timed out after %d minutes.", what, int(limit.Minutes()))
		if from == Deploying {
			reason = "time-out during deployment"
		}
		m.Boots++
		r.fail(m, to, reason)
	})
}

// Accept starts commissioning of New machines and returns those it changed.
func (r *Region) Accept(ctx context.Context, c Caller, ids []string, all bool) ([]*MachineDoc, error) {
	r.mu.Lock()
	var unknown []string
	var chosen []*Machine
	for _, id := range ids {
		m := r.bySystem[id]
		if m == nil {
			unknown = append(unknown, id)
			continue
		}
		chosen = append(chosen, m)
	}
	if all {
		chosen = slices.Clone(r.state.Machines)
	}
	r.mu.Unlock()
	if len(unknown) > 0 {
		return nil, badRequest("Unknown machine(s): %s.", strings.Join(unknown, ", "))
	}
	if !c.User.Admin {
		return nil, &RefusalError{
			Status: http.StatusForbidden,
			Text: "You don't have the required permission to accept the following machine(s): " + strings.Join(ids, ", ") +
				".",
		}
	}
	changed := []*MachineDoc{}
	for _, m := range chosen {
		switch status := r.statusOf(m); {
		case status == New:
			doc, err := r.Commission(ctx, c, m.SystemID, url.Values{})
			if err != nil {
				return nil, err
			}
			changed = append(changed, doc)
		case !all && !status.in(Ready, Commissioning):
			return nil, conflict("Cannot accept node enlistment: node %s is in state %s.", m.SystemID, status)
		}
	}
	return changed, nil
}

func (r *Region) statusOf(m *Machine) Status {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return m.Status
}

// Deploy installs an image. It returns before the machine is even on: later
// failures show in the status.
func (r *Region) Deploy(c Caller, systemID string, f url.Values) (*MachineDoc, error) {
	r.mu.Lock()
	m, err := r.forEditing(c, systemID)
	var image *Image
	if err == nil {
		image, err = r.checkDeploy(m, c, f)
	}
	if err != nil {
		r.mu.Unlock()
		return nil, err
	}
	if m.Status == Ready {
		r.acquire(m, c, url.Values{"agent_name": f["agent_name"]})
	}
	r.install(m, image)
	if k := f.Get("hwe_kernel"); k != "" {
		m.HWEKernel = k
	}
	m.UserData, m.HasUserData = f.Get("user_data"), f.Get("user_data") != ""
	m.EnableHWSync, _ = wordBool(f, "enable_hw_sync")
	m.Ephemeral, _ = wordBool(f, "ephemeral_deploy")
	m.CrashDump, _ = wordBool(f, "enable_kernel_crash_dump")
	m.SyncInterval, m.LastSync = 0, time.Time{}
	if m.EnableHWSync {
		d, _ := parseInterval(r.text("hardware_sync_interval"))
		m.SyncInterval = int(d.Seconds())
	}
	r.sayRequest(m, c, "User starting deployment", f.Get("comment"))
	r.startDeploying(m)
	doc := r.machineDoc(m)
	r.mu.Unlock()
	r.launchDeployment(m)
	return doc, nil
}

func (r *Region) checkDeploy(m *Machine, c Caller, f url.Values) (*Image, error) {
	for _, name := range []string{
		"enable_hw_sync", "ephemeral_deploy", "enable_kernel_crash_dump", "install_kvm",
		"register_vmhost", "install_rackd",
	} {
		on, err := wordBool(f, name)
		if err != nil {
			return nil, err
		}
		if on && name == "install_rackd" {
			return nil, badRequest("Deploying a machine as a rackd has been disabled and it's not supported anymore.")
		}
	}
	if m.Owner != "" && m.Owner != c.name() && m.Status.in(Ready, Allocated) {
		return nil, conflict("Can't allocate a machine belonging to another user.")
	}
	if !m.Status.in(Ready, Allocated) {
		return nil, conflict("Can't deploy a machine that is in the '%s' state", m.Status)
	}
	image, err := r.resolveImage(f.Get("distro_series"))
	if err != nil {
		return nil, err
	}
	os, series := image.system()
	if k := f.Get("hwe_kernel"); k != "" && !slices.Contains(image.kernels(), k) {
		return nil, fieldError("hwe_kernel", fmt.Sprintf("%s is not available for %s/%s on %s.", k, os, series,
			m.Architecture))
	}
	if image.Architecture != m.Architecture {
		return nil, badRequest("Deployment operating system %s/%s is unavailable for %s.", os, series, m.Architecture)
	}
	return image, r.checkBootable(m, os)
}

func (r *Region) checkBootable(m *Machine, os string) error {
	attached, linked, leaseless := false, false, false
	for _, i := range m.Interfaces {
		attached = attached || i.VLAN != 0
		for _, l := range i.Links {
			subnet, _ := i.reach(l)
			linked = linked || subnet != 0 && l.Mode != "link_up"
			leaseless = leaseless || l.Mode == "dhcp" && subnet == 0
		}
	}
	switch {
	case !attached, leaseless && !linked:
		return bareFieldError("network", "Node must be configured to use a network")
	case !linked:
		return bareFieldError("network", "Node has no address family in common with the server")
	case slices.Contains([]string{"ubuntu", "centos", "rhel"}, os) && !m.hasRoot():
		return bareFieldError("storage", "Mount the root '/' filesystem to be able to deploy this node.")
	case m.PowerType == "":
		return &RefusalError{Status: http.StatusInternalServerError, Text: "Error determining BMC task queue for machine " +
			m.SystemID}
	}
	return nil
}

func (r *Region) install(m *Machine, i *Image) {
	m.OSystem, m.DistroSeries = i.system()
	if m.HWEKernel == "" { // an earlier choice stays until the release
		m.HWEKernel = i.Kernel
	}
}

func (r *Region) startDeploying(m *Machine) {
	m.Netboot, m.HoldsDisks = true, true
	r.move(m, Deploying)
	r.say(m, Info, "Deploying", "")
	m.Ops++
	m.InstallationSet = r.addSet(m, setInstallation, nil).ID
	r.limit(m)
}

// launchDeployment does what MAAS hands to its workflow engine: it takes
// addresses at once and switches the power on later.
func (r *Region) launchDeployment(m *Machine) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.claimAuto(m)
	if r.passive {
		return
	}
	r.powerUpSoon(m, "deploy", FailedDeployment)
}

// powerUpSoon switches a machine on for a recorded operation, unless its state
// has changed by then.
func (r *Region) powerUpSoon(m *Machine, operation string, failed Status) {
	op, at := m.Ops, m.Status
	r.clock.AfterFunc(r.timing.draw(r.rng, PhaseBMC), func() { r.powerUp(m, op, at, operation, failed) })
}

func (r *Region) claimAuto(m *Machine) {
	for _, i := range m.Interfaces {
		for _, l := range i.Links {
			s := r.subnet(l.Subnet)
			if l.Mode != "auto" && l.Mode != "dhcp" || l.IP != "" || s == nil {
				continue
			}
			if ip, err := r.claim(s); err == nil {
				l.IP = ip
			}
		}
	}
}

func (r *Region) powerUp(m *Machine, op int, at Status, operation string, failed Status) {
	r.mu.Lock()
	current := !r.closed && m.Ops == op && m.Status == at
	if current {
		r.steps.Add(1)
	}
	r.mu.Unlock()
	if !current {
		return
	}
	defer r.steps.Done()
	if err := r.cycle(r.life, m, operation); err != nil {
		r.change(func() {
			r.say(m, Error, "Failed to power on node", err.Error())
			r.fail(m, failed, err.Error())
		})
	}
}
