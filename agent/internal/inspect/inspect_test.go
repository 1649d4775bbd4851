package inspect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gpuaas/agent/internal/gpu"
	"gpuaas/agent/internal/hostexec"
)

var update = flag.Bool("update", false, "write the golden files")

type fakeGPUs struct {
	report gpu.Report
	err    error
}

func (f fakeGPUs) Inspect(context.Context) (gpu.Report, error) { return f.report, f.err }

// recorded rebuilds the files of a machine: path = content, path -> target.
func recorded(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for line := range strings.Lines(string(raw)) {
		path, content, isFile := strings.Cut(strings.TrimSuffix(line, "\n"), " = ")
		path, target, _ := strings.Cut(path, " -> ")
		place := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
			t.Fatal(err)
		}
		if !isFile {
			err = os.Symlink(target, place)
		} else if content, err = strconv.Unquote(content); err == nil {
			err = os.WriteFile(place, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	return root
}

func TestCapabilities(t *testing.T) {
	h200 := gpu.Report{
		Vendor: gpu.NVIDIA, Driver: "550.54.15", DriverSeries: "550.54",
		GPUs: []gpu.GPU{{
			Index: 0, UUID: "GPU-1", Name: "NVIDIA H200", Architecture: "hopper", MemoryTotal: 150754820096,
			PCI: "00000000:18:00.0",
		}},
	}
	for name, gpus := range map[string]GPUs{
		"infiniband": fakeGPUs{report: h200},
		"roce-amd":   fakeGPUs{err: errors.New("the helper crashed")},
		"container":  fakeGPUs{report: gpu.Report{Vendor: gpu.None}},
		"nothing":    nil,
	} {
		t.Run(name, func(t *testing.T) {
			m := Machine{Host: hostexec.Host{Root: recorded(t, name)}, GPUs: gpus}
			got, err := json.MarshalIndent(m.Capabilities(t.Context()), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", name+".json")
			if *update {
				if err := os.WriteFile(golden, append(got, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(bytes.TrimSpace(want), got) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// This inspects the machine that the tests run on.
func TestThisMachine(t *testing.T) {
	m := Machine{}
	c := m.Capabilities(t.Context())
	if c.CPUs < 1 || c.MemoryBytes < 1<<20 || c.NUMANodes < 1 || c.Kernel == "" || c.Facts["gpu.vendor"] == "" ||
		c.Facts["container.runtime"] == "" {
		t.Errorf("%+v", c)
	}
	accounts, err := m.Accounts()
	if err != nil || len(accounts) == 0 || accounts[0].Name != "root" {
		t.Errorf("accounts %+v, %v", accounts, err)
	}
	self, ok := m.Process(os.Getpid())
	if !ok || !self.Belongs(os.Getuid()) {
		t.Errorf("this process %+v %v", self, ok)
	}
	all, err := m.Processes()
	if err != nil || len(all) == 0 {
		t.Errorf("processes %d, %v", len(all), err)
	}
	mounts, err := m.Mounts()
	if _, found := Holding(mounts, "/"); err != nil || !found {
		t.Errorf("mounts %d, %v", len(mounts), err)
	}
}
