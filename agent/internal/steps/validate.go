package steps

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gpuaas/agent/internal/inspect"
	"gpuaas/agent/internal/task"
	"gpuaas/contract/agentwire"
)

var _ = handles(func(h host) task.Handler { return validateClean{h} }, agentwire.TypeValidateClean)

// validateClean looks for anything that a tenant left behind.
type validateClean struct{ host }

// maxFindings limits the list; the verdict does not need all of them.
const maxFindings = 200

// Ids of users that can only be tenants: those up to lastUID are allocation
// users, and those from firstSubordUID belong to their user namespaces.
const (
	lastUID        = 60000
	firstSubordUID = 100000
)

func tenantUID(uid int) bool {
	return uid >= agentwire.MinUID && uid <= lastUID || uid >= firstSubordUID
}

// tenantAreas are where mounts that /etc/fstab does not name come from tenants.
var tenantAreas = []string{"/home", "/tmp", "/var/tmp", "/scratch", "/share", "/mnt", "/media", "/local", "/data"}

// idleGPUMemory is how much of a GPU's memory a driver may use while nobody
// uses the GPU.
const idleGPUMemory = 1 << 30

// inspection collects what speaks against a machine.
type inspection struct {
	allowed  []string
	uids     []int // of allowed users
	findings []agentwire.CleanFinding
	checked  []agentwire.CheckedKind
	// inventory is the inventory of the installation. It is nil if nobody
	// asked.
	inventory *agentwire.Inventory
	report    func(name, status, message string)
}

func (i *inspection) found(kind, subject, format string, args ...any) {
	if len(i.findings) < maxFindings {
		i.findings = append(i.findings, agentwire.CleanFinding{
			Kind: kind, Subject: printable(subject),
			Detail: fmt.Sprintf(format, args...),
		})
	}
}

// looked says how much of a kind was looked at.
type looked struct {
	detail  string
	nothing bool // this machine has nothing of the kind
}

func count(format string, args ...any) looked { return looked{detail: fmt.Sprintf(format, args...)} }

func none(why string) looked { return looked{detail: why, nothing: true} }

// tenant says whether a uid belongs to a tenant that should not be here.
func (i *inspection) tenant(uid int) bool { return tenantUID(uid) && !slices.Contains(i.uids, uid) }

// Check implements task.Handler. Looking is the whole task.
func (h validateClean) Check(ctx context.Context, t *task.Task) (any, bool, error) {
	p, err := params[agentwire.ValidateCleanParams](t)
	if err != nil {
		return nil, false, err
	}
	i := &inspection{allowed: p.AllowedUsers, findings: []agentwire.CleanFinding{}, report: t.Reporter.Step}
	kinds := []struct {
		name string
		look func(context.Context, *inspection) (looked, error)
	}{
		{"users", h.lookUsers}, // first: it finds the ids of allowed users
		{"processes", h.lookProcesses},
		{"mounts", h.lookMounts},
		{"ipc", h.lookIPC},
		{"tmp", h.lookTemp},
		{"disks", h.lookDisks},
		{"files", h.lookEverywhere},
		{"gpu_memory", h.lookGPUMemory},
		{"gpu_processes", h.lookGPUProcesses},
		{"terminals", h.lookTerminals},
	}
	for _, k := range kinds {
		before := len(i.findings)
		seen, err := k.look(ctx, i)
		if ctx.Err() != nil {
			return nil, false, fmt.Errorf("look at %s: %w", k.name, ctx.Err())
		}
		if err != nil {
			// What cannot be looked at is not clean.
			i.found(k.name, k.name, "could not be looked at: %v", err)
		}
		result := agentwire.CheckedKind{Kind: k.name, Result: "clean", Detail: seen.detail}
		switch {
		case len(i.findings) > before || before == maxFindings:
			result.Result = "findings"
		case seen.nothing:
			result.Result = notApplicable
		}
		i.checked = append(i.checked, result)
		t.Reporter.Step(k.name, "succeeded", result.Result)
	}
	return agentwire.ValidateCleanOutput{
		Clean: len(i.findings) == 0, Findings: i.findings, Checked: i.checked,
		Inventory: i.inventory,
	}, true, nil
}

// Apply implements task.Handler.
func (h validateClean) Apply(ctx context.Context, t *task.Task) (any, error) {
	out, _, err := h.Check(ctx, t)
	return out, err
}

func (h validateClean) lookUsers(_ context.Context, i *inspection) (looked, error) {
	accounts, err := h.machine.Accounts()
	if err != nil {
		return looked{}, err
	}
	for _, a := range accounts {
		switch allowed := slices.Contains(i.allowed, a.Name); {
		case a.UID == 0 && a.Name != "root": // whatever it is called
			i.found("users", a.Name, "an account with the rights of root")
		case allowed:
			i.uids = append(i.uids, a.UID)
		case tenantUID(a.UID):
			i.found("users", a.Name, "account with uid %d", a.UID)
		}
	}
	marks, err := h.tenants()
	if err != nil {
		return looked{}, err
	}
	for _, m := range marks {
		if !slices.Contains(i.allowed, m.Username) {
			i.found("users", m.Username, "account of allocation %s was not removed completely", m.AllocationID)
		}
	}
	homes, err := h.lookHomes(i)
	return count("%d accounts, %d homes, %d notes of allocation users", len(accounts), homes, len(marks)), err
}

func (h validateClean) lookHomes(i *inspection) (int, error) {
	homes, err := os.ReadDir(h.Host.Path("/home"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("list homes: %w", err)
	}
	for _, e := range homes {
		if info, err := e.Info(); err == nil && i.tenant(int(stat(info).Uid)) {
			i.found("users", "/home/"+e.Name(), "a home of uid %d", stat(info).Uid)
		}
	}
	rules, err := filepath.Glob(h.Host.Path(sudoersPath("*")))
	if err != nil {
		return 0, fmt.Errorf("list sudo rules: %w", err)
	}
	for _, r := range rules {
		if name := strings.TrimPrefix(filepath.Base(r), "gpuaas-"); !slices.Contains(i.allowed, name) {
			i.found("users", sudoersPath(name), "a sudo rule of an allocation user")
		}
	}
	return len(homes), nil
}

func (h validateClean) lookProcesses(_ context.Context, i *inspection) (looked, error) {
	all, err := h.machine.Processes()
	if errors.Is(err, fs.ErrNotExist) && !h.Host.Real() {
		return none("this machine shows no processes"), nil
	}
	if err != nil {
		return looked{}, err
	}
	for _, p := range all {
		if at := slices.IndexFunc(p.UIDs, i.tenant); at >= 0 {
			i.found("processes", strconv.Itoa(p.PID), "%s of uid %d", printable(p.Name), p.UIDs[at])
		}
	}
	return count("%d processes", len(all)), nil
}

func (h validateClean) lookMounts(_ context.Context, i *inspection) (looked, error) {
	mounts, err := h.machine.Mounts()
	if errors.Is(err, fs.ErrNotExist) && !h.Host.Real() {
		return none("this machine shows no mounts"), nil
	}
	if err != nil {
		return looked{}, err
	}
	wanted := h.machine.FileTable()
	for _, m := range mounts {
		if why := h.foreign(m, wanted, i); why != "" {
			i.found("mounts", m.Point, "%s from %s: %s", m.Type, printable(m.Source), why)
		}
	}
	return count("%d mounts", len(mounts)), nil
}

// foreign says why a mount belongs to a tenant. It is empty if it does not.
func (h validateClean) foreign(m inspect.Mount, wanted []inspect.Mount, i *inspection) string {
	if m.Type == wekaType {
		return "a Weka file system of a tenant"
	}
	if uid, ok := h.mountedFor(m); ok && i.tenant(uid) {
		return "mounted for uid " + strconv.Itoa(uid)
	}
	if uid, ok := strings.CutPrefix(m.Point, "/run/user/"); ok {
		uid, _, _ = strings.Cut(uid, "/")
		if n, err := strconv.Atoi(uid); err == nil && i.tenant(n) {
			return "the runtime folder of uid " + uid
		}
	}
	if slices.ContainsFunc(wanted, func(w inspect.Mount) bool { return w.Point == m.Point }) {
		return ""
	}
	for _, area := range tenantAreas {
		// The area itself may be a disk of the site; mounts inside it may not.
		if m.Point != area && inspect.Within(m.Point, area) {
			return "not in the file system table of the machine"
		}
	}
	return ""
}

// mountedFor returns the user for whom a mount was made. FUSE names ids of the
// machine, other file systems those of the host system.
func (h validateClean) mountedFor(m inspect.Mount) (uid int, ok bool) {
	if value, ok := m.Option("user_id"); ok {
		uid, err := strconv.Atoi(value)
		return uid, err == nil
	}
	value, ok := m.Option("uid")
	if !ok {
		return 0, false
	}
	outer, err := strconv.Atoi(value)
	if err != nil {
		return 0, false
	}
	return h.machine.OwnUID(outer)
}

func (h validateClean) lookGPUMemory(ctx context.Context, i *inspection) (looked, error) {
	report, err := h.GPU.Inspect(ctx)
	if err != nil {
		return looked{}, err
	}
	for _, pci := range report.Unreachable {
		i.found("gpu_memory", pci, "no driver answers for this GPU")
	}
	for _, g := range report.GPUs {
		if g.MemoryUsed > idleGPUMemory {
			i.found("gpu_memory", g.UUID, "%d of %d bytes are in use", g.MemoryUsed, g.MemoryTotal)
		}
	}
	return gpus(len(report.GPUs) + len(report.Unreachable)), nil
}

func (h validateClean) lookGPUProcesses(ctx context.Context, i *inspection) (looked, error) {
	report, err := h.GPU.Inspect(ctx)
	if err != nil {
		return looked{}, err
	}
	for _, p := range report.Processes() {
		i.found("gpu_processes", strconv.Itoa(p.PID), "%s process on a GPU", p.Kind)
	}
	return gpus(len(report.GPUs)), nil
}

func gpus(n int) looked {
	if n == 0 {
		return none("this machine has no GPU")
	}
	return count("%d GPUs", n)
}

func (h validateClean) lookTerminals(_ context.Context, i *inspection) (looked, error) {
	n := h.Terminals.Count()
	// Only tenants have sessions. If an allowed tenant is here, they may have
	// one.
	if n > 0 && !slices.ContainsFunc(i.uids, tenantUID) {
		i.found("terminals", "sessions", "%d are open", n)
	}
	return count("%d sessions", n), nil
}
