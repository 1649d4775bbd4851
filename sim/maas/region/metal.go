package region

// startMetal boots the installed system of a machine. The lock must be held;
// the boot itself happens without it.
func (r *Region) startMetal(m *Machine) {
	i := Installed{
		SystemID: m.SystemID, Hostname: m.Hostname, OSystem: m.OSystem, Series: m.DistroSeries,
		Addresses: m.addresses(), UserData: m.userData(),
	}
	if h := m.Hardware; h != nil {
		i.UUID, i.Serial = h.UUID, h.Serial
		for _, n := range h.NICs {
			i.MACs = append(i.MACs, n.MAC)
		}
	}
	if m.NodeToken != nil {
		i.Token = m.NodeToken.String()
	}
	r.background(i.SystemID, func() {
		if err := r.metal.Boot(r.life, i); err != nil {
			r.log.Error("boot installed system", "machine", i.SystemID, "error", err)
		}
	})
}

func (r *Region) stopMetal(systemID string) {
	r.background(systemID, func() {
		if err := r.metal.PowerOff(r.life, systemID); err != nil {
			r.log.Error("stop installed system", "machine", systemID, "error", err)
		}
	})
}

// eraseMetal wipes the disks, if there are any. The lock must be held.
func (r *Region) eraseMetal(systemID string) {
	metal, ok := r.metal.(Erasing)
	if !ok {
		return
	}
	r.background(systemID, func() {
		if err := metal.Erase(r.life, systemID); err != nil {
			r.log.Error("erase disks", "machine", systemID, "error", err)
		}
	})
}

// machinesReport says whether booted machines report their hardware themselves.
func (r *Region) machinesReport() bool {
	metal, ok := r.metal.(Reporting)
	return ok && metal.Reports()
}

// background runs f beside the region, after earlier work for the same machine:
// a machine that is switched off and on must not end off. Close waits for it.
// The lock must be held.
func (r *Region) background(systemID string, f func()) {
	if _, none := r.metal.(NoMetal); none || r.closed {
		return
	}
	before, done := r.switching[systemID], make(chan struct{})
	r.switching[systemID] = done
	r.steps.Add(1)
	go func() {
		defer r.steps.Done()
		defer close(done)
		if before != nil {
			<-before
		}
		f()
	}()
}
