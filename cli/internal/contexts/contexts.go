package contexts

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"

	"go.yaml.in/yaml/v3"

	"gpuaas/cli/internal/failure"
)

// File is the file of the control planes that somebody talks to.
type File struct {
	Current  string             `yaml:"current,omitempty"`
	Contexts map[string]Context `yaml:"contexts,omitempty"`
}

// Context is one control plane and who one is there.
type Context struct {
	URL    string `yaml:"url"`
	CAFile string `yaml:"ca_file,omitempty"`
	Token  string `yaml:"token,omitempty"`
	// Session says that the token was made by signing in and ends with signing out.
	Session bool `yaml:"session,omitempty"`
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// CheckName refuses what cannot be the name of a context.
func CheckName(name string) error {
	if !nameForm.MatchString(name) {
		return failure.New(failure.Usage, "usage", "use letters, digits, dots, dashes and underscores, at most 63",
			"%q cannot be the name of a context", name)
	}
	return nil
}

// Names are the names of all contexts, sorted.
func (c *File) Names() []string {
	out := make([]string, 0, len(c.Contexts))
	for name := range c.Contexts {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// Named is one context; a failure says how to see which there are.
func (c *File) Named(name string) (Context, error) {
	one, ok := c.Contexts[name]
	if !ok {
		return one, failure.New(failure.Usage, "context_unknown", "list them: gpuaas context list",
			"there is no context %q", name)
	}
	return one, nil
}

// Path is where contexts are kept.
func Path(env map[string]string) (string, error) {
	if dir := env["XDG_CONFIG_HOME"]; filepath.IsAbs(dir) { // the standard says to ignore others
		return filepath.Join(dir, "gpuaas", "config.yaml"), nil
	}
	if home := env["HOME"]; filepath.IsAbs(home) {
		return filepath.Join(home, ".config", "gpuaas", "config.yaml"), nil
	}
	return "", failure.New(failure.Usage, "no_home", "set HOME or XDG_CONFIG_HOME, or use GPUAAS_URL and GPUAAS_TOKEN",
		"there is no folder to keep contexts in")
}

// Folder is where files of the command line are kept beside the contexts.
func Folder(env map[string]string) (string, error) {
	path, err := Path(env)
	return filepath.Dir(path), err
}

// Read reads the contexts; there are none when there is no file.
func Read(path string, warn func(format string, args ...any)) (*File, error) {
	none := &File{Contexts: map[string]Context{}}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read contexts: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		warn("warning: %s holds tokens and others can read it; run: chmod 600 %s", path, path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read contexts: %w", err)
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true) // what is not understood would be lost when the file is written
	if err := dec.Decode(none); err != nil && !errors.Is(err, io.EOF) {
		// Not the error itself: it may quote a line with a token.
		return nil, failure.New(failure.Usage, "contexts_unreadable",
			"correct the file, or move it away and sign in again: gpuaas login",
			"the contexts in %s cannot be understood", path)
	}
	if none.Contexts == nil {
		none.Contexts = map[string]Context{}
	}
	return none, nil
}

// Change changes the file, one process at a time, so that it is always whole.
func Change(path string, warn func(format string, args ...any), change func(*File) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make folder for contexts: %w", err)
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // a link into somebody's dotfiles stays one
	}
	unlock, err := lockFile(path + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	c, err := Read(path, warn)
	if err != nil {
		return err
	}
	if err := change(c); err != nil {
		return err
	}
	text, err := yaml.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode contexts: %w", err)
	}
	return replaceFile(path, text)
}

func lockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock contexts: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock contexts: %w", err)
	}
	return func() { _ = f.Close() }, nil // closing unlocks
}

// replaceFile puts a new file, readable by nobody else, in the place of the old one.
func replaceFile(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".config-*") // with mode 0600
	if err != nil {
		return fmt.Errorf("write contexts: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone already when all went well
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write contexts: %w", err)
	}
	return nil
}
