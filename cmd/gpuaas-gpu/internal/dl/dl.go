// Package dl loads a driver's shared library at run time. Nothing is linked
// against the library, so the same program starts on hosts without it.
package dl

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/ebitengine/purego"
)

// folders are where drivers put their libraries when the loader's own search
// path does not name the place. The empty one is that search path.
var folders = []string{
	"",
	"/usr/lib/x86_64-linux-gnu",
	"/usr/lib/aarch64-linux-gnu",
	"/usr/lib64",
	"/usr/lib64/nvidia",
	"/usr/local/nvidia/lib64",
	"/usr/local/nvidia/lib",
	"/opt/rocm/lib",
	"/opt/rocm/lib64",
}

// ErrNoLibrary says that the library is on none of the known places.
var ErrNoLibrary = errors.New("library not found")

// Library is a loaded shared library. It stays loaded until the program ends:
// drivers keep threads that must not lose their code.
type Library struct {
	name   string
	lookup func(symbol string) (uintptr, error)
}

// Open loads the library by the first of these file names that there is.
// ErrNoLibrary says that no folder has it; a library that is there and cannot
// be loaded is another error.
func Open(names ...string) (*Library, error) {
	// What went wrong is kept by the thread that asked.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	failed := fmt.Errorf("open %s: %w", names[0], ErrNoLibrary)
	for _, name := range names {
		for _, folder := range folders {
			path := filepath.Join(folder, name)
			handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
			if err == nil {
				return New(name, func(symbol string) (uintptr, error) { return purego.Dlsym(handle, symbol) }), nil
			}
			// The loader tells the two apart in words alone.
			if errors.Is(failed, ErrNoLibrary) && !strings.Contains(err.Error(), path+
				": cannot open shared object file: No such file") {
				failed = fmt.Errorf("open %s: %w", name, err)
			}
		}
	}
	return nil, failed
}

// New makes a library of a symbol table.
func New(name string, lookup func(symbol string) (uintptr, error)) *Library {
	return &Library{name: name, lookup: lookup}
}

// Bind points the function variable at the first of the symbols that the
// library has. Callers list the newest version of a function first.
func (l *Library) Bind(function any, symbols ...string) error {
	for _, symbol := range symbols {
		if address, err := l.lookup(symbol); err == nil && address != 0 {
			purego.RegisterFunc(function, address)
			return nil
		}
	}
	return fmt.Errorf("bind %v: not in %s", symbols, l.name)
}

// Symbols names the functions to bind: a pointer to a function variable each,
// with the symbols to try.
type Symbols []struct {
	Function any
	Names    []string
}

// BindAll binds every one of the symbols, or says which is missing.
func (l *Library) BindAll(symbols Symbols) error {
	for _, s := range symbols {
		if err := l.Bind(s.Function, s.Names...); err != nil {
			return err
		}
	}
	return nil
}
