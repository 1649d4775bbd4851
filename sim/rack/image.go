package rack

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed" // the recipe of the image
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// recipe makes the disk that LXD machines start from. It is a part of the
// program, so that one that was installed without the sources can make it.
//
//go:embed image.sh
var recipe []byte

func recipeDigest() string {
	sum := sha256.Sum256(recipe)
	return hex.EncodeToString(sum[:6])
}

// cacheFolder is shared by all racks of a user.
func cacheFolder() (string, error) {
	if dir := os.Getenv("GPUAAS_CACHE"); dir != "" {
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find cache folder: %w", err)
	}
	return filepath.Join(dir, "gpuaas"), nil
}

// imageArchive returns the image as a file. It is made once for each recipe; a
// second process that needs it waits for the first.
func imageArchive(ctx context.Context, say func(string)) (string, error) {
	cache, err := cacheFolder()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return "", fmt.Errorf("make cache folder: %w", err)
	}
	archive := filepath.Join(cache, "rack-"+recipeDigest()+".tar")
	lock, err := os.OpenFile(archive+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", fmt.Errorf("lock image of rack: %w", err)
	}
	defer lock.Close()
	if err := await(ctx, lock); err != nil {
		return "", err
	}
	if _, err := os.Stat(archive); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return archive, err
	}
	say("making the image of the machines (once; a minute or two)")
	if err := makeImage(ctx, archive); err != nil {
		return "", err
	}
	return archive, discardOthers(cache, archive)
}

// await takes a lock that another process may hold for minutes.
func await(ctx context.Context, lock *os.File) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			if err != nil {
				err = fmt.Errorf("lock image of rack: %w", err)
			}
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the image of the rack, which another process makes: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

func makeImage(ctx context.Context, archive string) error {
	script, err := os.CreateTemp("", "gpuaas-rack-image-*.sh")
	if err != nil {
		return fmt.Errorf("write recipe of image: %w", err)
	}
	defer os.Remove(script.Name())
	_, err = script.Write(recipe)
	if err = errors.Join(err, script.Close()); err != nil {
		return fmt.Errorf("write recipe of image: %w", err)
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, "bash", script.Name(), archive) //nolint:gosec // the recipe is ours
	cmd.Stderr = &said
	// An interrupted recipe cleans up after its programs have ended.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("make image of rack: %w: %s", err, strings.TrimSpace(said.String()))
	}
	return nil
}

// discardOthers deletes images of earlier recipes.
func discardOthers(cache, keep string) error {
	old, err := filepath.Glob(filepath.Join(cache, "rack-*.tar*"))
	if err != nil {
		return fmt.Errorf("list images of rack: %w", err)
	}
	for _, path := range old {
		if strings.HasPrefix(path, keep) {
			continue
		}
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("delete old image of rack: %w", err)
		}
	}
	return nil
}
