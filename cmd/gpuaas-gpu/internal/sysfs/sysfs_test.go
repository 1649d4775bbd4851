package sysfs_test

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"gpuaas/cmd/gpuaas-gpu/internal/sysfs"
)

func tree(files map[string]string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, text := range files {
		out[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return out
}

func TestCardsOnThePCIBus(t *testing.T) {
	root := tree(map[string]string{
		// the BMC's display
		"bus/pci/devices/0000:00:02.0/vendor": "0x1a03\n", "bus/pci/devices/0000:00:02.0/class": "0x030000\n",
		"bus/pci/devices/0000:17:00.0/vendor": "0x10de\n", "bus/pci/devices/0000:17:00.0/class": "0x030200\n",
		"bus/pci/devices/0000:18:00.0/vendor": "0x10de\n", "bus/pci/devices/0000:18:00.0/class": "0x068000\n", // a switch
		"bus/pci/devices/0000:85:00.0/vendor": "0x1002\n", "bus/pci/devices/0000:85:00.0/class": "0x120000\n",
	})
	want := []sysfs.Card{{PCI: "0000:17:00.0", Vendor: "nvidia"}, {PCI: "0000:85:00.0", Vendor: "amd"}}
	if d := cmp.Diff(want, sysfs.Cards(root)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got := sysfs.Cards(tree(nil)); got != nil {
		t.Errorf("no bus gives %v", got)
	}
}

func TestAMDGPUsAreRead(t *testing.T) {
	root := tree(map[string]string{
		"module/amdgpu/version":                             "6.12.12\n",
		"class/drm/card0/device/vendor":                     "0x1a03\n",
		"class/drm/card10/device/vendor":                    "0x1002\n",
		"class/drm/card10/device/device":                    "0x740f\n",
		"class/drm/card10/device/mem_info_vram_total":       "68702699520\n",
		"class/drm/card10/device/uevent":                    "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:a5:00.0\n",
		"class/drm/card2/device/vendor":                     "0x1002\n",
		"class/drm/card2/device/unique_id":                  "a1b2c3d4e5f60718\n",
		"class/drm/card2/device/product_name":               "AMD Instinct MI300X\n",
		"class/drm/card2/device/mem_info_vram_total":        "206141652992\n",
		"class/drm/card2/device/mem_info_vram_used":         "297222144\n",
		"class/drm/card2/device/uevent":                     "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:85:00.0\n",
		"class/drm/card2/device/ras/umc_err_count":          "ue: 1\nce: 3\n",
		"class/drm/card2/device/ras/gfx_err_count":          "ue: 1\nce: 0\n",
		"class/drm/card2/device/current_compute_partition":  "SPX\n",
		"class/drm/card10/device/current_compute_partition": "CPX\n",
		"class/drm/card2-DP-1/status":                       "disconnected\n",
		"class/kfd/kfd/topology/nodes/0/gpu_id":             "0\n",
		"class/kfd/kfd/topology/nodes/1/gpu_id":             "51140\n",
		"class/kfd/kfd/topology/nodes/1/properties": "simd_count 1216\ngfx_target_version 90402\nlocation_id " +
			"34048\ndomain 0\n",
		"class/kfd/kfd/topology/nodes/2/gpu_id":     "777\n",
		"class/kfd/kfd/topology/nodes/2/properties": "gfx_target_version 90010\nlocation_id 42240\ndomain 0\n",
		"class/kfd/kfd/proc/4711/vram_51140":        "1048576\n",
		"class/kfd/kfd/proc/4712/vram_1":            "5\n",
	})
	want := []sysfs.GPU{
		{
			ID: "a1b2c3d4e5f60718", Name: "AMD Instinct MI300X", Architecture: "gfx942", PCI: "0000:85:00.0",
			MemoryTotal: 206141652992, MemoryUsed: 297222144, Processes: []sysfs.Process{{PID: 4711, Used: 1048576}},
			Errors: &sysfs.Errors{Corrected: 3, Uncorrected: 2},
		},
		{
			Index: 1, ID: "0000:a5:00.0", Name: "AMD 0x740f", Architecture: "gfx90a", PCI: "0000:a5:00.0",
			MemoryTotal: 68702699520, Partitioned: true,
		},
	}
	if d := cmp.Diff(want, sysfs.GPUs(root)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got := sysfs.Driver(root); got != "6.12.12" {
		t.Errorf("driver %q", got)
	}
}

func TestTheDriverWithoutAVersion(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"of the kernel": {map[string]string{"module/amdgpu/refcnt": "1"}, "in-kernel"},
		"not loaded":    {nil, ""},
	} {
		if got := sysfs.Driver(tree(c.files)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestGarbageIsNoGPU(t *testing.T) {
	root := tree(map[string]string{
		"class/drm/card0/device/vendor": "0x1002", "class/drm/card0/device/mem_info_vram_total": "lots",
		"class/kfd/kfd/topology/nodes/1/gpu_id": "1", "class/kfd/kfd/topology/nodes/1/properties": "\n=\n:\nlocation_id -1\n",
	})
	if got := sysfs.GPUs(root); got != nil {
		t.Errorf("got %v", got)
	}
}
