package region

import (
	"encoding/gob"
	"fmt"
	"io"
)

const stateForm = 1

func init() {
	gob.Register([]string{})
	gob.Register(map[string]any{})
}

// Save writes the whole region. It holds API keys: whoever names the place
// keeps it private.
func (r *Region) Save(w io.Writer) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	s := *r.state
	s.StateForm, s.TakenAt = stateForm, r.clock.Now()
	if err := gob.NewEncoder(w).Encode(&s); err != nil {
		return fmt.Errorf("write region: %w", err)
	}
	return nil
}

// Load reads a region that was saved; machines that were at work start that
// work again, as if they had been rebooted.
func Load(o Options, from io.Reader) (*Region, error) {
	r := blank(o)
	s := &State{}
	if err := gob.NewDecoder(from).Decode(s); err != nil {
		return nil, fmt.Errorf("read region: %w", err)
	}
	if s.StateForm != stateForm {
		return nil, fmt.Errorf("state has form %d, this program reads %d", s.StateForm, stateForm)
	}
	r.state = s
	r.rejoin()
	r.index()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range s.Racks {
		r.usedIPs[k.IP] = true
	}
	for _, n := range s.Subnets {
		r.usedIPs[n.Gateway] = true
	}
	for _, m := range s.Machines {
		r.limit(m)
		if m.PowerState == "on" {
			r.boot(m)
		} else {
			r.switchOnAgain(m)
		}
		if m.Status == Releasing {
			r.finishRelease(m)
		}
	}
	return r, nil
}

// switchOnAgain goes on with an operation that was recorded, and whose machine
// nobody had switched on when the region was saved.
func (r *Region) switchOnAgain(m *Machine) {
	if r.passive {
		return
	}
	switch m.Status {
	case Commissioning:
		r.powerUpSoon(m, "commission", FailedCommissioning)
	case Deploying:
		r.claimAuto(m)
		r.powerUpSoon(m, "deploy", FailedDeployment)
	case DiskErasing:
		r.powerUpSoon(m, "release", FailedDiskErasing)
	default:
	}
}

// rejoin makes machines share their servers and keys with the lists again; a
// file holds copies.
func (r *Region) rejoin() {
	servers := map[string]*Hardware{}
	for _, h := range r.state.Hardware {
		servers[h.UUID] = h
	}
	keys := map[string]*Token{}
	for _, t := range r.state.Tokens {
		keys[t.Key] = t
	}
	for _, m := range r.state.Machines {
		if m.Hardware != nil && servers[m.Hardware.UUID] != nil {
			m.Hardware = servers[m.Hardware.UUID]
		}
		if m.NodeToken != nil {
			m.NodeToken = keys[m.NodeToken.Key]
		}
	}
}
