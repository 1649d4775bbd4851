package lab

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"

	"gpuaas/contract/agentwire"
	"gpuaas/sim/maas"
	"gpuaas/sim/rack"
)

// Kind says what the machines of a lab are once they are deployed.
type Kind string

// The kinds: those of a rack, and agents inside this process.
const (
	LXD     = Kind(rack.LXD)
	Process = Kind(rack.Process)
	Agents  = Kind("agents")
)

// Facts about the servers of a lab.
const (
	RegionCode  = "lab" // region of their nodes
	SKU         = "h200-sxm-baremetal-8g"
	AtOnce      = 12             // how many may be in work: they share one host
	BootIface   = "eth0"         // name of the interface before MAAS knows the server
	Image       = "ubuntu/noble" // every region has it
	PXEIface    = "eno8303"      // the interface that servers boot from
	BMCUser     = "root"
	BMCPassword = "calvin"
)

// Options say which lab to open.
type Options struct {
	// Region is the MAAS to simulate. The lab decides what its machines run on
	// and, if it has a folder, where the region listens and is stored.
	Region maas.Options
	// Rack is what machines run on. Nil means that they are agents of this
	// process, and gone with it.
	Rack rack.Rack
	// Folder keeps what outlives the process. Empty means that nothing does.
	Folder string
	// DeployUser and DeployPassword open machines over SSH. Empty ones are made
	// up.
	DeployUser, DeployPassword string
	// WaitSeconds is how long a poll of an agent of this process is held. 0
	// means the default of the protocol.
	WaitSeconds int
	// BeforeEnroll is called before an agent of this process enrols. An error
	// makes the first boot of its machine fail. BeforePoll is called once it
	// has enrolled; the first poll waits until it returns. Both may be nil.
	BeforeEnroll func(ctx context.Context, b Boot) error
	BeforePoll   func(ctx context.Context, b Boot)
	// Answer returns the outcome of a task instead of the agent on a machine,
	// by its host name. If it returns nothing, the agent answers itself. It may
	// be nil.
	Answer func(hostname string, v agentwire.Verified) (output any, failure *agentwire.TaskError)
	Log    *slog.Logger
}

// Boot is the first boot of a machine. What it holds is secret.
type Boot struct {
	SystemID, Hostname string
	Token              string // with which the agent enrols
	UserData           []byte
}

// Lab is a running data centre.
type Lab struct {
	*maas.Region
	Kind Kind
	// SSHProxy is the proxy to the machines: socks5://host:port.
	SSHProxy string
	// DeployUser and DeployPassword open machines over SSH.
	DeployUser, DeployPassword string

	log     *slog.Logger
	metal   *metal
	proxy   *proxy
	proxyAt string          // its former address
	life    context.Context //nolint:containedctx // machines outlive the call that starts them
	end     context.CancelFunc
	nonces  atomic.Int64
	shut    sync.Map // host names of machines that admit nobody

	watching sync.WaitGroup
	closed   sync.Once
	result   error
}

// Open starts a lab. It runs until it is closed.
func Open(o Options) (*Lab, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	l := &Lab{Kind: Agents, log: o.Log, DeployUser: o.DeployUser, DeployPassword: o.DeployPassword}
	if o.Rack != nil {
		l.Kind = Kind(o.Rack.Kind())
	}
	l.life, l.end = context.WithCancel(context.Background())
	l.metal = newMetal(l, o)
	ro, err := l.regionOptions(o)
	if err != nil {
		return nil, err
	}
	if l.Region, err = maas.Start(ro); err != nil {
		l.end()
		return nil, fmt.Errorf("start MAAS of the lab: %w", err)
	}
	err = l.furnish(o)
	close(l.metal.ready) // also after a failure, so that nobody waits for ever
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// regionOptions completes the options with what an earlier process stored:
// whoever knows the address of the lab must find it there again.
func (l *Lab) regionOptions(o Options) (maas.Options, error) {
	ro := o.Region
	ro.Metal = l.metal
	if ro.Log == nil {
		ro.Log = o.Log
	}
	if ro.Seed == 0 {
		ro.Seed = randomSeed()
	}
	if ro.Settings == nil {
		ro.Settings = map[string]string{"upstream_dns": "1.1.1.1 8.8.8.8"}
	}
	host := "127.0.0.1"
	if l.Kind == LXD {
		host = o.Rack.HostAddress() // machines must reach it too
	}
	if ro.Listen == "" {
		ro.Listen = net.JoinHostPort(host, "0")
	}
	if o.Folder == "" {
		return ro, nil
	}
	m, err := readMemory(o.Folder)
	if err != nil {
		return ro, err
	}
	ro.State = filepath.Join(o.Folder, "maas.state")
	if m.Listen != "" {
		ro.Listen = m.Listen
		l.metal.askMetadata("http://" + m.Listen + "/MAAS")
	}
	l.proxyAt, l.DeployUser, l.DeployPassword = m.Proxy, m.DeployUser, m.DeployPassword
	return ro, nil
}

// randomSeed makes keys that nobody can guess, and that differ from those of
// earlier starts.
func randomSeed() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])
}

// furnish adds what a region alone does not have.
func (l *Lab) furnish(o Options) error {
	l.metal.askMetadata(l.URL)
	l.SetRackInterface(BootIface)
	if l.DeployUser == "" {
		l.DeployUser = "hpcadmin"
	}
	if l.DeployPassword == "" {
		b := make([]byte, 16)
		_, _ = rand.Read(b) // never fails
		l.DeployPassword = hex.EncodeToString(b)
	}
	var err error
	if l.proxy, err = startProxy(l.life, cmp.Or(l.proxyAt, "127.0.0.1:0"), l.connect, l.log); err != nil {
		return err
	}
	if o.Folder != "" {
		if err := l.remember(o.Folder); err != nil {
			return err
		}
	}
	l.SSHProxy = "socks5://" + l.proxy.address()
	if l.Kind == Process {
		l.watching.Go(func() { l.metal.watch(l.life) })
	}
	return nil
}

// Close stops the lab. Machines of a rack go on until the rack is closed.
func (l *Lab) Close() error {
	l.closed.Do(func() {
		l.end()
		if l.proxy != nil {
			l.proxy.close()
		}
		l.result = l.Region.Close()
		l.metal.close()
		l.watching.Wait()
	})
	return l.result
}
