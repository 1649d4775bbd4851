package sanitize

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuaas/agent/internal/atomicfile"
	"gpuaas/agent/internal/hostexec"
	"gpuaas/agent/internal/inspect"
	"gpuaas/contract/agentwire"
)

// asAgent names the machine that a process of this test works on.
const asAgent = "GPUAAS_TEST_SANITIZE_ROOT"

func TestMain(m *testing.M) {
	if root := os.Getenv(asAgent); root != "" {
		if err := work(root); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// work is the agent in its own process, with a journal of files. It prints what
// it does.
func work(root string) error {
	host := inspect.Machine{Host: hostexec.Host{Root: root}}
	mounts, err := host.Mounts()
	if err != nil {
		return err
	}
	file := func(key string) string { return filepath.Join(root, "journal", strings.ReplaceAll(key, "/", "-")) }
	c := Cleaner{
		Finder: Finder{Host: host.Host, Mounts: mounts, Table: host.FileTable()},
		Tool:   "gpuaas-agent 1", State: "/var/lib/gpuaas/disks",
		Foreign: func(uid int) bool { return uid >= 20000 },
		Clock:   time.Now,
		Save: func(key, value string) error {
			fmt.Println("save", key)
			err := atomicfile.Write(file(key), []byte(value), 0o600)
			fmt.Println("saved", key)
			return err
		},
		Recall: func(key string) string { return text(file(key)) },
		Report: func(point, status, message string) { fmt.Println(point, status, message) },
	}
	all, err := c.Run(context.Background())
	if err != nil {
		return err
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, "evidence"), raw, 0o600)
}

// A process is killed after its first, second, … sign of life, until one
// reaches the end.
func TestAKilledProcessIsFollowedByOneThatGoesOn(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	if err := os.Mkdir(m.path("/journal"), 0o700); err != nil {
		t.Fatal(err)
	}
	lives := 0
	for signs := 1; ; signs++ {
		lives++
		if livesToTheEnd(t, m.root, signs) {
			break
		}
		if signs > 200 {
			t.Fatal("it never ends")
		}
	}
	var all []agentwire.DeviceSanitized
	if err := json.Unmarshal([]byte(text(m.path("/evidence"))), &all); err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 || all[0].Outcome != agentwire.OutcomeSanitized || !all[0].Verified || !all[0].FilesystemRestored ||
		all[0].CanariesPlanted != canaryCount {
		t.Errorf("after %d lives %+v", lives, all)
	}
	m.restored(0o755, 0)
	t.Logf("%d lives", lives)
}

func livesToTheEnd(t *testing.T, root string, signs int) bool {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self)
	c.Env = append(os.Environ(), asAgent+"="+root)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	n := 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if n++; n == signs {
			_ = c.Process.Kill()
		}
	}
	return c.Wait() == nil
}
