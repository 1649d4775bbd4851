package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"gpuaas/cmd/gpuaas-gpu/internal/dl"
	"gpuaas/cmd/gpuaas-gpu/internal/nvml"
)

// driver is a management library of the given GPUs.
type driver struct {
	gpus      []nvml.GPU
	gpusErr   error
	processes func(index int) ([]nvml.Process, error)
}

func (d driver) Driver() (string, error)   { return "580.159.04", nil }
func (d driver) GPUs() ([]nvml.GPU, error) { return d.gpus, d.gpusErr }

func (d driver) Processes(index int) ([]nvml.Process, error) {
	if d.processes == nil {
		return nil, nil
	}
	return d.processes(index)
}

func h200(index int) nvml.GPU {
	return nvml.GPU{
		Index: index, UUID: fmt.Sprintf("GPU-%d", index), Name: "NVIDIA H200", Architecture: "hopper",
		PCI:         fmt.Sprintf("0000:1%d:00.0", index),
		MemoryTotal: 1 << 37, UsedIsExact: true,
	}
}

func pci(devices ...string) fstest.MapFS {
	out := fstest.MapFS{}
	for _, d := range devices {
		out["bus/pci/devices/"+d+"/vendor"] = &fstest.MapFile{Data: []byte("0x10de\n")}
		out["bus/pci/devices/"+d+"/class"] = &fstest.MapFile{Data: []byte("0x030200\n")}
	}
	return out
}

var errNoLibrary = fmt.Errorf("open libnvidia-ml.so.1: %w", dl.ErrNoLibrary)

// amd is a host with one MI300X, as its kernel shows it.
func amd() fstest.MapFS {
	return fstest.MapFS{
		"module/amdgpu/version":                      {Data: []byte("6.12.12")},
		"class/drm/card1/device/vendor":              {Data: []byte("0x1002")},
		"class/drm/card1/device/unique_id":           {Data: []byte("a1b2")},
		"class/drm/card1/device/product_name":        {Data: []byte("AMD Instinct MI300X")},
		"class/drm/card1/device/mem_info_vram_total": {Data: []byte("206141652992")},
		"class/drm/card1/device/uevent":              {Data: []byte("PCI_SLOT_NAME=0000:85:00.0")},
		"class/kfd/kfd/topology/nodes/1/gpu_id":      {Data: []byte("51140")},
		"class/kfd/kfd/topology/nodes/1/properties": {
			Data: []byte("gfx_target_version 90402\nlocation_id 34048\ndomain 0\n"),
		},
	}
}

func TestInspect(t *testing.T) {
	for _, c := range []struct {
		name              string
		host              host
		vendor, series    string
		gpus, unreachable int
		note              string
	}{
		{"no GPU", host{sys: pci(), nvidiaErr: errNoLibrary}, "none", "", 0, 0, "no management library"},
		{"NVIDIA", host{sys: pci("0000:10:00.0"), nvidia: driver{gpus: []nvml.GPU{h200(0)}}}, "nvidia", "580.159", 1, 0, ""},
		{"AMD", host{sys: amd(), nvidiaErr: errNoLibrary}, "amd", "6.12", 1, 0, ""},
		{
			"GPU without a driver",
			host{sys: pci("0000:10:00.0"), nvidiaErr: errNoLibrary},
			"nvidia", "", 0, 1,
			"0000:10:00.0 is not answered for",
		},
		{
			"driver not loaded",
			host{sys: pci("0000:10:00.0"), nvidiaErr: errors.New("driver not loaded")},
			"nvidia", "", 0, 1,
			"driver not loaded",
		},
		{
			"one GPU lost",
			host{
				sys:    pci("0000:10:00.0", "0000:11:00.0"),
				nvidia: driver{gpus: []nvml.GPU{h200(0)}, gpusErr: errors.New("read GPU 1: lost")},
			},
			"nvidia", "580.159", 1, 1, "GPU 1: lost",
		},
		{
			"container of a GPU host",
			host{sys: pci("0000:10:00.0"), container: true, nvidiaErr: errNoLibrary},
			"none", "", 0,
			0, "in a container",
		},
		{"driver without GPU", host{sys: pci(), nvidia: driver{}}, "none", "", 0, 0, "shows no GPU"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := c.host.inspect()
			if r.Vendor != c.vendor || r.DriverSeries != c.series || len(r.GPUs) != c.gpus ||
				len(r.Unreachable) != c.unreachable {
				t.Errorf("got %+v", r)
			}
			if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, c.note) {
				t.Errorf("notes %q, want %q", notes, c.note)
			}
		})
	}
}
