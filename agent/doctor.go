package agent

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"gpuaas/agent/internal/config"
	"gpuaas/agent/internal/enroll"
	"gpuaas/agent/internal/journal"
	"gpuaas/agent/internal/transport"
	"gpuaas/contract/agentwire"
)

// Verdicts of a check.
const (
	CheckOK      = "ok"
	CheckWarning = "warning"
	CheckFailed  = "failed"
)

// Check is the result of one check.
type Check struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Detail string `json:"detail"`
	Remedy string `json:"remedy,omitempty"`
}

// minFree is the free space below which tasks will soon be refused.
const minFree = 64 << 20

// doctor gathers checks.
type doctor struct {
	o      Options
	c      config.Config
	store  enroll.Store
	checks []Check
}

// Doctor checks everything that the agent depends on, in the order in which the
// agent needs it. It changes nothing. It asks the control plane only for what
// anybody may have, so that the running agent is not taken for a second one.
func Doctor(ctx context.Context, o Options) []Check {
	d := &doctor{o: o}
	c, err := config.Load(o.HostRoot, o.ConfigPath)
	if d.report("settings", "control plane "+hostOf(c), err,
		"correct the file, or run the bootstrap command of this node again") {
		return d.checks
	}
	d.c, d.store = c, enroll.NewStore(c)
	d.identity()
	d.tasks()
	d.disk()
	d.process()
	d.reach(ctx)
	return d.checks
}

func hostOf(c config.Config) string {
	if c.API == nil {
		return ""
	}
	return c.API.Host
}

func (d *doctor) add(name, status, detail, remedy string) {
	d.checks = append(d.checks, Check{Name: name, Status: status, Detail: detail, Remedy: remedy})
}

// report records a check and says whether it failed.
func (d *doctor) report(name, good string, err error, remedy string) bool {
	if err != nil {
		d.add(name, CheckFailed, err.Error(), remedy)
		return true
	}
	d.add(name, CheckOK, good, "")
	return false
}

func (d *doctor) identity() {
	id, err := d.store.Load()
	if errors.Is(err, enroll.ErrNotEnrolled) {
		d.add("identity", CheckFailed, "this node is not enrolled", "run the bootstrap command of the node")
		return
	}
	if d.report("identity", "", err, transport.Recovery) {
		return
	}
	last := &d.checks[len(d.checks)-1]
	last.Detail = fmt.Sprintf("node %s, certificate %s until %s", id.Node, id.Serial,
		id.NotAfter.UTC().Format(time.RFC3339))
	switch now := time.Now(); {
	case now.After(id.NotAfter):
		last.Status, last.Remedy = CheckFailed, transport.Recovery
		last.Detail += ": it has expired"
	case now.Before(id.NotBefore):
		last.Status, last.Remedy = CheckFailed, "set the clock of the node"
		last.Detail += ": it is not valid yet"
	case now.After(id.RenewAfter.Add(id.NotAfter.Sub(id.RenewAfter) / 2)):
		last.Status, last.Remedy = CheckWarning, "look at the log of the agent: it does not succeed in renewing"
	}
	if info, err := os.Stat(filepath.Join(d.c.Identity(), "key.pem")); err == nil && info.Mode().Perm()&0o077 != 0 {
		d.add("key", CheckFailed, fmt.Sprintf("the key of the node has mode %04o: others can read it", info.Mode().Perm()),
			"chmod 600 "+filepath.Join(d.c.Identity(), "key.pem")+", and enrol again if somebody may have read it")
	}
	d.report("node certificate authority", "the certificate was issued by the authority in "+d.c.NodeCABundle,
		d.store.NodeIssuer(), transport.Recovery)
}

func (d *doctor) tasks() {
	trust, err := d.store.OpenTrust("")
	switch {
	case err != nil:
		d.add("verifiers", CheckFailed, err.Error(), transport.Recovery)
	case trust.Verifiers().Version() == 0:
		d.add("verifiers", CheckFailed, "there is no verifier set: every task is refused", transport.Recovery)
	default:
		set := trust.Verifiers().Set()
		d.add("verifiers", CheckOK, fmt.Sprintf("version %d with %d keys", set.Version, len(set.Verifiers)), "")
	}
	if err == nil && trust.Refused() != nil {
		r := trust.Refused()
		d.add("trust", CheckWarning, fmt.Sprintf("refused at %s: %s", r.At.Format(time.RFC3339), r.Error()), distrustRemedy)
	}
	unfinished, unsent, damage, err := journal.Look(d.c.Journal())
	if d.report("journal", fmt.Sprintf("%d tasks unfinished, %d results unsent", unfinished, unsent), err,
		"check the disk") {
		return
	}
	if len(damage) > 0 {
		d.add("journal", CheckWarning, fmt.Sprintf("%d damaged records, first: %s", len(damage), damage[0]),
			"check the disk; the agent passes damaged records over when it starts")
	}
}

func (d *doctor) disk() {
	var fs syscall.Statfs_t
	folder := d.c.State()
	if err := syscall.Statfs(folder, &fs); err != nil {
		d.add("disk", CheckFailed, fmt.Sprintf("look at %s: %v", folder, err), "")
		return
	}
	free := fs.Bavail * uint64(fs.Bsize) //nolint:gosec // a block size is positive
	if free < minFree || fs.Files > 0 && fs.Ffree == 0 {
		d.add("disk", CheckFailed, fmt.Sprintf("%d MiB and %d files free at %s", free>>20, fs.Ffree, folder),
			"free space: tasks are not started when they cannot be written down")
		return
	}
	d.add("disk", CheckOK, fmt.Sprintf("%d MiB free at %s", free>>20, folder), "")
}

func (d *doctor) process() {
	h := readHealth(d.c.Status())
	switch {
	case !held(d.c.Lock()):
		d.add("agent", CheckFailed, "it is not running", "systemctl start gpuaas-node-agent")
	case h.State == StateConnected:
		d.add("agent", CheckOK, fmt.Sprintf("process %d, connected, last contact %s", h.ProcessID,
			h.LastContactAt.Format(time.RFC3339)), "")
	case h.State == StateStarting:
		d.add("agent", CheckWarning, fmt.Sprintf("process %d is starting", h.ProcessID), "")
	default:
		d.add("agent", CheckFailed, h.State+": "+h.Message, h.Remedy)
	}
}

// reach does not use the identity of the node, because two sessions under one
// identity raise an alarm.
func (d *doctor) reach(ctx context.Context) {
	roots, err := d.store.Roots()
	if d.report("control plane authority", "bundle "+d.c.CABundle, err, "run the bootstrap command of this node again") {
		return
	}
	client := transport.New(transport.Options{
		Base: d.c.API, Roots: roots, Version: d.o.Build.Version, Now: time.Now,
		Certificate: func() *tls.Certificate { return nil },
	})
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var served bytes.Buffer
	if err := client.Reach(ctx, &served); err != nil {
		e := refusedFor(err)
		d.add("control plane", CheckFailed, e.Error(), e.Remedy)
		return
	}
	d.add("control plane", CheckOK, d.c.API.Host+" answers and is trusted", "")
	skew, known := client.Skew()
	switch {
	case !known:
		d.add("clock", CheckWarning, "the control plane did not say what time it is", "")
	case skew.Abs() > agentwire.MaxSkew:
		d.add("clock", CheckFailed, skewRefusal(skew, time.Now()).Detail,
			"set the clock of the node and keep it set: timedatectl set-ntp true")
	case skew.Abs() > agentwire.MaxSkew/5:
		d.add("clock", CheckWarning, fmt.Sprintf("it is %s off", skew.Abs().Round(time.Second)),
			"keep the clock of the node set: timedatectl set-ntp true")
	default:
		d.add("clock", CheckOK, "within "+(agentwire.MaxSkew/5).String()+" of the control plane", "")
	}
}
