package lab

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/sim/fleet"
	"gpuaas/sim/maas/region"
	"gpuaas/sim/rack"
)

// agents runs installed systems as agents of this process, with one goroutine
// and one connection each.
type agents struct {
	lab          *Lab
	waitSeconds  int
	beforeEnroll func(context.Context, Boot) error
	beforePoll   func(context.Context, Boot)
	answer       func(string, agentwire.Verified) (any, *agentwire.TaskError)
	working      sync.WaitGroup

	mu    sync.Mutex
	homes map[string]*home // by system id

	trust sync.Mutex
	pools map[[sha256.Size]byte]*x509.CertPool // fleets share one CA
}

// home is what an installation leaves on a machine: it survives a reboot.
type home struct {
	identity string
	disk     *memoryDisk
	retry    chan struct{}

	mu    sync.Mutex
	off   context.CancelFunc // nil while the machine is off
	ended chan struct{}
	agent *fleet.Agent // nil until it has enrolled
}

func newAgents(l *Lab, o Options) *agents {
	g := &agents{
		lab: l, waitSeconds: o.WaitSeconds, beforeEnroll: o.BeforeEnroll, beforePoll: o.BeforePoll, answer: o.Answer,
		pools: map[[sha256.Size]byte]*x509.CertPool{}, homes: map[string]*home{},
	}
	if g.beforeEnroll == nil {
		g.beforeEnroll = func(context.Context, Boot) error { return nil }
	}
	if g.beforePoll == nil {
		g.beforePoll = func(context.Context, Boot) {}
	}
	return g
}

func (g *agents) fetches() bool { return false }

func (g *agents) close() { g.working.Wait() } // the lab has ended

func (g *agents) boot(_ context.Context, i region.Installed, h *host) error {
	identity := string(g.lab.identity(i))
	g.mu.Lock()
	there := g.homes[i.SystemID]
	if there == nil || there.identity != identity {
		there.stop()
		there = &home{identity: identity, disk: &memoryDisk{}, retry: make(chan struct{}, 1)}
		g.homes[i.SystemID] = there
		if h.login.User != "" {
			_ = there.disk.write(rack.KeysFile(h.login.User), []byte(h.login.Keys)) // writing to memory never fails
		}
	}
	g.mu.Unlock()
	h.disk = there.disk
	h.again = func(context.Context) error {
		select {
		case there.retry <- struct{}{}:
		default: // it is about to begin anyway
		}
		return nil
	}
	there.start(g, i, h)
	return nil
}

func (g *agents) powerOff(_ context.Context, systemID string) error {
	g.mu.Lock()
	there := g.homes[systemID]
	g.mu.Unlock()
	there.stop()
	return nil
}

func (g *agents) erase(_ context.Context, systemID string) error {
	g.mu.Lock()
	there := g.homes[systemID]
	delete(g.homes, systemID)
	g.mu.Unlock()
	there.stop()
	return nil
}

// start begins a life of the agent, unless one runs.
func (a *home) start(g *agents, i region.Installed, h *host) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.off != nil {
		return
	}
	ctx, off := context.WithCancel(g.lab.life)
	ended := make(chan struct{})
	a.off, a.ended = off, ended
	g.working.Go(func() {
		defer close(ended)
		defer off()
		if err := a.live(ctx, g, i, h); err != nil && ctx.Err() == nil {
			g.lab.log.Warn("agent of machine ended", "machine", i.SystemID, "error", err)
		}
	})
}

func (a *home) stop() {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.off == nil {
		return
	}
	a.off()
	<-a.ended
	a.off = nil
}

// live runs the first boot until it succeeds, and then the agent.
func (a *home) live(ctx context.Context, g *agents, i region.Installed, h *host) error {
	for a.agent == nil {
		agent, err := g.enroll(ctx, i, h)
		if errors.Is(err, errNoBootstrap) || ctx.Err() != nil {
			return err
		}
		if noted := a.note(err); noted != nil {
			return noted
		}
		if a.agent = agent; err == nil {
			break
		}
		g.lab.log.Warn("first boot of machine failed", "machine", i.SystemID, "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-a.retry:
		}
	}
	a.work(ctx)
	return nil
}

// work runs the agent. If the control plane refuses it, as it does for a
// retired node, the agent asks again after a while, like a real one.
func (a *home) work(ctx context.Context) {
	for pause := time.Second / 2; ; pause = min(2*pause, 10*time.Second) {
		err := a.agent.Run(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		again := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			again.Stop()
			return
		case <-again.C:
		}
	}
}

var errNoBootstrap = errors.New("the payload makes no node of the machine")

func (g *agents) enroll(ctx context.Context, i region.Installed, h *host) (*fleet.Agent, error) {
	b, found, err := rack.ReadBootstrap(i.UserData)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoBootstrap, err)
	}
	if !found {
		return nil, errNoBootstrap
	}
	roots, err := g.pool(b.CA)
	if err != nil {
		return nil, err
	}
	hardware := &agentwire.Hardware{UUID: i.UUID, SystemSerial: i.Serial, ChassisSerial: i.Serial, MACs: i.MACs}
	o := fleet.Options{
		URL: b.URL, Roots: roots, WaitSeconds: g.waitSeconds, Hardware: hardware,
		Received: func(e agentwire.Envelope, _ time.Time) {
			switch e.Type {
			case agentwire.TypeHWSyncReseed:
				_ = h.reseed() // like a systemd unit: it fails on its own
			case agentwire.TypeLoginLock:
				if d, ok := h.disk.(*memoryDisk); ok {
					d.remove(rack.KeysFile(h.login.User))
				}
			}
		},
	}
	if g.answer != nil {
		o.Answer = func(_ string, v agentwire.Verified) (any, *agentwire.TaskError) { return g.answer(i.Hostname, v) }
	}
	boot := Boot{SystemID: i.SystemID, Hostname: i.Hostname, Token: b.Token, UserData: i.UserData}
	if err := g.beforeEnroll(ctx, boot); err != nil {
		return nil, fmt.Errorf("enrol machine %s: %w", i.SystemID, err)
	}
	agent, err := o.Enroll(ctx, b.Token, i.Hostname)
	if err != nil {
		return nil, fmt.Errorf("enrol machine %s: %w", i.SystemID, err)
	}
	g.beforePoll(ctx, boot)
	return agent, nil
}

func (g *agents) pool(ca []byte) (*x509.CertPool, error) {
	sum := sha256.Sum256(ca)
	g.trust.Lock()
	defer g.trust.Unlock()
	if p := g.pools[sum]; p != nil {
		return p, nil
	}
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM(ca) {
		return nil, errors.New("read CA of the control plane: there is no certificate in it")
	}
	g.pools[sum] = p
	return p, nil
}

// note writes the record of the layer that makes the machine a node.
func (a *home) note(problem error) error {
	now := time.Now().UTC().Format(time.RFC3339)
	record := map[string]any{
		"layer": "agent-bootstrap", "version": "1", "state": "succeeded", "started_at": now,
		"ended_at": now, "exit_code": 0, "step": "", "reason": "",
	}
	if problem != nil {
		record["state"], record["exit_code"], record["step"], record["reason"] = "failed", 1, "enrol", problem.Error()
	}
	content, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("write record of layer: %w", err)
	}
	return a.disk.write(rack.FirstBootFolder+"/"+agentRecord, append(content, '\n'))
}
