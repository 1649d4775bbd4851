package steps

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"gpuaas/contract/agentwire"
)

func local(scratch ...string) agentwire.StorageCleanupParams {
	return agentwire.StorageCleanupParams{Scope: "local", Scratch: scratch}
}

func TestCleanupOfFolders(t *testing.T) {
	b := newBench(t)
	b.Write("/tmp/a", strings.Repeat("x", 5000))
	b.Write("/tmp/dir/sub/b", "x")
	b.Write("/tmp/dir/.hidden", "x")
	b.Write("/tmp/systemd-private-1-x.service/tmp/in-use", "x")
	b.Write("/var/tmp/c", "x")
	b.Write("/scratch/d", "x")
	b.Write("/share3/job/e", "x")
	b.Write("/etc/keep", "x")
	for _, link := range []string{"../etc", "../etc/keep", "/etc", "nowhere"} {
		if err := os.Symlink(link, b.Path("/tmp/link-"+strings.ReplaceAll(link, "/", "-"))); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(b.Path("/tmp/pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(b.Path("/etc/keep"), b.Path("/tmp/hard")); err != nil {
		t.Fatal(err)
	}
	j := b.job(agentwire.TypeStorageCleanup, local("/share3"))
	j.mustCheck(false)
	out := j.apply().(agentwire.StorageCleanupOutput)
	j.mustCheck(true)
	if out.EntriesRemoved != 15 || out.BytesFreed < 5000 || len(out.Residue) > 0 {
		t.Errorf("output %+v", out)
	}
	for n, want := range []agentwire.FolderCleaned{
		{Path: "/tmp", Outcome: "emptied"},
		{Path: "/var/tmp", Outcome: "emptied"},
		{Path: "/scratch", Outcome: "emptied"},
		{Path: "/share3", Outcome: "emptied"},
	} {
		got := out.Folders[n]
		if got.EntriesRemoved == 0 || got.BytesFreed == 0 {
			t.Errorf("folder %+v", got)
		}
		if got.EntriesRemoved, got.BytesFreed = 0, 0; got != want {
			t.Errorf("folder %+v, want %+v", got, want)
		}
	}
	if len(out.Devices) != 0 {
		t.Errorf("devices %+v", out.Devices)
	}
	if os.Geteuid() == 0 && !b.Exists("/tmp/systemd-private-1-x.service/tmp/in-use") {
		t.Error("the folder of a running service was emptied")
	}
	for _, folder := range []string{"/tmp", "/var/tmp", "/scratch", "/share3"} {
		left, err := os.ReadDir(b.Path(folder))
		left = slices.DeleteFunc(left, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), "systemd-private-") })
		if err != nil || len(left) > 0 {
			t.Errorf("%s holds %v, %v", folder, left, err)
		}
	}
	if b.Read("/etc/keep") != "x" {
		t.Error("a link was followed")
	}
	again := b.job(agentwire.TypeStorageCleanup, local("/share3")).apply().(agentwire.StorageCleanupOutput)
	if again.EntriesRemoved != 0 {
		t.Errorf("the second time %+v", again)
	}
}

// A tenant makes a folder that looks like the folder of a system service.
func TestCleanupRemovesWhatOnlyLooksLikeTheSystems(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("only root can give files away")
		return
	}
	b := newBench(t)
	b.Write("/tmp/systemd-private-mine/data", "x")
	if err := os.Chown(b.Path("/tmp/systemd-private-mine"), 20001, 20001); err != nil {
		t.Fatal(err)
	}
	b.Write("/tmp/systemd-private-file", "x")
	b.job(agentwire.TypeStorageCleanup, local()).apply()
	if b.Exists("/tmp/systemd-private-mine") || b.Exists("/tmp/systemd-private-file") {
		t.Error("kept")
	}
}

func TestCleanupDoesNotFollowLinksToFolders(t *testing.T) {
	b := newBench(t)
	b.Write("/etc/important/file", "x")
	b.Mkdir("/share1")
	for link, to := range map[string]string{"/share1/job": "../etc/important", "/scratch": "etc/important"} {
		if err := os.Symlink(to, b.Path(link)); err != nil {
			t.Fatal(err)
		}
	}
	out := b.job(agentwire.TypeStorageCleanup, local("/share1/job", "/data/none")).apply().(agentwire.StorageCleanupOutput)
	if len(out.Residue) != 2 || !strings.Contains(out.Residue[0], "symbolic link") || !b.Exists("/etc/important/file") ||
		out.Folders[2].Outcome != "skipped" || out.Folders[4].Outcome != "not_there" {
		t.Errorf("output %+v", out)
	}
}

// While folders are opened, a tenant keeps replacing one by links to others:
// outside, and to one in the same folder that must not be touched.
func TestFoldersAreOpenedSafelyAgainstExchanges(t *testing.T) {
	b := newBench(t)
	b.Write("/etc/important/file", "x")
	b.Write("/tmp/systemd-private-1/tmp/file", "x")
	stop := make(chan struct{})
	var swapper sync.WaitGroup
	swapper.Go(func() {
		at, folder := b.Path("/tmp/a"), b.Path("/tmp/folder")
		links := []string{b.Path("/tmp/link1"), b.Path("/tmp/link2")}
		_ = errors.Join(os.Mkdir(folder, 0o755), os.Symlink("systemd-private-1/tmp", links[0]),
			os.Symlink("../etc/important", links[1]))
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			_ = errors.Join(os.Rename(folder, at), os.Rename(at, folder), os.Rename(links[i%2], at), os.Rename(at, links[i%2]))
		}
	})
	top, err := openFolder(b.Host(), "/tmp")
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	opened := 0
	for range 50_000 {
		child, err := openChild(top, "a")
		if err != nil {
			continue
		}
		opened++
		if _, err := child.Lstat("file"); err == nil {
			t.Error("a link was followed")
		}
		_ = child.Close()
	}
	close(stop)
	swapper.Wait()
	t.Logf("opened %d times", opened)
	for range 20 {
		b.job(agentwire.TypeStorageCleanup, local()).apply()
	}
	if b.Read("/etc/important/file") != "x" || b.Read("/tmp/systemd-private-1/tmp/file") != "x" {
		t.Error("something outside was removed")
	}
}

// Bind mounts have the same device as the file system below them.
func TestCleanupCrossesNoMounts(t *testing.T) {
	b := newBench(t)
	b.Write("/etc/important/file", "x")
	b.Write("/tmp/dir/mnt/below", "x")
	bind(t, b.Path("/etc/important"), b.Path("/tmp/dir/mnt"))
	out := b.job(agentwire.TypeStorageCleanup, local()).apply().(agentwire.StorageCleanupOutput)
	if b.Read("/etc/important/file") != "x" {
		t.Fatal("a mounted folder was emptied")
	}
	if !slices.ContainsFunc(out.Residue, func(
		r string,
	) bool {
		return strings.HasPrefix(r, "/tmp/dir/mnt: it is a mount point")
	}) || out.Folders[0].Outcome != "incomplete" {
		t.Errorf("output %+v", out)
	}
}

func TestCleanupLeavesSharedFileSystemsAlone(t *testing.T) {
	b := newBench(t)
	b.Write("/scratch/of-everybody", "x")
	b.Write("/proc/self/mountinfo", "21 1 254:0 / / rw - ext4 /dev/vda rw\n30 21 0:40 / /scratch rw - nfs4 server:/x rw\n")
	out := b.job(agentwire.TypeStorageCleanup, local()).apply().(agentwire.StorageCleanupOutput)
	if !b.Exists("/scratch/of-everybody") || len(out.Residue) != 1 || !strings.Contains(out.Residue[0], "nfs4") ||
		out.Folders[2].Outcome != "skipped" || !strings.Contains(out.Folders[2].Reason, "nfs4") {
		t.Errorf("output %+v", out)
	}
}

// A tree that is deeper than the agent may open files is removed all the same.
func TestCleanupOfDeepTrees(t *testing.T) {
	b := newBench(t)
	at, err := os.OpenRoot(b.Path("/tmp"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1500 {
		if err := at.Mkdir("d", 0o700); err != nil {
			t.Fatalf("level %d: %v", i, err)
		}
		next, err := at.OpenRoot("d")
		_ = at.Close()
		if err != nil {
			t.Fatal(err)
		}
		at = next
	}
	_ = at.Close()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
	}()
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 256, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	out := b.job(agentwire.TypeStorageCleanup, local()).apply().(agentwire.StorageCleanupOutput)
	if left, _ := os.ReadDir(b.Path("/tmp")); len(left) > 0 || out.EntriesRemoved != 1500 || len(out.Residue) > 0 {
		t.Errorf("%d left, output %+v", len(left), out)
	}
}

func TestCleanupCanBeCancelled(t *testing.T) {
	b := newBench(t)
	for i := range 100 {
		b.Write(fmt.Sprintf("/tmp/%d", i), "x")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	j := b.job(agentwire.TypeStorageCleanup, local())
	if _, err := j.handler.Apply(ctx, j.task); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	j.mustCheck(false)
	j.apply()
	j.mustCheck(true)
}

func TestCleanupOfSharedMemory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("only root can give files away")
		return
	}
	b := newBench(t)
	b.Write("/dev/shm/of-tenant", "x")
	b.Write("/dev/shm/of-system", "x")
	if err := os.Chown(b.Path("/dev/shm/of-tenant"), 20001, 20001); err != nil {
		t.Fatal(err)
	}
	b.job(agentwire.TypeStorageCleanup, local()).apply()
	if b.Exists("/dev/shm/of-tenant") || !b.Exists("/dev/shm/of-system") {
		t.Error("the wrong one was removed")
	}
}

// More entries than are read at a time, also if not all can be removed.
func TestCleanupOfACrowdedFolder(t *testing.T) {
	b := newBench(t)
	b.Mkdir("/tmp/many")
	const files = 2*batch + 1
	for i := range files {
		f, err := os.Create(b.Path(fmt.Sprintf("/tmp/many/%d", i)))
		if err != nil || f.Close() != nil {
			t.Fatal(err)
		}
	}
	out := b.job(agentwire.TypeStorageCleanup, local()).apply().(agentwire.StorageCleanupOutput)
	if out.EntriesRemoved != files+1 || len(out.Residue) > 0 || b.Exists("/tmp/many") {
		t.Errorf("output %+v", out)
	}
}
