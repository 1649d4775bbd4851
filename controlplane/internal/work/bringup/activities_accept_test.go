package bringup_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
)

// shows lets the agent say what is on its data disks.
func (w *world) shows(t *testing.T, job *bringup.Work, disks ...agentwire.DataDisk) {
	t.Helper()
	raw, err := json.Marshal(agentwire.DataDisksOutput{Action: agentwire.DataDisksLook, Disks: disks})
	if err != nil {
		t.Fatal(err)
	}
	tag, err := w.owner.Exec(t.Context(), `UPDATE node_tasks SET status = 'succeeded', finished_at = now(), output = $3
		WHERE node_id = $1 AND type = $2 AND status = 'queued'`, job.Node, agentwire.TypeDataDisks, raw)
	if err != nil || tag.RowsAffected() != 1 {
		t.Fatalf("%d tasks, %v", tag.RowsAffected(), err)
	}
}

func TestAMachineWithDataOnItsDisksDoesNotBecomeANode(t *testing.T) {
	t.Parallel()
	tasks := &agenttask.Commands{}
	w, _, job := deployedWorld(t, func(p *plan) {
		p.config.Tasks, p.policy.DataDisks = tasks, set(site.DisksRequireClean)
	})
	tasks.DB = w.db
	w.polls(t, job)
	w.does(t, bringup.WaitForAgentEnrollment, job)
	w.answers(t, job, agentwire.TypeLoginLock, "succeeded", "")
	if r := w.does(t, bringup.WaitForAgentEnrollment, job); r.Await == nil {
		t.Fatalf("nobody looks at the disks: %+v", r)
	}
	blank := agentwire.DataDisk{Device: "/dev/nvme1n1", Serial: "S-1", State: agentwire.DataDiskBlank}
	w.shows(t, job, blank,
		agentwire.DataDisk{Device: "/dev/nvme2n1", Serial: "S-2", State: agentwire.DataDiskHoldsData, Reason: "not blank"})
	f := w.fails(t, bringup.WaitForAgentEnrollment, job, bringup.HardwareMismatch, "data_disks_not_clean")
	if !f.Final || !strings.Contains(f.Message, "/dev/nvme2n1") || !bringup.Unaccepted(f.Code.String()) {
		t.Errorf("it fails with %+v", f)
	}
	job.Epoch++ // somebody wiped it, and resumed
	w.does(t, bringup.WaitForAgentEnrollment, job)
	w.shows(t, job, blank, agentwire.DataDisk{Device: "/dev/nvme2n1", Serial: "S-2", State: agentwire.DataDiskBlank})
	r := w.does(t, bringup.WaitForAgentEnrollment, job)
	if r.Await != nil || !slices.Equal(job.Facts.BlankDisks, []string{"S-1", "S-2"}) {
		t.Errorf("%+v; blank are %q", r, job.Facts.BlankDisks)
	}
}

// What a tenant left on a disk that was blank when the node joined, a stage that follows
// cleans: the reimage that is to clean it must not stop for it. What nobody knows stops it.
func TestAReimageDoesNotStopForWhatATenantLeftOnDisksThatWereBlank(t *testing.T) {
	t.Parallel()
	tasks := &agenttask.Commands{}
	w, _, job := deployedWorld(t, func(p *plan) {
		p.config.Tasks, p.policy.DataDisks = tasks, set(site.DisksRequireClean)
	})
	tasks.DB = w.db
	w.polls(t, job)
	w.does(t, bringup.WaitForAgentEnrollment, job)
	w.answers(t, job, agentwire.TypeLoginLock, "succeeded", "")
	w.does(t, bringup.WaitForAgentEnrollment, job)
	left := agentwire.DataDisk{Device: "/dev/nvme1n1", Serial: "S-1", State: agentwire.DataDiskHoldsData}
	alien := agentwire.DataDisk{Device: "/dev/nvme2n1", Serial: "S-2", State: agentwire.DataDiskHoldsData}
	job.Reimage, job.BlankBefore = true, []string{"S-1", "S-9"}
	w.shows(t, job, left, alien)
	f := w.fails(t, bringup.WaitForAgentEnrollment, job, bringup.HardwareMismatch, "data_disks_not_clean")
	if !strings.Contains(f.Message, "/dev/nvme2n1") || strings.Contains(f.Message, "/dev/nvme1n1") {
		t.Errorf("it fails with %s", f.Message)
	}
	job.Epoch++
	w.does(t, bringup.WaitForAgentEnrollment, job)
	w.shows(t, job, left)
	r := w.does(t, bringup.WaitForAgentEnrollment, job)
	if r.Await != nil || !slices.Equal(job.Facts.BlankDisks, []string{"S-1"}) {
		t.Errorf("%+v; blank are %q", r, job.Facts.BlankDisks)
	}
}

func TestOnlyMatchingHardwareIsAcceptedWhereTheRequestSaysSo(t *testing.T) {
	t.Parallel()
	w, _, job := deployedWorld(t)
	job.Facts.Asked = &bringup.AskedFacts{MatchHardware: true}
	w.polls(t, job)
	if _, err := w.owner.Exec(t.Context(), `UPDATE skus SET gpu_model = 'H200', gpu_vendor = 'nvidia', gpus_total = 2,
		hardware = '{"memory_gib": 512, "disks": 2, "nics": 3}' WHERE id = $1`, someSKU); err != nil {
		t.Fatal(err)
	}
	inspected := func(c agentwire.Capabilities) {
		raw, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.owner.Exec(t.Context(), `INSERT INTO node_inspections (node_id, found) VALUES ($1, $2)
			ON CONFLICT (node_id) DO UPDATE SET found = $2`, job.Node, raw); err != nil {
			t.Fatal(err)
		}
	}
	short := agentwire.Capabilities{
		GPUs: []agentwire.GPU{{Name: "NVIDIA H200"}, {Name: "NVIDIA H100 80GB HBM3"}}, MemoryBytes: 256 << 30,
		Disks: []agentwire.Disk{{Name: "sda"}, {Name: "sdb"}}, NICs: []agentwire.NIC{{Name: "eno1"}},
	}
	inspected(short)
	f := w.fails(t, bringup.WaitForAgentEnrollment, job, bringup.HardwareMismatch, "hardware_does_not_match")
	for _, part := range []string{"NVIDIA H100 80GB HBM3", "GiB of memory", "1 network interfaces"} {
		if !strings.Contains(f.Message, part) {
			t.Errorf("%q is not explained: %s", part, f.Message)
		}
	}
	if strings.Contains(f.Message, "disks") || !f.Final {
		t.Errorf("it fails with %+v", f)
	}
	whole := short
	whole.GPUs = []agentwire.GPU{{Name: "NVIDIA H200"}, {Name: "NVIDIA H200"}}
	whole.MemoryBytes, whole.NICs = 504<<30, make([]agentwire.NIC, 3)
	inspected(whole)
	if r := w.does(t, bringup.WaitForAgentEnrollment, job); r.Await != nil ||
		!strings.Contains(r.Message, "its hardware is that of") {
		t.Errorf("%+v", r)
	}
}
