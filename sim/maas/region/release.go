package region

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"
)

const releaseLimit = 5 * time.Minute

// Release releases a machine, and erases its disks first if asked to.
func (r *Region) Release(ctx context.Context, c Caller, systemID string, f url.Values) (*MachineDoc, error) {
	r.mu.Lock()
	m, err := r.forEditing(c, systemID)
	if err == nil {
		err = checkScripts(f, "scripts", releaseScripts)
	}
	if err == nil && !m.Status.releasable() && !m.Status.in(Ready, Releasing) {
		err = conflict("Machine cannot be released in its current state ('%s').", m.Status)
	}
	if err != nil {
		r.mu.Unlock()
		return nil, err
	}
	if m.Status.in(Ready, Releasing) {
		defer r.mu.Unlock()
		return r.machineDoc(m), nil
	}
	if formBool(f, "erase") || f.Get("scripts") != "" || f.Get("erase") == "" && r.flag("enable_disk_erasing_on_release") {
		return r.erase(ctx, m, c, f)
	}
	was := m.Status
	running := r.startReleasing(m, c, f.Get("comment"))
	doc := r.machineDoc(m)
	r.mu.Unlock()
	if !running {
		return doc, nil
	}
	if err := r.powerOffForRelease(ctx, m, was); err != nil {
		return nil, err
	}
	return doc, nil
}

// erase boots the machine to wipe its disks. It is called with the lock held.
func (r *Region) erase(ctx context.Context, m *Machine, c Caller, f url.Values) (*MachineDoc, error) {
	was, op := m.Status, 0
	r.sayRequest(m, c, "User erasing disk", f.Get("comment"))
	r.move(m, DiskErasing)
	m.Ops++
	op = m.Ops
	doc := r.machineDoc(m)
	r.mu.Unlock()
	if err := r.pause(ctx); err != nil {
		return nil, err
	}
	if err := r.cycle(ctx, m, "release"); err != nil {
		r.change(func() {
			if m.Ops == op {
				r.move(m, was)
			}
		})
		return nil, powerFailure(err)
	}
	return doc, nil
}

// startReleasing resets what a release resets at once. It returns whether the
// power must still go off; if the machine is off already, the release is done.
func (r *Region) startReleasing(m *Machine, c Caller, comment string) bool {
	if c.User == nil {
		r.say(m, Debug, "User releasing node", "")
	} else {
		r.sayRequest(m, c, "User releasing node", comment)
	}
	r.move(m, Releasing)
	r.say(m, Info, "Releasing", "")
	m.Ops++
	m.AgentName, m.OSystem, m.DistroSeries, m.HWEKernel = "", "", "", ""
	m.EnableHWSync, m.SyncInterval, m.LastSync, m.Netboot = false, 0, time.Time{}, true
	m.HoldsDisks = false
	if m.PowerState == "off" || !m.controllable() {
		r.finishRelease(m)
		return false
	}
	return true
}

// powerOffForRelease switches the machine off and, once the BMC reports it,
// completes the release. If the BMC refuses, the old status stays, but the old
// system is gone.
func (r *Region) powerOffForRelease(ctx context.Context, m *Machine, was Status) error {
	if err := r.pause(ctx); err != nil {
		return err
	}
	if err := r.power(ctx, m, false, "release"); err != nil {
		r.change(func() {
			if m.Status == Releasing {
				r.move(m, was)
			}
		})
		return powerFailure(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	fate := r.mischief.Phase(m.ref("release"), PhasePowerOff)
	if fate.Hang || fate.Fail {
		m.PowerState = "on"
		r.watch(m, "Releasing", releaseLimit, FailedReleasing)
		return nil
	}
	d := r.timing.draw(r.rng, PhasePowerOff) + fate.Delay
	if d <= 0 {
		r.finishRelease(m)
		return nil
	}
	op := m.Ops
	r.watch(m, "Releasing", releaseLimit, FailedReleasing)
	r.clock.AfterFunc(d, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.closed && m.Ops == op && m.Status == Releasing {
			r.finishRelease(m)
		}
	})
	return nil
}

func (r *Region) finishRelease(m *Machine) {
	if m.Status != Releasing {
		return
	}
	m.Owner, m.Annotations = "", nil
	r.freeAuto(m)
	to := Ready
	if s := r.setStatus(m.CommissioningSet); m.commissioned() && s != ScriptPassed {
		to = New
	}
	r.move(m, to)
	r.say(m, Info, "Released", "")
	m.Ops++
}

func (r *Region) freeAuto(m *Machine) {
	for _, i := range m.Interfaces {
		for _, l := range i.Links {
			if l.Mode == "auto" || l.Mode == "dhcp" {
				r.free(l.IP)
				l.IP = ""
			}
		}
	}
}

// ReleaseAll releases several machines and returns the ids of those it released.
func (r *Region) ReleaseAll(ctx context.Context, c Caller, f url.Values) ([]string, error) {
	var refused, ids []string
	r.mu.RLock()
	for _, id := range f["machines"] {
		m := r.bySystem[id]
		switch {
		case m == nil:
			r.mu.RUnlock()
			return nil, badRequest("Unknown machine(s): %s.", id)
		case m.Status.releasable():
			ids = append(ids, id)
		case !m.Status.in(Ready, Releasing):
			refused = append(refused, fmt.Sprintf("%s ('%s')", id, m.Status))
		}
	}
	r.mu.RUnlock()
	if len(refused) > 0 {
		return nil, conflict("Machine(s) cannot be released in their current state: %s.", strings.Join(refused, ", "))
	}
	released := []string{}
	for _, id := range ids {
		if _, err := r.Release(ctx, c, id, url.Values{"comment": f["comment"]}); err != nil {
			return nil, err
		}
		released = append(released, id)
	}
	return released, nil
}

type abortion struct {
	asked, said string
	to          func(m *Machine) Status
}

func always(s Status) func(*Machine) Status { return func(*Machine) Status { return s } }

var abortions = map[Status]abortion{
	Commissioning: {"User aborting node commissioning", "Aborted commissioning", always(New)},
	Deploying:     {"User aborting deployment", "Aborted deployment", always(Allocated)},
	DiskErasing:   {"User aborting disk erase", "Aborted disk erasing", always(FailedDiskErasing)},
	Testing: {"User aborting node testing", "Aborted testing", func(m *Machine) Status {
		if m.PreviousStatus == Commissioning {
			return Ready
		}
		return m.PreviousStatus
	}},
}

// Abort stops what a machine is doing. The answer still shows the old status.
func (r *Region) Abort(ctx context.Context, c Caller, systemID string, f url.Values) (*MachineDoc, error) {
	r.mu.Lock()
	m, err := r.forEditing(c, systemID)
	if err != nil {
		r.mu.Unlock()
		return nil, err
	}
	a, ok := abortions[m.Status]
	if !ok {
		defer r.mu.Unlock()
		return nil, conflict("Cannot abort in current state: node %s is in state %s.", m.SystemID, m.Status)
	}
	was := m.Status
	r.sayRequest(m, c, a.asked, f.Get("comment"))
	r.say(m, Info, a.said, "")
	m.Ops++
	set := m.InstallationSet
	if was == Commissioning {
		m.Owner, set = "", m.CommissioningSet
	}
	r.changes++
	doc := r.machineDoc(m)
	to := a.to(m)
	r.mu.Unlock()
	if r.canSwitch(m) {
		if err := r.pause(ctx); err != nil {
			return nil, err
		}
		if err := r.power(ctx, m, false, "abort"); err != nil {
			return nil, powerFailure(err)
		}
	}
	r.change(func() {
		if was == Commissioning || was == Deploying {
			r.finishSet(set, ScriptAborted)
		}
		if m.Status == was {
			r.move(m, to)
		}
	})
	return doc, nil
}

// MarkBroken takes a machine from its owner. Only the owner may do that.
func (r *Region) MarkBroken(ctx context.Context, c Caller, systemID string, f url.Values) (*MachineDoc, error) {
	r.mu.Lock()
	m, err := r.forReading(c, systemID)
	switch {
	case err != nil:
	case m.Owner != c.name() || m.Locked:
		err = forbidden()
	case !m.Status.releasable() && !Legal(m.Status, Broken):
		err = conflict("Invalid transition: %s -> %s.", m.Status, Broken)
	}
	if err != nil {
		r.mu.Unlock()
		return nil, err
	}
	was := m.Status
	running := r.startBreaking(m, c, f.Get("comment"))
	doc := r.laggingDoc(m, was)
	r.mu.Unlock()
	if !running {
		return doc, nil
	}
	if err := r.pause(ctx); err != nil {
		return nil, err
	}
	if err := r.power(ctx, m, false, "mark_broken"); err != nil {
		return nil, powerFailure(err)
	}
	r.change(func() { r.freeAuto(m) })
	return doc, nil
}

// startBreaking returns whether the power must still go off.
func (r *Region) startBreaking(m *Machine, c Caller, comment string) (running bool) {
	m.WasDeployed = m.Status == Deployed
	r.sayRequest(m, c, "User marking node broken", comment)
	if m.Status.releasable() && m.Status != Broken {
		running = r.startReleasing(m, c, comment)
	}
	m.ErrorDescription = comment
	r.move(m, Broken)
	m.Ops++
	return running
}

// MarkFixed ends Broken. A machine that was Deployed is shown as Deployed
// again, without a system on it.
func (r *Region) MarkFixed(c Caller, systemID string, f url.Values) (*MachineDoc, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, err := r.forAdmin(c, systemID)
	switch {
	case err != nil:
		return nil, err
	case m.Status != Broken:
		return nil, conflict("Can't mark a non-broken node as 'Ready'.")
	}
	r.fix(m, c, f.Get("comment"))
	return r.laggingDoc(m, Broken), nil
}

func (r *Region) fix(m *Machine, c Caller, comment string) {
	r.sayRequest(m, c, "User marking node fixed", comment)
	to := Ready
	if m.WasDeployed {
		to = Deployed
	}
	m.ErrorDescription, m.InstallationSet, m.WasDeployed = "", 0, false
	r.move(m, to)
	m.Ops++
}

// OverrideFailedTesting lets a machine be used although its tests failed.
func (r *Region) OverrideFailedTesting(c Caller, systemID string, f url.Values) (*MachineDoc, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, err := r.forAdmin(c, systemID)
	switch {
	case err != nil:
		return nil, err
	case m.Status != FailedTesting:
		return nil, conflict("Unable to override node status. Node is not in 'Failed testing' status.")
	}
	r.override(m, c, f.Get("comment"))
	return r.machineDoc(m), nil
}

func (r *Region) override(m *Machine, c Caller, comment string) {
	r.sayRequest(m, c, "User overrode 'Failed testing' status", comment)
	to := Ready
	if m.OSystem != "" {
		to = Deployed
	} else {
		m.Owner = ""
	}
	m.ErrorDescription = ""
	r.move(m, to)
	if to == Deployed && m.EnableHWSync { // the tests ended it
		r.scheduleSync(m)
	}
}

// Test runs the tests alone.
func (r *Region) Test(ctx context.Context, c Caller, systemID string, f url.Values) (*MachineDoc, error) {
	r.mu.Lock()
	m, err := r.forAdmin(c, systemID)
	switch {
	case err != nil:
	case m.Status.in(Commissioning, Deploying, Releasing, DiskErasing, Testing, EnteringRescue, ExitingRescue):
		err = fieldError("__all__", "Test is not available because of the current state of the node.")
	default:
		err = checkScripts(f, "testing_scripts", testingScripts)
	}
	if err != nil {
		r.mu.Unlock()
		return nil, err
	}
	r.sayRequest(m, c, "User starting node testing", f.Get("comment"))
	r.move(m, Testing)
	r.say(m, Info, "Testing", "")
	m.Ops++
	m.TestingSet = r.addSet(m, setTesting, testsAsked(f)).ID
	r.watch(m, "Testing", time.Duration(r.number("node_timeout"))*time.Minute, FailedTesting)
	doc := r.machineDoc(m)
	r.mu.Unlock()
	return doc, r.cycleOr(ctx, m, "test")
}

func (r *Region) cycleOr(ctx context.Context, m *Machine, operation string) error {
	if err := r.pause(ctx); err != nil {
		return err
	}
	if err := r.cycle(ctx, m, operation); err != nil {
		return powerFailure(err)
	}
	return nil
}

// Rescue boots a machine into rescue mode or out of it.
func (r *Region) Rescue(ctx context.Context, c Caller, systemID string, enter bool) (*MachineDoc, error) {
	r.mu.Lock()
	m, err := r.forAdmin(c, systemID)
	to := EnteringRescue
	if !enter {
		to = ExitingRescue
	}
	if err == nil {
		from := m.Status
		if err = r.step(m, to); err == nil && enter {
			m.RescuedFrom = from
		}
	}
	if err != nil {
		r.mu.Unlock()
		return nil, err
	}
	if enter {
		r.say(m, Info, "Entering rescue mode", "")
	}
	m.Ops++
	doc := r.machineDoc(m)
	r.mu.Unlock()
	if err := r.cycleOr(ctx, m, "rescue_mode"); err != nil {
		return nil, err
	}
	if r.passive && !enter { // MAAS itself ends it; the node has no part in that
		r.change(func() { r.leaveRescue(m) })
	}
	return doc, nil
}

func (r *Region) leaveRescue(m *Machine) {
	r.move(m, m.RescuedFrom)
	r.say(m, Info, "Exited rescue mode", "")
}
