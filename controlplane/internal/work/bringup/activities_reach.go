package bringup

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"slices"
	"time"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/adapter/ssh"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/job"
)

// The only commands that are ever sent to a machine over SSH. Data comes over
// standard input.
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

// deployed reads the machine of a job that has deployed it. Since then only
// this job may have changed it.
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

// reachable lists the addresses by which people reach a machine, the best first:
// those of the interface that the site prefers, then the others that MAAS reports.
// Addresses for RoCE are not among them: they lie in a network for GPUs alone.
func (b *Bringup) reachable(ctx context.Context, w *Work, m maas.Machine) ([]string, error) {
	rows, err := b.cfg.Sites.Assignments(ctx, w.Site.ID, site.AssignmentFilter{Hostname: &w.Hostname},
		postgres.Slice[site.AssignmentKey]{Limit: mostInterfaces})
	if err != nil {
		return nil, err
	}
	var preferred, apart, out []string
	for _, row := range rows {
		if p, err := netip.ParsePrefix(row.IPv4CIDR); err == nil {
			apart = append(apart, p.Addr().String())
		}
	}
	for _, i := range m.Interfaces {
		for _, l := range i.Links {
			switch {
			case i.Name == w.Site.Settings.DeploySSHIface:
				preferred = append(preferred, l.IPAddress)
			case slices.ContainsFunc(rows, func(row site.Assignment) bool { return row.Interface == i.Name }):
				apart = append(apart, l.IPAddress)
			}
		}
	}
	for _, a := range slices.Concat(preferred, m.IPAddresses) {
		if a != "" && !slices.Contains(apart, a) && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out, nil
}

// mostDialled is how many addresses of a machine are tried.
const mostDialled = 3

// reach logs in to the machine. The machine refuses logins until its first boot
// has come far enough.
func (b *Bringup) reach(ctx context.Context, w *Work, m maas.Machine) (*ssh.Client, error) {
	addresses, err := b.reachable(ctx, w, m)
	if err != nil {
		return nil, err
	}
	for _, a := range w.Facts.Addresses {
		if !slices.Contains(addresses, a) && !slices.Contains(m.IPAddresses, a) {
			addresses = append(addresses, a)
		}
	}
	if len(addresses) == 0 {
		return nil, codeNoAddress.Failed("MAAS reports no address of %s", w.Hostname).
			With("check the links of its interfaces in MAAS, %s above all", w.Site.Settings.DeploySSHIface)
	}
	how, err := b.login(ctx, w)
	if err != nil {
		return nil, err
	}
	for _, a := range addresses[:min(len(addresses), mostDialled)] {
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

// hangUp ends a session that has done its work or has failed.
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
