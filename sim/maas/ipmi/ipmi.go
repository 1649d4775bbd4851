package ipmi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/bougou/go-ipmi/pkg/client"

	"gpuaas/sim/maas/region"
)

// startTime is how long ipmi_sim may take until all BMCs answer.
const startTime = 30 * time.Second

// Machine is a server that gets a BMC.
type Machine struct {
	// Address is the one that the region has on record for the BMC. Nobody
	// listens there; it only identifies the BMC.
	Address    string
	User, Pass string
	On         bool // whether the machine is on when its BMC starts
}

// Options say what BMCs to start.
type Options struct {
	Machines []Machine
	// Dir is a private folder for files of ipmi_sim, passwords among them.
	Dir string
	// Chassis is the program with the arguments that make it run Chassis.
	Chassis []string
	// Program is ipmi_sim. If it is empty, it is looked up in the PATH.
	Program string
}

// BMCs are the running BMCs of some machines.
type BMCs struct {
	ports  map[string]int // by address of the BMC
	log    string
	pid    int
	exited chan struct{}
	err    error // how ipmi_sim ended; read it after exited
}

// Start starts the BMCs and returns once all of them answer. They run until
// they are stopped or ctx ends.
func Start(ctx context.Context, o Options) (*BMCs, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	program, err := o.find()
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(ctx, len(o.Machines))
	if err != nil {
		return nil, err
	}
	if err := o.write(ports); err != nil {
		return nil, err
	}
	b := &BMCs{ports: map[string]int{}, log: filepath.Join(o.Dir, "log"), exited: make(chan struct{})}
	for i, m := range o.Machines {
		b.ports[m.Address] = ports[i]
	}
	if err := b.launch(program, o.Dir); err != nil {
		return nil, err
	}
	if err := b.await(ctx, o.Machines); err != nil {
		b.Stop()
		return nil, err
	}
	context.AfterFunc(ctx, b.Stop)
	return b, nil
}

func (o Options) find() (string, error) {
	name := o.Program
	if name == "" {
		name = "ipmi_sim"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("find the IPMI simulator: %w. Install it: apt-get install openipmi", err)
	}
	return path, nil
}

// launch starts ipmi_sim. Its thread must stay alive: the end of that thread
// would end ipmi_sim.
func (b *BMCs) launch(program, dir string) error {
	log, err := os.OpenFile(b.log, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("open log of ipmi_sim: %w", err)
	}
	cmd := exec.Command(program, "-c", filepath.Join(dir, "lan.conf"), "-f", filepath.Join(dir, "commands"), "-s", filepath.Join(dir, "state"), "-n") //nolint:gosec,noctx // the arguments are ours; Stop ends it, with the programs that it started
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C.UTF-8"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := errors.Join(cmd.Start(), log.Close())
		if err == nil {
			b.pid = cmd.Process.Pid
		}
		started <- err
		if cmd.Process != nil {
			b.err = cmd.Wait()
		}
		close(b.exited)
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start ipmi_sim: %w", err)
	}
	return nil
}

// await returns once each BMC admits its user.
func (b *BMCs) await(ctx context.Context, machines []Machine) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for _, m := range machines {
		t := region.Target{Address: m.Address, User: m.User, Parameters: map[string]any{"power_pass": m.Pass}}
		for {
			err := b.session(ctx, t, func(context.Context, *client.Client) error { return nil })
			if err == nil {
				break
			}
			select {
			case <-again.C:
			case <-b.exited:
				return b.obituary()
			case <-ctx.Done():
				return fmt.Errorf("BMC %s did not come up: %w: %w", m.Address, ctx.Err(), err)
			}
		}
	}
	return nil
}

// obituary says why ipmi_sim ended, with its last output.
func (b *BMCs) obituary() error {
	text, err := os.ReadFile(b.log)
	if err != nil {
		return fmt.Errorf("read log of ipmi_sim: %w", err)
	}
	const most = 500
	if len(text) > most {
		text = text[len(text)-most:]
	}
	return fmt.Errorf("ipmi_sim ended (%v): %s", b.err, bytes.TrimSpace(text)) //nolint:errorlint // it may have ended without an error
}

// Endpoint returns where the BMC of an address really listens, for other IPMI
// clients. It is empty if there is none.
func (b *BMCs) Endpoint(address string) string {
	port, ok := b.ports[address]
	if !ok {
		return ""
	}
	return net.JoinHostPort(loopback, strconv.Itoa(port))
}

// Stop ends the BMCs and what they started, and returns once they are gone. The
// power state of machines is lost: only running BMCs keep it.
func (b *BMCs) Stop() {
	select {
	case <-b.exited:
	default:
		_ = syscall.Kill(-b.pid, syscall.SIGKILL) // ipmi_sim may end by itself meanwhile
		<-b.exited
	}
}
