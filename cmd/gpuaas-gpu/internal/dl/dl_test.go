package dl_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ebitengine/purego"

	"gpuaas/cmd/gpuaas-gpu/internal/dl"
)

func TestAMissingLibraryIsToldApart(t *testing.T) {
	if _, err := dl.Open("libgpuaas-no-such-thing.so.1"); !errors.Is(err, dl.ErrNoLibrary) {
		t.Fatalf("err %v, want ErrNoLibrary", err)
	}
}

func TestTheFirstNameThatThereIsIsOpened(t *testing.T) {
	lib, err := dl.Open("libgpuaas-no-such-thing.so.1", "libc.so.6")
	if err != nil {
		t.Fatal(err)
	}
	var abs func(int32) int32
	if err := lib.Bind(&abs, "abs"); err != nil {
		t.Fatal(err)
	}
}

func TestMissingLibrariesAreToldApartByManyAtOnce(t *testing.T) {
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for range 50 {
				if _, err := dl.Open("libgpuaas-no-such-thing.so.1"); !errors.Is(err, dl.ErrNoLibrary) {
					t.Errorf("err %v, want ErrNoLibrary", err)
					return
				}
			}
		})
	}
	all.Wait()
}

func TestALibraryThatIsBrokenIsNotMissing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "libbroken.so.1")
	if err := os.WriteFile(file, []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := dl.Open(file); err == nil || errors.Is(err, dl.ErrNoLibrary) ||
		!strings.Contains(err.Error(), "file too short") {
		t.Fatalf("err %v", err)
	}
}

func TestALibraryOfTheSystemIsCalled(t *testing.T) {
	lib, err := dl.Open("libc.so.6")
	if err != nil {
		t.Fatal(err)
	}
	var abs func(int32) int32
	if err := lib.Bind(&abs, "abs_v2", "abs"); err != nil {
		t.Fatal(err)
	}
	if got := abs(-7); got != 7 {
		t.Errorf("abs(-7) = %d", got)
	}
}

func TestTheNewestVersionOfAFunctionIsBound(t *testing.T) {
	answer := func(n uintptr) uintptr { return purego.NewCallback(func() uintptr { return n }) }
	newest, older := answer(3), answer(2)
	for _, c := range []struct {
		name string
		has  map[string]uintptr
		want int32
	}{
		{"both", map[string]uintptr{"f_v3": newest, "f_v2": older}, 3},
		{"older alone", map[string]uintptr{"f_v2": older}, 2},
		{"none", map[string]uintptr{"g": older}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			lib := dl.New("fake", func(symbol string) (uintptr, error) {
				if a := c.has[symbol]; a != 0 {
					return a, nil
				}
				return 0, errors.New("undefined symbol")
			})
			var f func() int32
			err := lib.BindAll(dl.Symbols{{&f, []string{"f_v3", "f_v2"}}})
			if c.want == 0 {
				if err == nil || !strings.Contains(err.Error(), "f_v3") {
					t.Fatalf("err %v: want the missing symbol named", err)
				}
				return
			}
			if err != nil || f() != c.want {
				t.Errorf("err %v, f() = %d, want %d", err, f(), c.want)
			}
		})
	}
}
