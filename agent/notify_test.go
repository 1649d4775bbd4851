package agent

import (
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestSystemdIsTold(t *testing.T) {
	r := newRig(t)
	socket := filepath.Join(t.TempDir(), "notify")
	listener, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	t.Setenv("NOTIFY_SOCKET", socket)
	t.Setenv("WATCHDOG_USEC", "60000")
	a := r.start(nil)
	await := func(wanted ...string) {
		t.Helper()
		seen, buffer := "", make([]byte, 4096)
		if err := listener.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		for len(wanted) > 0 {
			n, err := listener.Read(buffer)
			if err != nil {
				t.Fatalf("waiting for %v after %q: %v", wanted, seen, err)
			}
			seen += string(buffer[:n]) + "\n"
			if strings.Contains(seen, wanted[0]) {
				wanted = wanted[1:]
			}
		}
	}
	await("READY=1", "STATUS=connected", "WATCHDOG=1")
	go func() { _ = a.stop() }()
	await("STOPPING=1")
}

func TestALoopThatHangsIsNotCalledAlive(t *testing.T) {
	h := newHealth(filepath.Join(t.TempDir(), "status.json"), testBuild, nil, notifier{})
	if !h.alive() {
		t.Error("dead from the start")
	}
	h.expect(-time.Second)
	if h.alive() {
		t.Error("alive after it should have given a sign of life")
	}
}

func TestARemovedAgentLeavesNothingBehind(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	h := newHealth(filepath.Join(folder, "status.json"), testBuild, slog.New(slog.DiscardHandler), notifier{})
	if _, err := os.Stat(filepath.Join(folder, "status.json")); err != nil {
		t.Error(err)
	}
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	h.stopped()
	if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is back: %v", err)
	}
}
