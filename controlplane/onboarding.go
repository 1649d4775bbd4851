package controlplane

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"time"

	"golang.org/x/net/proxy"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/adapter/bmc"
	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/fleet/agentgateway"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/onboarding"
)

// newBringup puts together what brings machines up.
func (p *parts) newBringup() (*bringup.Bringup, error) {
	dialer, err := p.cfg.Nodes.sshDialer()
	if err != nil {
		return nil, err
	}
	machines := bringup.Config{
		DB: p.db, Sites: p.sites, Regions: p.regions, Secrets: p.secrets, Nodes: p.fleet.nodes, Bootstrap: p.fleet.renderer,
		BMC: &bmc.IPMI{}, Tasks: p.fleet.tasks,
		Claims: onboarding.Claims{DB: p.db}, Dialer: dialer,
		Logger: p.logger, Watch: p.watch(),
	}
	if p.opts.HurryRetries {
		machines.PowerOffWithin, machines.StaysOff = hurriedPatience, time.Second
	}
	return bringup.New(machines), nil
}

// newOnboarding puts together what makes nodes of machines.
func (p *parts) newOnboarding() (kind, error) {
	cfg := onboarding.Config{DB: p.db, Bringup: p.bringup, Sites: p.sites, Mischief: p.mischief(), Logger: p.logger}
	if p.opts.HurryRetries {
		cfg.Backoff = hurried
	}
	return onboarding.New(cfg), nil
}

// sshDialer reaches freshly deployed machines.
func (c NodesConfig) sshDialer() (bringup.Dialer, error) {
	direct := &net.Dialer{Timeout: 10 * time.Second}
	if c.SSHProxy == "" {
		return direct, nil
	}
	u, err := url.Parse(c.SSHProxy)
	if err != nil {
		return nil, fmt.Errorf("read nodes.ssh_proxy: %w", err)
	}
	through, err := proxy.SOCKS5("tcp", u.Host, nil, direct)
	if err != nil {
		return nil, fmt.Errorf("use nodes.ssh_proxy: %w", err)
	}
	dialer, ok := through.(bringup.Dialer)
	if !ok {
		return nil, fmt.Errorf("use nodes.ssh_proxy: its client cannot be cancelled")
	}
	return dialer, nil
}

// machineTokens gives the agent of a node the key of its machine to MAAS. MAAS
// makes the key, and takes it back with a release.
type machineTokens struct{ parts *parts }

// Mint implements agentgateway.Minter.
func (m machineTokens) Mint(ctx context.Context, in agentgateway.Mint) (agentgateway.Minted, error) {
	values, err := m.parts.bringup.MachineToken(ctx, in.Task.Node, in.Intent["system_id"])
	return agentgateway.Minted{Values: values}, err
}

func (p *parts) backends() map[string]agentgateway.Backend {
	return map[string]agentgateway.Backend{
		agentwire.CredentialMAASMachineToken: {
			Minter: machineTokens{p}, LongLived: true,
			TaskTypes: agentwire.TypesThatMayAskFor(agentwire.CredentialMAASMachineToken),
		},
		agentwire.CredentialOCIPull:    p.reads(agentwire.CredentialOCIPull),
		agentwire.CredentialSourceRead: p.reads(agentwire.CredentialSourceRead),
	}
}

func (p *parts) reads(credential string) agentgateway.Backend {
	return agentgateway.Backend{Minter: reads{p}, TaskTypes: agentwire.TypesThatMayAskFor(credential)}
}

// watch says how often machines are looked at. Machines in long phases are
// looked at seldom, because the events of MAAS, which are read for all machines
// of a site at once, tell early when a phase ends. Where machines take no time,
// it looks at once.
func (p *parts) watch() maas.WatcherConfig {
	if p.opts.HurryRetries {
		return maas.WatcherConfig{
			Pace:        func(maas.Status) (least, most time.Duration) { return 20 * time.Millisecond, 200 * time.Millisecond },
			EventsEvery: 50 * time.Millisecond,
		}
	}
	return maas.WatcherConfig{EventsEvery: 5 * time.Second, Pace: func(s maas.Status) (least, most time.Duration) {
		switch s {
		case maas.StatusCommissioning, maas.StatusTesting, maas.StatusDeploying, maas.StatusDiskErasing:
			return 5 * time.Second, 2 * time.Minute
		default:
			return maas.DefaultPace(s)
		}
	}}
}
