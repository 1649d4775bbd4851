package stack

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// folder is the state folder, absolute and without symbolic links: children are
// recognised by its path on their command lines.
type folder string

// openFolder makes the state folder if it is missing, for its owner alone.
func openFolder(path string) (folder, error) {
	if path == "" {
		return "", errors.New("open state folder: no folder was named")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("open state folder %s: %w", path, err)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return "", fmt.Errorf("make state folder: %w", err)
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", fmt.Errorf("open state folder: %w", err)
	}
	f := folder(path)
	for _, sub := range []string{"logs", "secrets"} {
		if err := os.MkdirAll(f.path(sub), 0o700); err != nil {
			return "", fmt.Errorf("make folder in state folder: %w", err)
		}
	}
	return f, nil
}

func (f folder) path(parts ...string) string {
	return filepath.Join(append([]string{string(f)}, parts...)...)
}

// secret returns the named secret. The first call makes it up.
func (f folder) secret(name string) (string, error) {
	path := f.secretFile(name)
	b, err := os.ReadFile(path)
	if err == nil {
		return strings.TrimSpace(string(b)), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read secret %s: %w", name, err)
	}
	value := rand.Text() + rand.Text()
	return value, f.saveSecret(name, value)
}

func (f folder) saveSecret(name, value string) error {
	if err := writeFile(f.secretFile(name), []byte(value)); err != nil {
		return fmt.Errorf("save secret %s: %w", name, err)
	}
	return nil
}

func (f folder) secretFile(name string) string { return f.path("secrets", name) }

// unfinished marks the first set-up of an engine. While the mark exists, the
// data of the engine has never been used, and the next start throws it away.
// The mark is made before the data and removed after the data is complete, so a
// launcher that is killed in between leaves no incomplete store behind.
func (f folder) unfinished(e Engine) mark { return mark(f.path(string(e), "UNFINISHED")) }

type mark string

func (m mark) present() bool {
	_, err := os.Lstat(string(m))
	return err == nil
}

func (m mark) set() error {
	return writeFile(string(m), []byte("The first set-up of this engine did not finish; the next start repeats it.\n"))
}

func (m mark) clear() error {
	if err := os.Remove(string(m)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("finish set-up: %w", err)
	}
	return syncFolder(filepath.Dir(string(m)))
}

func writeJSON(path string, value any) error {
	b, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", filepath.Base(path), err)
	}
	return writeFile(path, append(b, '\n'))
}

// writeFile replaces a file as a whole, readable by its owner only. After a
// crash it holds either the old or the new content.
func writeFile(path string, content []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// syncFolder makes a rename or removal in the folder last through a power cut.
func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) { // some file systems cannot
		err = nil
	}
	return errors.Join(err, d.Close())
}
