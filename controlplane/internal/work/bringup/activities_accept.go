package bringup

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/fleet/sku"
)

// Unaccepted says whether a job was parked with this code because its machine
// was not accepted. What MAAS and the agent show cannot prove that this was
// repaired.
func Unaccepted(code string) bool {
	return code == codeDataDisksNotClean.Name || code == codeDataDisksUnseen.Name || code == codeHardwareDiffers.Name
}

// Examines says whether a machine must be looked at through its agent before it
// becomes a node. Nothing that MAAS shows stands in for that.
func (w *Work) Examines() bool {
	return w.Facts.Asked != nil && w.Facts.Asked.MatchHardware ||
		w.Profile.Policy.DataDisks == site.DisksRequireClean && !w.InitializeDisks
}

// accept checks whether a machine whose agent has come may become a node: by
// its hardware, if the request asks for that, and by its data disks. await says
// what to wait for; note is for people.
func (b *Bringup) accept(ctx context.Context, w *Work) (note string, await *Await, err error) {
	if w.Facts.Asked != nil && w.Facts.Asked.MatchHardware {
		if err := b.matchHardware(ctx, w); err != nil {
			return "", nil, err
		}
		note = "; its hardware is that of " + w.SKU
	}
	if w.Profile.Policy.DataDisks != site.DisksRequireClean || w.InitializeDisks || b.cfg.Tasks == nil {
		return note, nil, nil
	}
	t, err := b.lookAtDisks(ctx, w)
	if err != nil {
		return "", nil, err
	}
	switch {
	case !t.Status.Ended():
		return "", &Await{Signal: agenttask.SignalName(t.ID), Most: agentwire.Lease}, nil
	case t.Error.Code == string(agentwire.RefusedUnknownType): // the agent is older than this task type
		return note + "; its agent is too old to look at its data disks", nil, nil
	case t.Status != agenttask.Succeeded:
		return "", nil, codeDataDisksUnseen.Failed("the agent of %s could not look at its data disks: %s", w.Hostname,
			t.Error.Message).ForGood().About(map[string]any{"task_id": t.ID.String(), "task_error": t.Error.Code})
	}
	var out agentwire.DataDisksOutput
	if err := json.Unmarshal(t.Output, &out); err != nil {
		return "", nil, codeDataDisksUnseen.Failed("what the agent of %s says of its data disks cannot be read", w.Hostname).
			ForGood().Because(err)
	}
	if err := w.blank(out.Disks); err != nil {
		return "", nil, err
	}
	return note + fmt.Sprintf("; %d of its disks are blank, or were when it joined", len(w.Facts.BlankDisks)), nil,
		w.Save(ctx)
}

// blank records which disks were blank when the machine became a node: whatever
// is on them later comes from a tenant. It refuses a machine with data on disks
// that nothing mounts, except for what a tenant left on disks that were blank
// before: a stage that follows cleans them, and the validation looks at them.
func (w *Work) blank(disks []agentwire.DataDisk) error {
	w.Facts.BlankDisks = nil
	var bad []string
	for _, d := range disks {
		state := d.State
		if state == agentwire.DataDiskHoldsData && w.Reimage && slices.Contains(w.BlankBefore, d.Serial) {
			state = agentwire.DataDiskBlank
		}
		switch state {
		case agentwire.DataDiskBlank:
			if d.Serial != "" && len(w.Facts.BlankDisks) < agentwire.MaxDataDisks {
				w.Facts.BlankDisks = append(w.Facts.BlankDisks, d.Serial)
			}
		case agentwire.DataDiskHoldsData, agentwire.DataDiskUnknown:
			bad = append(bad, strings.TrimSpace(fmt.Sprintf("%s (%s %s): %s", d.Device, d.Model, d.Serial, d.Reason)))
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return codeDataDisksNotClean.Failed("%d data disks of %s are not known to be blank: %s", len(bad), w.Hostname,
		strings.Join(bad[:min(len(bad), 3)], "; ")).ForGood().About(map[string]any{"disks": disks})
}

// lookAtDisks creates the task, once for each epoch, and waits briefly for it.
func (b *Bringup) lookAtDisks(ctx context.Context, w *Work) (t agenttask.Task, err error) {
	if err := w.Fence(ctx); err != nil {
		return t, err
	}
	err = b.cfg.DB.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		t, err = b.cfg.Tasks.Enqueue(ctx, tx, agenttask.Request{
			Node: w.Node, Type: agentwire.TypeDataDisks, Params: agentwire.DataDisksParams{Action: agentwire.DataDisksLook},
			IdempotencyKey: fmt.Sprintf("%s/%s/data-disks/%d", w.Kind, w.Job, w.Epoch), AwaitWorkflow: w.WorkflowID,
			Reason: "the profile asks for clean data disks",
		})
		return err
	})
	for began := time.Now(); err == nil && !t.Status.Ended() && time.Since(began) < lockLingers; {
		if err = leaveAlone(ctx, lockPause); err == nil {
			t, err = b.cfg.Tasks.Task(ctx, t.ID)
		}
	}
	return t, err
}

// matchHardware compares what the agent found with what the SKU says.
func (b *Bringup) matchHardware(ctx context.Context, w *Work) error {
	want, err := sku.Get(ctx, b.cfg.DB, w.SKU)
	if err != nil {
		return err
	}
	n, err := b.cfg.Nodes.Detail(ctx, w.Node)
	if err != nil {
		return err
	}
	var found agentwire.Capabilities
	if err := json.Unmarshal(n.Inspection, &found); err != nil {
		return codeHardwareDiffers.Failed("the agent of %s has not said what hardware it runs on", w.Hostname).ForGood().
			Because(err)
	}
	if wrong := differences(want.Terms, found); len(wrong) > 0 {
		return codeHardwareDiffers.Failed("%s is not a machine of SKU %s: %s", w.Hostname, w.SKU, strings.Join(wrong, "; ")).
			ForGood().About(map[string]any{"differences": wrong, "sku": w.SKU})
	}
	return nil
}

const gib = 1 << 30

// differences says where hardware falls short of a SKU. A machine may have more
// memory, disks and interfaces than its SKU asks for, but not other GPUs.
func differences(want sku.Terms, found agentwire.Capabilities) []string {
	var out []string
	short := func(have, least int64, what string) {
		if have < least {
			out = append(out, fmt.Sprintf("it has %d %s, and the SKU asks for %d at least", have, what, least))
		}
	}
	if len(found.GPUs) != int(want.GPUsTotal) {
		out = append(out, fmt.Sprintf("it has %d GPUs, and the SKU has %d", len(found.GPUs), want.GPUsTotal))
	}
	var others []string
	for _, g := range found.GPUs {
		if !namesModel(g.Name, want.GPUModel) && !slices.Contains(others, g.Name) {
			others = append(others, g.Name)
		}
	}
	if len(others) > 0 {
		out = append(out, fmt.Sprintf("it has GPUs of the model %s, and the SKU has %s", strings.Join(others, ", "),
			want.GPUModel))
	}
	// The firmware reserves some memory, so a machine never shows all of it.
	if (found.MemoryBytes+found.MemoryBytes/16)/gib < int64(want.Hardware.MemoryGiB) {
		short(found.MemoryBytes/gib, int64(want.Hardware.MemoryGiB), "GiB of memory")
	}
	short(int64(len(found.Disks)), int64(want.Hardware.Disks), "disks")
	short(int64(len(found.NICs)), int64(want.Hardware.NICs), "network interfaces")
	return out
}

// namesModel says whether the name of a GPU, as its driver tells it, holds every
// word of a model, such as "NVIDIA H200" and "H200".
func namesModel(name, model string) bool {
	words := func(s string) []string {
		return strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return strings.ContainsRune(" -_", r) })
	}
	has := words(name)
	for _, word := range words(model) {
		if !slices.Contains(has, word) {
			return false
		}
	}
	return true
}
