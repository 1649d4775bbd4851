package bringup

import (
	"cmp"
	"context"
	"net"
	"slices"
	"time"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/adapter/ssh"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/work/job"
)

// What is ever said to a machine over SSH. Data comes over standard input.
//
// The first is a pipe because standard input of a session may be a socket,
// which cannot be opened by a name.
const (
	pushSyncCredentials ssh.Command = "cat | sudo -n install -D -m 0600 /dev/stdin /etc/maas/maas-machine-creds.yml" //nolint:gosec // the name of a file
	enableSyncTimer     ssh.Command = "sudo -n systemctl enable maas_hardware_sync.timer"
	restartSyncTimer    ssh.Command = "sudo -n systemctl restart maas_hardware_sync.timer"
	startSync           ssh.Command = "sudo -n systemctl start --no-block maas_hardware_sync.service"
	readFirstBoot       ssh.Command = "sudo -n find /var/lib/gpuaas-firstboot -maxdepth 1 -name '[0-9][0-9]-*.json' -exec cat {} +"
	repeatFirstBoot     ssh.Command = "sudo -n systemd-run --collect --quiet /bin/sh /var/lib/gpuaas-firstboot/run"
)

const sshPort = "22"

// deployed reads the machine of a job that has deployed it. From then on
// nothing but this job may have changed what it is.
func (b *Bringup) deployed(ctx context.Context, r *region, w *Work) (maas.Machine, error) {
	m, err := b.machine(ctx, r, w)
	if err != nil {
		return m, err
	}
	return m, stillOurs(m, w)
}

func stillOurs(m maas.Machine, w *Work) error {
	switch {
	case m.Status != maas.StatusDeployed:
		return codeMachineNotDeployed.Failed("%s was deployed by this job, but is %s in MAAS now", w.Hostname,
			m.Status.Label()).ForGood().
			About(map[string]any{"maas_status": m.Status.Label(), "expected": maas.StatusDeployed.Label()})
	case !ours(m, w):
		return foreign(m, w)
	case m.Hollow():
		return codeMachineHollow.Failed("MAAS shows %s as Deployed, but nothing is installed on it", w.Hostname).ForGood()
	}
	return nil
}

// sshAddresses are where a machine may be reached, the best first: what the
// interface has that the site prefers, then what MAAS reports.
func sshAddresses(w *Work, m maas.Machine) []string {
	var out []string
	add := func(addresses ...string) {
		for _, a := range addresses {
			if a != "" && !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	for _, i := range m.Interfaces {
		if i.Name != w.Site.Settings.DeploySSHIface {
			continue
		}
		for _, l := range i.Links {
			add(l.IPAddress)
		}
	}
	add(m.IPAddresses...)
	add(w.Facts.Addresses...)
	return out[:min(len(out), 3)]
}

// reach logs in to the machine: before its first boot is far enough, it lets
// nobody in.
func (b *Bringup) reach(ctx context.Context, w *Work, m maas.Machine) (*ssh.Client, error) {
	addresses := sshAddresses(w, m)
	if len(addresses) == 0 {
		return nil, codeNoAddress.Failed("MAAS reports no address of %s", w.Hostname).
			With("check the links of its interfaces in MAAS, %s above all", w.Site.Settings.DeploySSHIface)
	}
	how, err := b.login(ctx, w)
	if err != nil {
		return nil, err
	}
	for _, a := range addresses {
		var c *ssh.Client
		how.Address = net.JoinHostPort(a, sshPort)
		c, err = ssh.Dial(ctx, how)
		if err == nil {
			w.Facts.SSHAddress, w.Facts.SSHHostKey = a, c.HostKey()
			return c, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if fault.CodeOf(err) != ssh.CodeUnreachable {
			break
		}
	}
	return nil, unreached(w, err)
}

// unreached gives a failure of SSH its class.
func unreached(w *Work, err error) error {
	e, known := fault.As(err)
	if !known {
		return err
	}
	f := job.CodeNamed(e.Code).FailedAs(PostDeployConnectivityFailure, "%s: %s", w.Hostname, e.Message).Because(err)
	f.Remedy = cmp.Or(e.Remedy, f.Remedy)
	switch e.Code {
	case ssh.CodeUnreachable, ssh.CodeRefused, ssh.CodeCommandFailed:
		return f
	case ssh.CodeHostKeyChanged:
		f.Class = StateAmbiguity
		return f.ForGood()
	}
	return err
}

// tell runs commands on a machine, one after another; input is for the first.
func tell(ctx context.Context, w *Work, c *ssh.Client, input redact.Secret, commands ...ssh.Command) error {
	for _, command := range commands {
		if _, err := c.Run(ctx, command, input); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return unreached(w, err)
		}
		input = redact.Secret{}
	}
	return nil
}

// hangUp ends a session that has done its work, or could not.
func (b *Bringup) hangUp(ctx context.Context, w *Work, c *ssh.Client) {
	if err := c.Close(); err != nil {
		b.cfg.Logger.DebugContext(ctx, "end of an SSH session", "hostname", w.Hostname, "error", err)
	}
}

// leaveAlone waits between two attempts to reach a machine.
func leaveAlone(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
