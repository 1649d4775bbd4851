package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"gpuaas/agent/internal/atomicfile"
	"gpuaas/agent/internal/config"
	"gpuaas/contract/agentwire"
)

// firstBootRest is how long the agent waits for a first boot that still runs.
const firstBootRest = 30 * time.Second

// settleFirstBoot ends a first boot that was interrupted after the machine had
// enrolled: a reboot, or a crash, in the middle of the layer that starts this agent.
// Nobody would carry that layer out again, and its token would stay on the disk.
func (a *Agent) settleFirstBoot(ctx context.Context) {
	for {
		settled, err := settleFirstBoot(a.config)
		if err != nil {
			a.o.Log.Error("what an interrupted first boot left could not be removed; the next start tries again", "error", err)
			return
		}
		if settled {
			return
		}
		select { // the first boot that started this agent has not ended yet
		case <-ctx.Done():
			return
		case <-time.After(firstBootRest):
		}
	}
}

// settleFirstBoot returns false while a first boot is carried out.
func settleFirstBoot(c config.Config) (settled bool, err error) {
	folder := c.Path(agentwire.FirstBootFolder)
	left, err := filepath.Glob(filepath.Join(folder, "layers", "*-"+agentwire.FirstBootAgentLayer))
	if err != nil || len(left) == 0 {
		return true, err
	}
	running, err := os.OpenFile(filepath.Join(folder, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false, fmt.Errorf("open lock of the first boot: %w", err)
	}
	defer func() { err = errors.Join(err, running.Close()) }()
	switch err := syscall.Flock(int(running.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("lock the first boot: %w", err)
	}
	for _, layer := range left {
		if err := settleLayer(folder, layer); err != nil {
			return false, err
		}
	}
	if err := os.RemoveAll(c.Path(agentwire.FirstBootCredentials)); err != nil {
		return false, fmt.Errorf("remove credentials of the first boot: %w", err)
	}
	return true, nil
}

var unsettled = regexp.MustCompile(`"state":"(?:started|failed)"`)

// settleLayer records that a layer has succeeded, in which the machine enrolled, and
// removes it. A layer that was never begun has no record, and is left alone.
func settleLayer(folder, layer string) error {
	record := filepath.Join(folder, filepath.Base(layer)+".json")
	text, err := os.ReadFile(record)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read record of the first boot: %w", err)
	}
	now := unsettled.ReplaceAllString(string(text), `"state":"succeeded"`)
	now = strings.Replace(now, `"ended_at":null`, `"ended_at":"`+time.Now().UTC().Format(time.RFC3339)+`"`, 1)
	if now != string(text) {
		if err := atomicfile.Write(record, []byte(now), 0o644); err != nil {
			return fmt.Errorf("write record of the first boot: %w", err)
		}
	}
	if err := os.RemoveAll(layer); err != nil {
		return fmt.Errorf("remove layer of the first boot: %w", err)
	}
	return nil
}
