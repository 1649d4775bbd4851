package region

import (
	"time"
)

// phase is one part of a machine's work. After its time has passed, done is
// called, or failed if mischief wants a failure.
type phase struct {
	name   string
	begin  func(m *Machine)
	done   func(m *Machine)
	failed func(m *Machine, text string) // nil: the machine just falls silent
}

// boot makes a machine that was switched on do what its status asks for. The
// lock must be held.
func (r *Region) boot(m *Machine) {
	m.Boots++
	if r.passive {
		return
	}
	if m.Hardware != nil {
		m.Hardware.Powered = true
	}
	switch m.Status {
	case Commissioning:
		r.run(m, "commission", r.commissioningPhases(m))
	case Testing:
		r.run(m, "test", r.testingPhases(m))
	case Deploying:
		r.run(m, "deploy", r.deployingPhases(m))
	case DiskErasing:
		r.run(m, "release", r.erasingPhases(m))
	case EnteringRescue:
		r.run(m, "rescue_mode", []phase{r.netboot("rescue mode"), {name: PhaseRescue, done: func(m *Machine) {
			r.move(m, RescueMode)
			r.say(m, Info, "Rescue mode", "")
		}, failed: func(m *Machine, _ string) { r.fail(m, FailedEnteringRescue, "Failed to enter rescue mode.") }}})
	case ExitingRescue:
		r.run(m, "rescue_mode", []phase{{name: PhaseRescue, done: r.leaveRescue}})
	case Deployed:
		r.run(m, "boot", []phase{{name: PhaseReboot, done: func(m *Machine) {
			r.say(m, Debug, "PXE Request", "local boot")
			r.startMetal(m)
			if m.EnableHWSync {
				r.scheduleSync(m)
			}
		}}})
	default:
	}
}

// run takes a machine through phases until it is done, switched off, or failed.
func (r *Region) run(m *Machine, operation string, phases []phase) {
	if len(phases) == 0 {
		return
	}
	p, boot := phases[0], m.Boots
	if p.begin != nil {
		p.begin(m)
	}
	fate := r.mischief.Phase(m.ref(operation), p.name)
	if fate.Hang || fate.Fail && p.failed == nil {
		return
	}
	r.clock.AfterFunc(r.timing.draw(r.rng, p.name)+fate.Delay, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.closed || m.Boots != boot || r.bySystem[m.SystemID] != m {
			return
		}
		r.changes++
		if fate.Fail {
			p.failed(m, fate.Text)
			return
		}
		p.done(m)
		if m.Boots == boot {
			r.run(m, operation, phases[1:])
		}
	})
}

func (r *Region) netboot(purpose string) phase {
	return phase{name: PhasePXE, done: func(m *Machine) {
		r.say(m, Debug, "PXE Request", purpose)
		r.say(m, Info, "Performing PXE boot", "")
		if !r.mischief.Phase(m.ref(purpose), PhaseToken).Fail {
			r.giveToken(m)
		}
	}}
}

func (r *Region) ephemeral() phase {
	return phase{name: PhaseEphemeral, done: func(m *Machine) { r.say(m, Info, "Loading ephemeral", "") }}
}

func (r *Region) commissioningPhases(m *Machine) []phase {
	purpose := "commissioning"
	if m.Enlisting {
		purpose = "enlist"
	}
	list := []phase{r.netboot(purpose), r.ephemeral(), {
		name: PhaseScripts,
		begin: func(m *Machine) {
			r.say(m, Info, "Gathering information", "")
			r.beginSet(m.CommissioningSet)
		},
		done: func(m *Machine) {
			r.inspect(m)
			r.takeBMC(m)
			r.markRun(m.CommissioningSet)
			if m.RunTests {
				r.signalCommissioning(m, "TESTING")
				return
			}
			r.signalCommissioning(m, "OK")
			r.shutdown(m)
		},
		failed: func(m *Machine, text string) {
			if text == "" {
				text = "50-maas-01-commissioning failed"
			}
			r.say(m, Info, "Script", text)
			r.markRun(m.CommissioningSet)
			r.failScript(m.CommissioningSet, "50-maas-01-commissioning")
			r.signalCommissioning(m, "FAILED")
		},
	}}
	if m.RunTests {
		list = append(list, r.testPhase())
	}
	return list
}

func (r *Region) testingPhases(*Machine) []phase {
	return []phase{r.netboot("commissioning"), r.ephemeral(), r.testPhase()}
}

func (r *Region) testPhase() phase {
	return phase{
		name:  PhaseTests,
		begin: func(m *Machine) { r.say(m, Info, "Running test", "smartctl-validate") },
		done: func(m *Machine) {
			r.markRun(m.TestingSet)
			r.signalTesting(m, "OK")
			r.shutdown(m)
		},
		failed: func(m *Machine, text string) {
			if text == "" {
				text = "smartctl-validate failed"
			}
			r.say(m, Info, "Script", text)
			r.markRun(m.TestingSet)
			r.signalTesting(m, "FAILED")
		},
	}
}

// shutdown acts as a node that switches itself off when its work is done.
func (r *Region) shutdown(m *Machine) {
	if m.Status != Ready && m.Status != New {
		return
	}
	m.PowerState = "off"
	m.Boots++
	if m.Hardware != nil {
		m.Hardware.Powered = false
	}
	r.say(m, Debug, "Node powered off", "")
}

func (r *Region) curtin(name, eventType, result, text string) func(*Machine) {
	return func(m *Machine) {
		r.receive(m, Report{Origin: "curtin", Name: name, EventType: eventType, Result: result, Description: text})
	}
}

// installFailure makes a stage of curtin fail, and the installation with it.
func (r *Region) installFailure(stage, text string) func(*Machine, string) {
	return func(m *Machine, said string) {
		if said == "" {
			said = text
		}
		r.curtin(stage, "finish", "FAIL", said)(m)
		r.curtin("cmd-install", "finish", "FAIL", "curtin command install")(m)
	}
}

func (r *Region) deployingPhases(m *Machine) []phase {
	if !m.Netboot {
		return r.firstBoot()
	}
	return append([]phase{
		r.netboot("installation"),
		r.ephemeral(),
		{
			name: PhaseStorage,
			begin: func(m *Machine) {
				r.curtin("cmd-install", "start", "", "curtin command install")(m)
				r.curtin("cmd-install/stage-partitioning", "start", "", "configuring storage")(m)
			},
			done:   r.curtin("cmd-install/stage-partitioning", "finish", "SUCCESS", "configuring storage"),
			failed: r.installFailure("cmd-install/stage-partitioning", "configuring storage"),
		},
		{
			name:   PhaseInstall,
			begin:  r.curtin("cmd-install/stage-extract", "start", "", "acquiring and extracting image"),
			done:   r.curtin("cmd-install/stage-extract", "finish", "SUCCESS", "acquiring image"),
			failed: r.installFailure("cmd-install/stage-extract", "acquiring image"),
		},
		{
			name:  PhaseConfigure,
			begin: r.curtin("cmd-install/stage-curthooks", "start", "", "configuring installed system"),
			done: func(m *Machine) {
				r.curtin("cmd-install", "finish", "SUCCESS", "curtin command install")(m)
				r.finishSet(m.InstallationSet, ScriptPassed)
				m.Netboot = false
				r.say(m, Debug, "Installation complete", "Node disabled netboot")
				r.say(m, Info, "Rebooting", "")
			},
			failed: r.installFailure("cmd-install/stage-curthooks", "configuring installed system"),
		},
	}, r.firstBoot()...)
}

// firstBoot is the installed system coming up. If its datasource fails, the
// machine just stays silent until MAAS's time limit.
func (r *Region) firstBoot() []phase {
	return []phase{
		{name: PhaseReboot, done: func(m *Machine) { r.say(m, Debug, "PXE Request", "local boot") }},
		{name: PhaseDatasource, done: func(m *Machine) {
			r.startMetal(m)
			if !r.metal.Fetches() {
				r.fetched(m)
			}
		}},
		{name: PhaseFinal, done: func(*Machine) {}, failed: func(m *Machine, text string) {
			if text == "" {
				text = "running modules for final"
			}
			r.receive(m, Report{
				Origin: "cloudinit", Name: "modules-final", EventType: "finish", Result: "FAIL",
				Description: text,
			})
		}},
	}
}

func (r *Region) erasingPhases(*Machine) []phase {
	return []phase{r.netboot("commissioning"), r.ephemeral(), {
		name: PhaseErase,
		done: func(m *Machine) {
			r.say(m, Info, "Disks erased", "")
			r.eraseMetal(m.SystemID)
			if !r.startReleasing(m, Caller{}, "") {
				return
			}
			op := m.Ops
			r.clock.AfterFunc(0, func() { r.offAfterErase(m, op) })
		},
		failed: func(m *Machine, _ string) { r.fail(m, FailedDiskErasing, "Failed to erase disks.") },
	}}
}

func (r *Region) offAfterErase(m *Machine, op int) {
	r.mu.Lock()
	current := !r.closed && m.Ops == op && m.Status == Releasing
	if current {
		r.steps.Add(1)
	}
	r.mu.Unlock()
	if !current {
		return
	}
	defer r.steps.Done()
	if err := r.power(r.life, m, false, "release"); err != nil {
		r.change(func() { r.fail(m, FailedReleasing, "Failed to release machine.") })
		return
	}
	d := time.Duration(0)
	r.change(func() { d = r.timing.draw(r.rng, PhasePowerOff) })
	r.clock.AfterFunc(d, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.closed && m.Ops == op {
			r.finishRelease(m)
		}
	})
}

// scheduleSync reports hardware at the machine's interval while it is deployed
// and on.
func (r *Region) scheduleSync(m *Machine) {
	if r.passive || m.SyncInterval <= 0 || r.machinesReport() {
		return
	}
	op := m.Ops
	r.clock.AfterFunc(r.timing.scaled(time.Duration(m.SyncInterval)*time.Second), func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.closed || m.Ops != op || m.Status != Deployed || !m.EnableHWSync {
			return
		}
		if m.PowerState == "on" {
			r.report(m)
		}
		r.scheduleSync(m)
	})
}
