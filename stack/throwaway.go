package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const throwawayPrefix = "gpuaas-test-"

// ThrowawayFolder names a state folder for a stack that ends with this process:
// in memory if the system offers it, and with the id of the process, so that
// SweepThrowaways can tell when it is dead.
func ThrowawayFolder(suffix string) string {
	return filepath.Join(throwawayParent(), throwawayPrefix+strconv.Itoa(os.Getpid())+suffix)
}

func throwawayParent() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return os.TempDir()
}

// SweepThrowaways removes the throwaway folders of processes that are gone. It
// leaves those of other users alone.
func SweepThrowaways(ctx context.Context) error {
	folders, err := filepath.Glob(filepath.Join(throwawayParent(), throwawayPrefix+"*"))
	if err != nil {
		return fmt.Errorf("find throwaway folders: %w", err)
	}
	for _, dir := range folders {
		id, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), throwawayPrefix), "-")
		pid, err := strconv.Atoi(id)
		if err != nil || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || !ownedByUs(dir) {
			continue
		}
		if err := removeDead(ctx, folder(dir)); err != nil {
			return fmt.Errorf("remove throwaway folder %s: %w", dir, err)
		}
	}
	return nil
}

func ownedByUs(dir string) bool {
	info, err := os.Stat(dir)
	if err != nil {
		return false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(owner.Uid) == os.Geteuid()
}

// removeDead leaves a folder alone that another sweeper has just locked.
func removeDead(ctx context.Context, f folder) error {
	lock, err := f.acquire()
	var busy *AlreadyRunning
	if errors.As(err, &busy) || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	record, err := loadRecord(f)
	if err == nil {
		err = endLeftovers(ctx, f, record)
	}
	return errors.Join(err, os.RemoveAll(string(f)), lock.release())
}
