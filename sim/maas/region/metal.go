package region

// startMetal boots the installed system of a machine. The lock is held; the
// boot itself happens without it.
func (r *Region) startMetal(m *Machine) {
	i := Installed{SystemID: m.SystemID, Hostname: m.Hostname, OSystem: m.OSystem, Series: m.DistroSeries, Addresses: m.addresses(), UserData: m.userData()}
	if m.NodeToken != nil {
		i.Token = m.NodeToken.String()
	}
	r.background(func() {
		if err := r.metal.Boot(r.life, i); err != nil {
			r.log.Error("boot installed system", "machine", i.SystemID, "error", err)
		}
	})
}

func (r *Region) stopMetal(systemID string) {
	r.background(func() {
		if err := r.metal.PowerOff(r.life, systemID); err != nil {
			r.log.Error("stop installed system", "machine", systemID, "error", err)
		}
	})
}

// background runs f beside the region; Close waits for it. The lock is held.
func (r *Region) background(f func()) {
	if _, none := r.metal.(NoMetal); none || r.closed {
		return
	}
	r.steps.Add(1)
	go func() {
		defer r.steps.Done()
		f()
	}()
}
