package region

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
)

// Target is a BMC and how to speak to it.
type Target struct {
	SystemID, Type, Address, User string
	Parameters                    map[string]any
}

// BMC switches machines. MAAS answers with the text of its errors.
type BMC interface {
	PowerOn(ctx context.Context, t Target) error
	PowerOff(ctx context.Context, t Target) error
	// State returns on, off, unknown or error.
	State(ctx context.Context, t Target) (string, error)
}

// Installed is a system that a machine boots from its own disk.
type Installed struct {
	SystemID, Hostname, OSystem, Series string
	Addresses                           []string
	UserData                            []byte
	Token                               string // the machine's own API key
	UUID, Serial                        string // of the server, as its firmware says
	MACs                                []string
}

// Metal is what an installed system runs on.
type Metal interface {
	// Boot starts the installed system and returns once it runs.
	Boot(ctx context.Context, i Installed) error
	// PowerOff stops it. It is no error if the machine does not run.
	PowerOff(ctx context.Context, systemID string) error
	// Fetches says that booted systems ask the metadata service for their user
	// data themselves, so the region must not do it for them.
	Fetches() bool
}

// Reporting is a Metal whose machines may report their hardware themselves. If
// they do, the region must not report for a machine that is silent.
type Reporting interface {
	Reports() bool
}

// Erasing is a Metal whose machines have their own disks.
type Erasing interface {
	// Erase removes the installation. It is no error if there is none.
	Erase(ctx context.Context, systemID string) error
}

// NoMetal boots nothing: the machine only counts as running.
type NoMetal struct{}

// Boot does nothing.
func (NoMetal) Boot(context.Context, Installed) error { return nil }

// PowerOff does nothing.
func (NoMetal) PowerOff(context.Context, string) error { return nil }

// Fetches is false: nobody is there to ask.
func (NoMetal) Fetches() bool { return false }

// processBMC is a BMC inside this process. It remembers the switch of each
// server.
type processBMC struct{ region *Region }

func (b *processBMC) set(t Target, on bool) error {
	r := b.region
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.bySystem[t.SystemID]
	if m == nil {
		return errors.New("machine is not known to the BMC")
	}
	if m.Hardware != nil {
		m.Hardware.Powered = on
	}
	word := "off"
	if on {
		word = "on"
	}
	r.say(m, Debug, "Node powered "+word, "")
	return nil
}

func (b *processBMC) PowerOn(_ context.Context, t Target) error  { return b.set(t, true) }
func (b *processBMC) PowerOff(_ context.Context, t Target) error { return b.set(t, false) }

func (b *processBMC) State(_ context.Context, t Target) (string, error) {
	b.region.mu.RLock()
	defer b.region.mu.RUnlock()
	m := b.region.bySystem[t.SystemID]
	switch {
	case m == nil:
		return "unknown", nil
	case m.Hardware != nil && m.Hardware.Powered:
		return "on", nil
	case m.Hardware == nil && m.PowerState == "on":
		return "on", nil
	}
	return "off", nil
}

func (r *Region) target(m *Machine) Target {
	user, _ := m.PowerParameters["power_user"].(string)
	return Target{
		SystemID: m.SystemID, Type: m.PowerType, Address: m.powerAddress(), User: user,
		Parameters: m.PowerParameters,
	}
}

// power switches a machine and records the result. Call it without the lock,
// because a BMC takes its time.
func (r *Region) power(ctx context.Context, m *Machine, on bool, operation string) error {
	action := "off"
	if on {
		action = "on"
	}
	r.mu.Lock()
	t := r.target(m)
	err := r.mischief.Power(m.ref(operation), action)
	if away := r.racksAway(m); away != nil {
		err = away
	}
	r.mu.Unlock()
	if err == nil {
		if on {
			err = r.bmc.PowerOn(ctx, t)
		} else {
			err = r.bmc.PowerOff(ctx, t)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes++
	if err != nil {
		return fmt.Errorf("%w", err)
	}
	m.PowerState = action
	if !on {
		m.Boots++
		r.stopMetal(m.SystemID)
	}
	return nil
}

// racksAway says that no rack is connected that could speak to the BMC of a
// machine. MAAS knows by the VLANs of a machine which rack that would be.
func (r *Region) racksAway(m *Machine) error {
	if slices.ContainsFunc(r.state.Racks, func(k *Rack) bool { return k.Healthy }) {
		return nil
	}
	for _, i := range m.Interfaces {
		if v := r.vlan(i.VLAN); v != nil && v.Rack != "" {
			return &RefusalError{
				Status: http.StatusServiceUnavailable, RetryAfter: 10,
				Text: "Unable to connect to any rack controller " + v.Rack + "; no connections available.",
			}
		}
	}
	return &RefusalError{
		Status: http.StatusServiceUnavailable, Text: "No rack controllers can access the BMC of node " + m.Hostname,
	}
}

func (r *Region) canSwitch(m *Machine) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return m.controllable()
}

// pause is the time that the BMC keeps a request waiting.
func (r *Region) pause(ctx context.Context) error {
	r.mu.Lock()
	d := r.timing.draw(r.rng, PhaseBMC)
	r.mu.Unlock()
	if err := r.clock.Sleep(ctx, d); err != nil {
		return fmt.Errorf("%w", err)
	}
	return nil
}

// cycle switches a machine on, after switching it off if it runs, and lets it
// boot.
func (r *Region) cycle(ctx context.Context, m *Machine, operation string) error {
	if !r.canSwitch(m) {
		return nil
	}
	r.mu.RLock()
	running := m.PowerState == "on"
	r.mu.RUnlock()
	if running {
		if err := r.power(ctx, m, false, operation); err != nil {
			return err
		}
	}
	if err := r.power(ctx, m, true, operation); err != nil {
		return err
	}
	r.change(func() { r.boot(m) })
	return nil
}

// PowerOn switches a machine on for its owner. For an allocated machine that is
// a deployment.
func (r *Region) PowerOn(ctx context.Context, c Caller, systemID string, f url.Values) (*MachineDoc, error) {
	r.mu.Lock()
	m, err := r.forEditing(c, systemID)
	if err == nil && m.Owner == "" {
		err = conflict("Can't start node: it hasn't been allocated.")
	}
	if err != nil {
		r.mu.Unlock()
		return nil, err
	}
	r.sayRequest(m, c, "User powering up node", f.Get("comment"))
	r.changes++
	if m.Status == Allocated {
		if m.OSystem == "" {
			image, err := r.resolveImage("")
			if err != nil {
				r.mu.Unlock()
				return nil, err
			}
			r.install(m, image)
		}
		r.startDeploying(m)
		doc := r.machineDoc(m)
		r.mu.Unlock()
		r.launchDeployment(m)
		return doc, nil
	}
	doc := r.machineDoc(m)
	r.mu.Unlock()
	if !r.canSwitch(m) {
		return nil, nil //nolint:nilnil // MAAS answers null when it cannot switch
	}
	if err := r.pause(ctx); err != nil {
		return nil, err
	}
	if err := r.power(ctx, m, true, "power_on"); err != nil {
		return nil, powerFailure(err)
	}
	r.change(func() { r.boot(m) })
	return doc, nil
}

// PowerOff switches a machine off. If it returns nil without an error, MAAS
// answers null: it does not control the power of the machine.
func (r *Region) PowerOff(ctx context.Context, c Caller, systemID string, f url.Values) (*MachineDoc, error) {
	r.mu.Lock()
	m, err := r.forEditing(c, systemID)
	if err != nil {
		r.mu.Unlock()
		return nil, err
	}
	if mode := f.Get("stop_mode"); mode != "" && mode != "hard" && mode != "soft" {
		r.mu.Unlock()
		return nil, fieldError("stop_mode", fmt.Sprintf(
			"'%s' is not a valid stop_mode.  It should be one of: 'hard', 'soft'.", mode))
	}
	r.sayRequest(m, c, "User powering down node", f.Get("comment"))
	r.changes++
	doc := r.machineDoc(m)
	r.mu.Unlock()
	if !r.canSwitch(m) {
		return nil, nil //nolint:nilnil // MAAS answers null when it cannot switch
	}
	if err := r.pause(ctx); err != nil {
		return nil, err
	}
	if err := r.power(ctx, m, false, "power_off"); err != nil {
		return nil, powerFailure(err)
	}
	return doc, nil
}

// QueryPower asks the BMC.
func (r *Region) QueryPower(ctx context.Context, c Caller, systemID string) (any, error) {
	r.mu.Lock()
	m, err := r.forReading(c, systemID)
	if err == nil {
		err = r.mischief.Power(m.ref("query_power_state"), "query")
		if away := r.racksAway(m); away != nil {
			err = away
		}
		if err != nil {
			err = powerFailure(err)
		}
	}
	if err != nil {
		r.mu.Unlock()
		return nil, err
	}
	t := r.target(m)
	r.mu.Unlock()
	if !r.canSwitch(m) {
		return map[string]string{"state": "unknown"}, nil
	}
	if err := r.pause(ctx); err != nil {
		return nil, err
	}
	state, err := r.bmc.State(ctx, t)
	if err != nil {
		return nil, powerFailure(err)
	}
	r.change(func() { m.PowerState = state })
	return map[string]string{"state": state}, nil
}
