package steps

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpuaas/contract/agentwire"
)

func TestCleanupOfWeka(t *testing.T) {
	b := newBench(t)
	b.Install("/usr/bin/umount", "/usr/bin/weka")
	b.Write("/proc/self/mountinfo", "21 1 254:0 / / rw - ext4 /dev/vda rw\n30 21 0:40 / /mnt/w rw - wekafs a/b rw\n31 "+
		"30 0:41 / /mnt/w/sub rw - wekafs a/c rw\n32 21 0:42 / /mnt/n rw - nfs s:/x rw\n")
	b.Write("/etc/fstab", "# table\n/dev/vda / ext4 defaults 0 1\na/b /mnt/w wekafs defaults 0 0\n")
	b.Write(filepath.Join(wekaConfig[0], "auth-token.json"), "secret")
	b.Write("/tmp/stays", "x")
	j := b.job(agentwire.TypeStorageCleanup, agentwire.StorageCleanupParams{Scope: "weka"})
	b.Fail("umount")
	out := j.apply().(agentwire.StorageCleanupOutput)
	if len(out.Residue) != 3 || len(out.Unmounted) > 0 {
		t.Errorf("with a busy file system: %+v", out)
	}
	b.Heal("umount")
	b.job(agentwire.TypeStorageCleanup, agentwire.StorageCleanupParams{Scope: "weka"}).cancelIn("umount")
	out = b.job(agentwire.TypeStorageCleanup,
		agentwire.StorageCleanupParams{Scope: "all"}).apply().(agentwire.StorageCleanupOutput)
	if !slices.Equal(out.Unmounted, []string{"/mnt/w/sub", "/mnt/w"}) || b.Exists(wekaConfig[0]) ||
		b.Exists("/tmp/stays") {
		t.Errorf("output %+v", out)
	}
	if got := b.Read("/etc/fstab"); got != "# table\n/dev/vda / ext4 defaults 0 1\n" {
		t.Errorf("table\n%s", got)
	}
}

func weka(b *bench) agentwire.StorageCleanupOutput {
	b.t.Helper()
	return b.job(agentwire.TypeStorageCleanup,
		agentwire.StorageCleanupParams{Scope: "weka"}).apply().(agentwire.StorageCleanupOutput)
}

// folderOf is the evidence for a folder.
func folderOf(out agentwire.StorageCleanupOutput, path string) agentwire.FolderCleaned {
	for _, f := range out.Folders {
		if f.Path == path {
			return f
		}
	}
	return agentwire.FolderCleaned{}
}

// The containers of the client go with their state, cache, logs and traces; the
// software of the client and what is not the client's stay.
func TestWekaClientStateAndCacheAreRemoved(t *testing.T) {
	b := newBench(t)
	b.Install("/usr/bin/umount", "/usr/bin/weka")
	b.Mkdir("/stub/weka/client")
	b.Mkdir("/stub/weka/client-b")
	for _, path := range []string{
		"/opt/weka/data/client_4.2.1/cache", "/opt/weka/data/agent/machine-identifier", "/opt/weka/logs/client/weka.log",
		"/opt/weka/dist/release/4.2.1", "/opt/weka/data/client-b/x",
	} {
		b.Write(path, "what a tenant read")
	}
	out := weka(b)
	removed := []string{"weka container client", "weka container client-b"}
	if len(out.Residue) > 0 || !slices.Equal(out.ConfigRemoved, removed) {
		t.Errorf("output %+v", out)
	}
	if f := folderOf(out, "/opt/weka/data"); f.Outcome != agentwire.OutcomeEmptied || f.EntriesRemoved != 4 ||
		f.BytesFreed == 0 {
		t.Errorf("evidence %+v", f)
	}
	if f := folderOf(out, "/opt/weka/traces"); f.Outcome != agentwire.OutcomeNotThere {
		t.Errorf("evidence %+v", f)
	}
	for path, stays := range map[string]bool{
		"/opt/weka/data/client_4.2.1": false, "/opt/weka/data/client-b": false, "/opt/weka/logs/client": false,
		"/opt/weka/data/agent/machine-identifier": true, "/opt/weka/dist/release/4.2.1": true,
	} {
		if b.Exists(path) != stays {
			t.Errorf("%s: stays %v", path, !stays)
		}
	}
	const inOrder = "weka local stop --force client\nweka local rm --force client\n"
	if calls := strings.Join(b.Calls(), "\n"); !strings.Contains(calls, inOrder) {
		t.Errorf("calls\n%s", calls)
	}
}

// A file system that is in use keeps its client: what was written and not sent
// yet would be lost.
func TestAWekaClientInUseIsLeftAlone(t *testing.T) {
	b := newBench(t)
	b.Install("/usr/bin/umount", "/usr/bin/weka")
	b.Mkdir("/stub/weka/client")
	b.Write("/opt/weka/data/client/cache", "what a tenant read")
	b.Write("/proc/self/mountinfo", "30 21 0:40 / /mnt/w rw - wekafs a/b rw\n")
	b.Fail("umount")
	out := weka(b)
	if len(out.Residue) == 0 || !strings.Contains(strings.Join(out.Residue, "; "), "is in use") ||
		!b.Exists("/opt/weka/data/client/cache") {
		t.Errorf("output %+v", out)
	}
	if calls := strings.Join(b.Calls(), "\n"); strings.Contains(calls, "local stop") {
		t.Errorf("calls\n%s", calls)
	}
}

// What is not known how to clean is said, and never passed over.
func TestAWekaClientThatIsUnknownIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(b *bench)
		says    string
	}{
		"no program":      {func(b *bench) { b.Mkdir("/opt/weka/data") }, "no program at /usr/bin/weka"},
		"only its module": {func(b *bench) { b.Mkdir("/sys/module/wekafsio") }, "/sys/module/wekafsio"},
		"it does not answer": {
			func(b *bench) { b.Install("/usr/bin/weka"); b.Fail("weka") }, "does not say which containers",
		},
		"it says something else": {func(b *bench) {
			b.Install("/usr/bin/weka")
			b.Say("weka", "CONTAINER STATE\n")
		}, "decode its answer"},
		"a server of storage": {func(b *bench) {
			b.Install("/usr/bin/weka")
			b.Mkdir("/stub/weka/drives0")
		}, "drives0: it is not a client's"},
		"a client that stays": {func(b *bench) {
			b.Install("/usr/bin/weka")
			b.Mkdir("/stub/weka/client-stubborn")
		}, "client-stubborn: rm:"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			c.prepare(b)
			out := weka(b)
			if !strings.Contains(strings.Join(out.Residue, "; "), c.says) {
				t.Errorf("residue %q, want %q", out.Residue, c.says)
			}
		})
	}
	t.Run("none at all", func(t *testing.T) {
		out := weka(newBench(t))
		if f := folderOf(out, "/opt/weka"); len(out.Residue) > 0 || f.Outcome != agentwire.OutcomeNotThere {
			t.Errorf("output %+v", out)
		}
	})
}
