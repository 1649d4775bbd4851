package rack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"
)

// container is a machine in LXD.
type container struct {
	rack *lxdRack
	name string
}

func (m *container) Name() string     { return m.name }
func (m *container) instance() string { return prefix + m.name }

// Machine makes a container. The payload carries secrets, so it goes through
// the standard input.
func (r *lxdRack) Machine(ctx context.Context, s Spec) (Machine, error) {
	s, err := s.check()
	if err != nil {
		return nil, err
	}
	s.Hardware = s.Hardware.made(r.id, s.Name)
	config := map[string]string{powerKey: "on", "user.meta-data": "local-hostname: " + s.Hostname + "\n"}
	if s.Metadata == nil && len(s.UserData) > 0 {
		config["user.user-data"] = string(s.UserData)
	}
	if len(s.Hardware.MACs) > 0 {
		config["volatile.eth0.hwaddr"] = s.Hardware.MACs[0]
	}
	definition, err := json.Marshal(map[string]any{"config": config})
	if err != nil {
		return nil, fmt.Errorf("define machine %s: %w", s.Name, err)
	}
	m := &container{rack: r, name: s.Name}
	image := imageAlias + "-" + recipeDigest()
	if _, err := r.run(ctx, call{
		args:  []string{"init", image, m.instance(), "--quiet"},
		stdin: bytes.NewReader(definition),
	}); err != nil {
		return nil, fmt.Errorf("make machine %s: %w", s.Name, err)
	}
	if err := m.finish(ctx, s); err != nil {
		return nil, errors.Join(err, m.Delete(context.WithoutCancel(ctx)))
	}
	return m, nil
}

func (m *container) finish(ctx context.Context, s Spec) error {
	// A container does not see the firmware of its host; these files replace
	// it.
	for name, content := range s.Hardware.firmware() {
		if err := m.Push(ctx, "/etc/gpuaas-firmware/"+name, 0o444, []byte(content)); err != nil {
			return err
		}
	}
	if s.Metadata != nil {
		datasource, err := s.Metadata.cloudConfig()
		if err != nil {
			return err
		}
		if err := m.Push(ctx, "/etc/cloud/cloud.cfg.d/95-maas.cfg", 0o600, datasource); err != nil {
			return err
		}
	}
	return m.powerOn(ctx)
}

// cloudConfig makes cloud-init ask MAAS, as the installer of MAAS does. The
// list is on one line, because the part of cloud-init that looks for
// datasources reads lines, not YAML.
func (d *Metadata) cloudConfig() ([]byte, error) {
	source, err := json.Marshal(map[string]any{"MAAS": map[string]string{
		"metadata_url": d.URL, "consumer_key": d.ConsumerKey, "token_key": d.TokenKey, "token_secret": d.TokenSecret,
	}})
	if err != nil {
		return nil, fmt.Errorf("write datasource: %w", err)
	}
	return fmt.Appendf(nil, "datasource_list: [MAAS]\ndatasource: %s\n", source), nil
}

func (m *container) Start(ctx context.Context) error {
	if err := m.remember(ctx, "on"); err != nil {
		return err
	}
	return m.powerOn(ctx)
}

func (m *container) powerOn(ctx context.Context) error {
	running, err := m.Running(ctx)
	if err != nil || running {
		return err
	}
	if err := m.rack.do(ctx, "start", m.instance()); err != nil {
		return fmt.Errorf("start machine %s: %w", m.name, err)
	}
	return nil
}

func (m *container) remember(ctx context.Context, power string) error {
	if err := m.rack.do(ctx, "config", "set", m.instance(), powerKey+"="+power); err != nil {
		return fmt.Errorf("note switch of machine %s: %w", m.name, err)
	}
	return nil
}

// state is what LXD sees of a container.
type state struct {
	Status  string
	Network map[string]struct {
		Addresses []struct{ Family, Address, Scope string }
	}
}

func (m *container) state(ctx context.Context) (state, error) {
	var s state
	err := m.rack.get(ctx, m.rack.with("/1.0/instances/"+m.instance()+"/state"), &s)
	if notFound(err) {
		err = fmt.Errorf("look at machine %s: %w", m.name, ErrNoMachine)
	}
	return s, err
}

func (m *container) Running(ctx context.Context) (bool, error) {
	s, err := m.state(ctx)
	return s.Status == "Running", err
}

// Booted trusts cloud-init for the payload and systemd for the rest. A failed
// unit leaves the system degraded, which is accepted here.
func (m *container) Booted(ctx context.Context) error {
	said, err := m.Exec(ctx, nil, "cloud-init", "status", "--wait", "--long")
	if err != nil {
		return fmt.Errorf("boot machine %s: %w: %s", m.name, err, strings.TrimSpace(strings.TrimLeft(said, ".\n")))
	}
	_, err = m.Exec(ctx, nil, "systemctl", "is-system-running", "--wait")
	var failed *ExitError
	if err != nil && !errors.As(err, &failed) {
		return fmt.Errorf("boot machine %s: %w", m.name, err)
	}
	return nil
}

// Address waits for the lease: a machine that has just started has none.
func (m *container) Address(ctx context.Context) (string, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := m.state(ctx)
		if err != nil {
			return "", err
		}
		for _, a := range s.Network["eth0"].Addresses {
			if a.Family == "inet" && a.Scope == "global" {
				return a.Address, nil
			}
		}
		if s.Status != "Running" {
			return "", fmt.Errorf("look up address of machine %s: it is %s", m.name, strings.ToLower(s.Status))
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("wait for address of machine %s: %w", m.name, ctx.Err())
		case <-tick.C:
		}
	}
}

func (m *container) Exec(ctx context.Context, stdin io.Reader, argv ...string) (string, error) {
	if len(argv) == 0 {
		return "", errors.New("run program on machine: none was named")
	}
	out, err := m.rack.run(ctx, call{
		args:  append([]string{"exec", m.instance(), "--force-noninteractive", "--"}, argv...),
		stdin: stdin,
	})
	var failed *ExitError
	if errors.As(err, &failed) {
		failed.Program = argv[0]
	}
	if err != nil {
		return out, fmt.Errorf("run on machine %s: %w", m.name, err)
	}
	return out, nil
}

func (m *container) Push(ctx context.Context, file string, mode fs.FileMode, content []byte) error {
	args := []string{
		"file", "push", "-", m.instance() + path.Clean("/"+file), "--create-dirs", "--quiet",
		"--uid", "0", "--gid", "0", "--mode", "0" + strconv.FormatUint(uint64(mode.Perm()), 8),
	}
	if _, err := m.rack.run(ctx, call{args: args, stdin: bytes.NewReader(content)}); err != nil {
		return fmt.Errorf("write %s on machine %s: %w", file, m.name, err)
	}
	return nil
}

func (m *container) Stop(ctx context.Context) error {
	return errors.Join(m.remember(ctx, "off"), m.halt(ctx, false))
}

func (m *container) Kill(ctx context.Context) error {
	return errors.Join(m.remember(ctx, "off"), m.halt(ctx, true))
}

// halt stops the container without recording that it shall stay off. If it does
// not obey, for example early in its boot, it loses power.
func (m *container) halt(ctx context.Context, force bool) error {
	running, err := m.Running(ctx)
	if err != nil || !running {
		return err
	}
	if !force && m.rack.do(ctx, "stop", m.instance(), "--timeout", "10") == nil {
		return nil
	}
	if err := m.rack.do(ctx, "stop", m.instance(), "--force"); err != nil {
		return fmt.Errorf("stop machine %s: %w", m.name, err)
	}
	return nil
}

func (m *container) Delete(ctx context.Context) error {
	err := m.rack.do(ctx, "delete", m.instance(), "--force")
	if err != nil && !notFound(err) {
		return fmt.Errorf("delete machine %s: %w", m.name, err)
	}
	return nil
}
