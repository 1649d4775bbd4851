package lab_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gpuaas/sim/lab"
	"gpuaas/sim/maas/simclock"
	"gpuaas/sim/rack"
	"gpuaas/testkit"
)

func openRack(t *testing.T, folder string) rack.Rack {
	t.Helper()
	r, err := rack.Open(t.Context(), rack.Options{Kind: rack.Process, Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// gpuaas up relies on this: the next start finds the same MAAS at the same
// address, the same machines, and what was on them.
func TestALabComesBack(t *testing.T) {
	folder := t.TempDir()
	kept, machines := filepath.Join(folder, "lab"), filepath.Join(folder, "rack")
	begin := func() (*lab.Lab, func()) {
		r := openRack(t, machines)
		l := open(t, 3, func(o *lab.Options) {
			o.Rack, o.Folder, o.DeployUser, o.DeployPassword = r, kept, "", ""
		})
		return l, func() {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			if err := r.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	l, end := begin()
	before := l.Record()
	id := l.SystemIDs()[0]
	deploy(t, l, id, "#cloud-config\nwrite_files:\n  - path: /var/lib/gpuaas-firstboot/01-x.json\n    content: hello\n")
	c, key := enter(t, l, id)
	mustSay(t, c, push, credentials(t, l, id, asIs))
	mustSay(t, c, start, "")
	heard := *brief(t, l, id).LastSync
	end()

	l, end = begin()
	defer end()
	after := l.Record()
	if after.URL != before.URL || after.Token != before.Token || after.DeployPassword != before.DeployPassword ||
		len(after.Machines) != 3 || after.Machines[0] != before.Machines[0] {
		t.Errorf("the lab came back as another one: %s %s, %d machines", after.URL, after.DeployUser, len(after.Machines))
	}
	if b := brief(t, l, id); b.Status != "Deployed" || !b.LastSync.Equal(heard) {
		t.Errorf("machine came back as %+v", b)
	}
	c, same := enter(t, l, id)
	if same != key {
		t.Error("the machine came back with another key")
	}
	if got := mustSay(t, c, look, ""); got != "hello" {
		t.Errorf("records: %q", got)
	}
	mustSay(t, c, start, "") // its credentials are still there
	if at := *brief(t, l, id).LastSync; !at.After(heard) {
		t.Error("the machine was not heard after the restart")
	}
	// Keys that are made after the restart differ from the earlier ones.
	deploy(t, l, l.SystemIDs()[1], nothing)
	if credentials(t, l, l.SystemIDs()[1], asIs) == credentials(t, l, id, asIs) {
		t.Error("two machines have one key to MAAS")
	}
}

// An agent on the machine writes other credentials without the lab's help.
func TestCredentialsThatTheAgentWrites(t *testing.T) {
	r := openRack(t, t.TempDir())
	t.Cleanup(func() { _ = r.Close(context.Background()) })
	clock := simclock.NewManual(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	l := open(t, 1, func(o *lab.Options) { o.Rack, o.Region.Clock = r, clock })
	id := l.SystemIDs()[0]
	deployAdvancing(t, l, clock, id)
	enter(t, l, id)
	clock.Advance(time.Minute) // the timer of the boot finds nothing
	all, err := r.Machines(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	if err := all[0].Push(t.Context(), "/etc/maas/maas-machine-creds.yml", 0o600,
		[]byte(credentials(t, l, id, asIs))); err != nil {
		t.Fatal(err)
	}
	deployed, pushed := *brief(t, l, id).LastSync, clock.Now()
	testkit.Eventually(t, "a report", func() bool {
		clock.Advance(time.Second)
		return brief(t, l, id).LastSync.After(deployed)
	})
	if took := clock.Now().Sub(pushed); took < 30*time.Second || took >= brief(t, l, id).SyncInterval {
		t.Errorf("the report came after %s", took)
	}
}

func TestRecordFile(t *testing.T) {
	l := open(t, 2, nil)
	file := lab.RecordFile(t.TempDir())
	if err := l.Record().Save(file); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	r, err := lab.ReadRecord(file)
	if err != nil || r.Kind != lab.Agents || r.URL != l.URL || len(r.Machines) != 2 ||
		r.Machines[1].Hostname != "gpu-00002" || r.Machines[1].IPMI == "" {
		t.Errorf("%+v, %v", r, err)
	}
}
