package lab

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"gpuaas/sim/maas/region"
	"gpuaas/sim/rack"
)

// ground is what installed systems run on.
type ground interface {
	boot(ctx context.Context, i region.Installed, h *host) error
	powerOff(ctx context.Context, systemID string) error
	erase(ctx context.Context, systemID string) error
	fetches() bool
	close()
}

// metal knows which machines run, and tells the ground to run them.
type metal struct {
	lab    *Lab
	ground ground
	ready  chan struct{} // closed once the lab is complete: a region boots machines earlier

	mu    sync.Mutex
	hosts map[string]*host // by system id: machines that are on
}

var (
	_ region.Metal     = (*metal)(nil)
	_ region.Reporting = (*metal)(nil)
	_ region.Erasing   = (*metal)(nil)
)

func newMetal(l *Lab, o Options) *metal {
	m := &metal{lab: l, ready: make(chan struct{}), hosts: map[string]*host{}}
	if o.Rack != nil {
		m.ground = &rackGround{metal: rack.NewMetal(o.Rack), kind: l.Kind}
	} else {
		m.ground = newAgents(l, o)
	}
	return m
}

// askMetadata lets machines that can do so ask the region for their user data.
func (m *metal) askMetadata(url string) {
	if g, ok := m.ground.(*rackGround); ok && g.kind == LXD {
		g.metal.AskMetadata(url + "/metadata/")
	}
}

// Boot implements region.Metal.
func (m *metal) Boot(ctx context.Context, i region.Installed) error {
	select {
	case <-m.ready:
	case <-ctx.Done():
		return fmt.Errorf("boot %s: %w", i.SystemID, ctx.Err())
	}
	// After a crash the region must know of every machine that has booted.
	if err := m.lab.Keep(); err != nil {
		return fmt.Errorf("boot %s: %w", i.SystemID, err)
	}
	h := newHost(m.lab, i)
	if err := m.ground.boot(ctx, i, h); err != nil {
		return fmt.Errorf("boot %s: %w", i.SystemID, err)
	}
	m.mu.Lock()
	before := m.hosts[i.SystemID]
	m.hosts[i.SystemID] = h
	m.mu.Unlock()
	if before != nil {
		before.off()
	}
	h.on()
	return nil
}

// PowerOff implements region.Metal.
func (m *metal) PowerOff(ctx context.Context, systemID string) error {
	m.mu.Lock()
	h := m.hosts[systemID]
	delete(m.hosts, systemID)
	m.mu.Unlock()
	if h != nil {
		h.off()
	}
	return m.ground.powerOff(ctx, systemID)
}

// Erase implements region.Erasing.
func (m *metal) Erase(ctx context.Context, systemID string) error {
	if err := m.PowerOff(ctx, systemID); err != nil { // the erasing system runs, not the installed one
		return err
	}
	return m.ground.erase(ctx, systemID)
}

// Fetches implements region.Metal.
func (m *metal) Fetches() bool { return m.ground.fetches() }

// Reports implements region.Reporting: only the machine itself reports to MAAS.
func (m *metal) Reports() bool { return true }

func (m *metal) host(systemID string) *host {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hosts[systemID]
}

// watch looks at the disks of machines that the lab does not run itself.
func (m *metal) watch(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		m.mu.Lock()
		hosts := slices.Collect(maps.Values(m.hosts))
		m.mu.Unlock()
		for _, h := range hosts {
			h.lookAround()
		}
	}
}

func (m *metal) close() {
	m.mu.Lock()
	for _, h := range m.hosts {
		h.off()
	}
	m.mu.Unlock()
	m.ground.close()
}

// rackGround runs systems on the machines of a rack.
type rackGround struct {
	metal *rack.Metal
	kind  Kind
}

func (g *rackGround) boot(ctx context.Context, i region.Installed, h *host) error {
	if err := g.metal.Boot(ctx, i); err != nil {
		return err
	}
	machine, err := g.metal.Machine(ctx, i)
	if err != nil {
		return err
	}
	if disk, ok := machine.(rack.Disk); ok {
		h.disk = folderDisk(disk.Root())
		h.again = func(ctx context.Context) error { return errors.Join(machine.Stop(ctx), machine.Start(ctx)) }
		return nil
	}
	h.sshd = func(ctx context.Context) (net.Conn, error) {
		address, err := machine.Address(ctx)
		if err != nil {
			return nil, err
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(address, "22"))
	}
	return nil
}

func (g *rackGround) powerOff(ctx context.Context, systemID string) error {
	return g.metal.PowerOff(ctx, systemID)
}

func (g *rackGround) erase(ctx context.Context, systemID string) error {
	return g.metal.Erase(ctx, systemID)
}

func (g *rackGround) fetches() bool { return g.metal.Fetches() }
func (g *rackGround) close()        {}

// identity tells installations apart: after a reinstallation, a machine has
// another host key.
func (l *Lab) identity(i region.Installed) []byte {
	h := hmac.New(sha256.New, []byte(l.AdminKey()))
	for _, part := range []string{i.SystemID, i.OSystem, i.Series, i.Token, string(i.UserData)} {
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part) // a hash accepts everything
	}
	return h.Sum(nil)
}
