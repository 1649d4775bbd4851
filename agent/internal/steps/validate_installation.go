package steps

import (
	"context"
	"slices"
	"strings"

	"gpuaas/agent/internal/baseline"
	"gpuaas/agent/internal/inspect"
	"gpuaas/agent/internal/task"
	"gpuaas/contract/agentwire"
)

// lookEverywhere looks at every file of every local file system for files of
// tenants, and makes the inventory of the installation. The control plane has
// the baseline and decides what the inventory means.
func (h validateClean) lookEverywhere(ctx context.Context, i *inspection) (looked, error) {
	taker, err := h.taker()
	if err != nil {
		return looked{}, err
	}
	given := taker.Given
	taker.Given = func(id int) bool { return given(id) && !slices.Contains(i.uids, id) }
	taker.Progress = func(point string) { i.report("files", "started", "looking at "+printable(point)) }
	taken, err := taker.Take(ctx)
	if err != nil {
		return looked{}, err
	}
	for _, f := range taken.Owned {
		if !i.covers(f.Subject) {
			i.found(f.Kind, f.Subject, "%s", f.Detail)
		}
	}
	for _, u := range taken.Inventory.Unseen {
		i.found("files", "files", "could not be looked at: %s", u)
	}
	// A control plane that never asked for a baseline does not know
	// inventories.
	state, known, err := baseline.ReadState(h.Host)
	if err != nil || known {
		i.inventory = &taken.Inventory
	}
	if err == nil && known && !state.Final {
		err = h.stillFresh(ctx, taken.Inventory)
	}
	if err != nil {
		i.report("baseline", "failed", err.Error())
	}
	detail := count("%d files on %s", taken.Files, strings.Join(taken.Points, ", "))
	if len(taken.Shared) > 0 {
		detail.detail += "; shared with other machines and not looked at: " + strings.Join(taken.Shared, ", ")
	}
	return detail, nil
}

// stillFresh hands over the inventory of an installation that is validated
// before its first tenant: changes since its first boot are no finding then.
func (h validateClean) stillFresh(ctx context.Context, now agentwire.Inventory) error {
	given, err := h.givenIDs()
	if err != nil || len(given) > 0 {
		return err
	}
	return h.Baseline(ctx, now)
}

// covers says whether a path, or a folder above it, is a finding already.
func (i *inspection) covers(path string) bool {
	return slices.ContainsFunc(i.findings, func(f agentwire.CleanFinding) bool {
		return strings.HasPrefix(f.Subject, "/") && inspect.Within(path, f.Subject)
	})
}

// Amends implements task.Amender: another version of the agent has other files.
// Only those of the versions that this task changed between are told, and the
// links to them.
func (h selfUpdate) Amends(_ context.Context, t *task.Task) ([]agentwire.Entry, error) {
	taker, err := h.taker()
	if err != nil {
		return nil, err
	}
	c, ok, err := h.Updates.Last()
	if err != nil || !ok || c.TaskID != t.TaskID {
		return nil, err
	}
	return taker.AgentFiles(c.Folder, c.Home), nil
}

// Amends implements task.Amender: the task changes the settings of the timer
// and enables the units. What it wrote is told by the bytes that it wrote: what
// lies there may be of somebody else.
func (h hwSync) Amends(_ context.Context, t *task.Task) ([]agentwire.Entry, error) {
	p, err := params[agentwire.HWSyncParams](t)
	if err != nil {
		return nil, err
	}
	taker, err := h.taker()
	if err != nil {
		return nil, err
	}
	entries := []agentwire.Entry{baseline.Written(timerSettings, timerText(p.Interval))}
	ours, err := h.there(serviceSettings)
	if err != nil {
		return nil, err
	}
	if p.RunScripts != "" && ours {
		entries = append(entries, baseline.Written(serviceSettings, serviceText(p.MAASURL)))
	}
	for link, unit := range map[string]string{
		"/etc/systemd/system/timers.target.wants/" + syncTimer:           syncTimer,
		"/etc/systemd/system/multi-user.target.wants/maas-agent.service": "maas-agent.service",
	} {
		for _, e := range taker.Units(link) {
			if slices.ContainsFunc(unitFolders, func(folder string) bool { return e.Value == "-> "+folder+unit }) {
				entries = append(entries, e)
			}
		}
	}
	return entries, nil
}
