package rack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// agentHost is a machine that consists of a folder and an agent.
type agentHost struct {
	rack *processRack
	name string

	mu     sync.Mutex
	record hostRecord
	life   *life // nil while the machine is off
}

// life is the time between switching a machine on and off.
type life struct {
	off     context.CancelFunc
	unit    *unit
	ended   chan struct{} // closed when it is over
	booted  chan struct{} // closed when the payload was carried out, with success or not
	problem error         // what went wrong with the payload; read it after booted
}

// hostRecord is what a rack stores of a machine. The payload is not in it,
// because it carries a token: it has its own file and is deleted once it was
// carried out.
type hostRecord struct {
	Hostname string
	On       bool
}

func (m *agentHost) folder() string  { return m.rack.folder(m.name) }
func (m *agentHost) root() string    { return filepath.Join(m.folder(), "root") }
func (m *agentHost) payload() string { return filepath.Join(m.folder(), "user-data") }

func (r *processRack) makeMachine(s Spec) (*agentHost, error) {
	m := &agentHost{rack: r, name: s.Name, record: hostRecord{Hostname: s.Hostname, On: true}}
	if err := os.MkdirAll(m.folder(), 0o700); err != nil {
		return nil, fmt.Errorf("make machine %s: %w", s.Name, err)
	}
	if err := makeRoot(m.root(), s.Hostname); err != nil {
		return nil, err
	}
	if err := makeHardware(m.root(), s.Hardware.made(identity(r.options.Folder), s.Name)); err != nil {
		return nil, err
	}
	if len(s.UserData) > 0 {
		if err := os.WriteFile(m.payload(), s.UserData, 0o600); err != nil {
			return nil, fmt.Errorf("keep payload of machine %s: %w", s.Name, err)
		}
	}
	return m, m.save()
}

var errIncomplete = errors.New("the machine was never complete")

func (r *processRack) loadMachine(name string) (*agentHost, error) {
	m := &agentHost{rack: r, name: name}
	content, err := os.ReadFile(m.recordFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errIncomplete
	}
	if err == nil {
		err = json.Unmarshal(content, &m.record)
	}
	if err == nil {
		err = installHostPrograms(m.root())
	}
	if err != nil {
		return nil, fmt.Errorf("load machine %s: %w", name, err)
	}
	return m, nil
}

func (m *agentHost) recordFile() string { return filepath.Join(m.folder(), "machine.json") }

// save replaces the record in one step. The first record completes the machine:
// a folder without one comes from a process that was killed while it made a
// machine.
func (m *agentHost) save() error {
	content, err := json.Marshal(m.record)
	if err == nil {
		err = os.WriteFile(m.recordFile()+".new", content, 0o600)
	}
	if err == nil {
		err = os.Rename(m.recordFile()+".new", m.recordFile())
	}
	if err != nil {
		return fmt.Errorf("keep record of machine %s: %w", m.name, err)
	}
	return nil
}

func (m *agentHost) Name() string { return m.name }

// boot begins a life of the machine, unless one runs.
func (m *agentHost) boot() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.life != nil {
		return
	}
	log := m.rack.options.Log.With("machine", m.name)
	ctx, off := context.WithCancel(m.rack.life)
	l := &life{
		off: off, ended: make(chan struct{}), booted: make(chan struct{}),
		unit: &unit{root: m.root(), log: filepath.Join(m.folder(), "agent.log"), pause: m.rack.pause, say: log.Warn},
	}
	m.life = l
	go func() {
		defer close(l.ended)
		if l.problem = m.firstBoot(ctx); l.problem != nil {
			log.Error("payload of machine failed", "error", l.problem)
		}
		close(l.booted)
		l.unit.run(ctx)
	}()
}

// firstBoot carries out the payload. One that succeeded is not repeated; one
// that failed is repeated at the next boot.
func (m *agentHost) firstBoot(ctx context.Context) error {
	payload, err := os.ReadFile(m.payload())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read payload of machine: %w", err)
	}
	if err := carryOut(ctx, m.root(), m.rack.options.AgentProgram, payload); err != nil {
		return err
	}
	if err := os.Remove(m.payload()); err != nil {
		return fmt.Errorf("delete payload of machine: %w", err)
	}
	return nil
}

func (m *agentHost) Start(context.Context) error {
	if err := m.remember(true); err != nil {
		return err
	}
	m.boot()
	return nil
}

func (m *agentHost) remember(on bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.record.On = on
	return m.save()
}

func (m *agentHost) Booted(ctx context.Context) error {
	l := m.running()
	if l == nil {
		return fmt.Errorf("boot machine %s: it is off", m.name)
	}
	select {
	case <-l.booted:
	case <-ctx.Done():
		return fmt.Errorf("wait for boot of machine %s: %w", m.name, ctx.Err())
	}
	if l.problem != nil {
		return fmt.Errorf("boot machine %s: %w", m.name, l.problem)
	}
	return nil
}

func (m *agentHost) running() *life {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.life
}

func (m *agentHost) Running(context.Context) (bool, error) { return m.running() != nil, nil }

func (m *agentHost) Address(context.Context) (string, error) { return m.rack.HostAddress(), nil }

// Exec finds only programs on the machine's disk: those of the host and the
// agent.
func (m *agentHost) Exec(ctx context.Context, stdin io.Reader, argv ...string) (string, error) {
	path, err := m.program(argv)
	if err != nil {
		return "", err
	}
	cmd := program(ctx, m.root(), append([]string{path}, argv[1:]...))
	var out, problem bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &problem
	err = cmd.Run()
	var failed *exec.ExitError
	if errors.As(err, &failed) && ctx.Err() == nil {
		err = &ExitError{Program: argv[0], Code: failed.ExitCode(), Output: strings.TrimSpace(problem.String())}
	}
	if err != nil {
		return out.String(), fmt.Errorf("run on machine %s: %w", m.name, err)
	}
	return out.String(), nil
}

func (m *agentHost) program(argv []string) (string, error) {
	if len(argv) == 0 {
		return "", errors.New("run program on machine: none was named")
	}
	candidates := []string{argv[0]}
	if !strings.Contains(argv[0], "/") {
		candidates = []string{"usr/sbin/" + argv[0], "usr/bin/" + argv[0], filepath.Dir(agentCurrent) + "/" + argv[0]}
	}
	for _, c := range candidates {
		path := filepath.Join(m.root(), filepath.Clean("/"+c))
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("run on machine %s: it has no program %s", m.name, argv[0])
}

func (m *agentHost) Push(_ context.Context, path string, mode fs.FileMode, content []byte) error {
	return writeBelow(m.root(), path, mode, content)
}

func (m *agentHost) Stop(context.Context) error {
	err := m.remember(false)
	m.halt()
	return err
}

// Kill gives the agent no time.
func (m *agentHost) Kill(ctx context.Context) error {
	if l := m.running(); l != nil {
		l.unit.kill()
	}
	return m.Stop(ctx)
}

// halt ends the present life and waits for its end.
func (m *agentHost) halt() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.life == nil {
		return
	}
	m.life.off()
	<-m.life.ended
	m.life = nil
}

func (m *agentHost) Delete(context.Context) error {
	m.halt()
	m.rack.mu.Lock()
	delete(m.rack.machines, m.name)
	m.rack.mu.Unlock()
	// The record goes first: if this process is killed before the rest is gone, the
	// next one takes it for a machine that was never complete.
	err := os.Remove(m.recordFile())
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = os.RemoveAll(m.folder())
	}
	if err != nil {
		return fmt.Errorf("delete machine %s: %w", m.name, err)
	}
	return nil
}
