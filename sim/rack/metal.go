package rack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"gpuaas/sim/maas/region"
)

// Metal runs the machines of a simulated MAAS region on a rack. A machine is
// named after its system id and its installation, so that a reboot finds its
// disk again and a deployment gets a fresh one.
type Metal struct {
	rack     Rack
	metadata atomic.Pointer[string]
}

var _ region.Metal = (*Metal)(nil)

// NewMetal puts a region on a rack.
func NewMetal(r Rack) *Metal { return &Metal{rack: r} }

// AskMetadata makes machines ask the metadata service at url for their payload,
// as deployed machines do. Without it the rack hands them the payload. Only LXD
// machines can ask.
func (m *Metal) AskMetadata(url string) { m.metadata.Store(&url) }

// Fetches says whether machines ask for their payload themselves.
func (m *Metal) Fetches() bool { return m.rack.Kind() == LXD && m.metadata.Load() != nil }

// Boot starts the installed system, on a new machine if the installation is
// new.
func (m *Metal) Boot(ctx context.Context, i region.Installed) error {
	name := m.name(i)
	existing, err := m.rack.Find(ctx, name)
	if err == nil {
		return existing.Start(ctx)
	}
	if !errors.Is(err, ErrNoMachine) {
		return fmt.Errorf("boot %s: %w", i.SystemID, err)
	}
	if err := m.each(ctx, i.SystemID, Machine.Delete); err != nil {
		return fmt.Errorf("boot %s: %w", i.SystemID, err)
	}
	s := Spec{
		Name: name, Hostname: i.Hostname, UserData: i.UserData,
		Hardware: Hardware{UUID: i.UUID, Serial: i.Serial, MACs: i.MACs},
	}
	if m.Fetches() {
		if s.Metadata, err = m.key(i); err != nil {
			return err
		}
	}
	if _, err := m.rack.Machine(ctx, s); err != nil {
		return fmt.Errorf("boot %s: %w", i.SystemID, err)
	}
	return nil
}

// Machine returns the machine that runs an installation, or ErrNoMachine.
func (m *Metal) Machine(ctx context.Context, i region.Installed) (Machine, error) {
	return m.rack.Find(ctx, m.name(i))
}

func (m *Metal) name(i region.Installed) string {
	sum := sha256.New()
	for _, part := range []string{i.OSystem, i.Series, i.Token, string(i.UserData)} {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	return i.SystemID + "-" + hex.EncodeToString(sum.Sum(nil)[:4])
}

func (m *Metal) key(i region.Installed) (*Metadata, error) {
	parts := strings.Split(i.Token, ":")
	if len(parts) != 3 {
		return nil, fmt.Errorf("boot %s: the machine has no key to the metadata service", i.SystemID)
	}
	return &Metadata{URL: *m.metadata.Load(), ConsumerKey: parts[0], TokenKey: parts[1], TokenSecret: parts[2]}, nil
}

// PowerOff cuts the power, as a BMC does.
func (m *Metal) PowerOff(ctx context.Context, systemID string) error {
	return m.each(ctx, systemID, Machine.Kill)
}

// Erase removes everything that was ever installed on a machine.
func (m *Metal) Erase(ctx context.Context, systemID string) error {
	return m.each(ctx, systemID, Machine.Delete)
}

// each calls do for everything that was ever installed on a machine.
func (m *Metal) each(ctx context.Context, systemID string, do func(Machine, context.Context) error) error {
	machines, err := m.rack.Machines(ctx)
	if err != nil {
		return fmt.Errorf("find machines of %s: %w", systemID, err)
	}
	for _, machine := range machines {
		if strings.HasPrefix(machine.Name(), systemID+"-") {
			err = errors.Join(err, do(machine, ctx))
		}
	}
	return err
}
