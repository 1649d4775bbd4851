package maas

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"gpuaas/sim/maas/simclock"
)

// saveEvery is how much can be lost if the process is killed, by default.
const saveEvery = time.Second

// keepSaving writes the state file whenever something has changed.
func (r *Region) keepSaving(clock simclock.Clock, every time.Duration) {
	defer r.done.Done()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-r.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	var saved uint64
	for clock.Sleep(ctx, every) == nil {
		now := r.Changes()
		if now == saved {
			continue
		}
		if err := r.save(); err != nil {
			r.log.Error("save state", "error", err)
			continue
		}
		saved = now
	}
}

// Keep writes the state file now, if there is one: what follows may rely on it
// after a kill.
func (r *Region) Keep() error {
	if r.state == "" {
		return nil
	}
	return r.save()
}

// save writes the state file. Those who come while it is being written wait, and
// share the next one.
func (r *Region) save() error {
	mine := r.asked.Add(1)
	r.saving.Lock()
	defer r.saving.Unlock()
	if mine <= r.answered {
		return nil
	}
	all := r.asked.Load()
	if err := r.replace(); err != nil {
		return err
	}
	r.answered = all
	return nil
}

// replace replaces the state file in one step: a reader finds the old or the new
// one.
func (r *Region) replace() (err error) {
	f, err := os.CreateTemp(filepath.Dir(r.state), ".maas-state-*")
	if err != nil {
		return fmt.Errorf("create state file: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	w := bufio.NewWriter(f)
	err = r.Save(w)
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write state file: %w", err)
	}
	if err = os.Rename(f.Name(), r.state); err != nil {
		return fmt.Errorf("put state file in place: %w", err)
	}
	return nil
}
