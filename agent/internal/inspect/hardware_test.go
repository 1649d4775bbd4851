package inspect

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"gpuaas/agent/internal/hostexec"
	"gpuaas/contract/agentwire"
)

// machineOf is a machine with some files and links.
func machineOf(t *testing.T, files, links map[string]string) Machine {
	t.Helper()
	root := t.TempDir()
	for path, content := range files {
		place := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(place, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for path, target := range links {
		place := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, place); err != nil {
			t.Fatal(err)
		}
	}
	return Machine{Host: hostexec.Host{Root: root}}
}

func TestHardware(t *testing.T) {
	nic := "/sys/class/net/"
	for name, c := range map[string]struct {
		files, links map[string]string
		want         agentwire.Hardware
	}{
		"a server with a bond, and a BMC on USB": {
			map[string]string{
				"/sys/class/dmi/id/product_uuid":   "4C4C4544-0042-3510-8052-B4C04F4D3233\n",
				"/sys/class/dmi/id/product_serial": "B5BRM23\n",
				"/sys/class/dmi/id/board_serial":   ".B5BRM23.CN.\n", "/sys/class/dmi/id/chassis_serial": "B5BRM23\n",
				"/etc/gpuaas-firmware/product_uuid": "00000000-0000-0000-0000-0000000000aa\n",
				nic + "eno1/address":                "b0:7b:25:aa:00:01\n", nic +
					"eno1/bonding_slave/perm_hwaddr": "b0:7b:25:aa:00:01\n",
				nic + "eno2/address": "b0:7b:25:aa:00:01\n", nic + "eno2/bonding_slave/perm_hwaddr": "b0:7b:25:aa:00:02\n",
				nic + "usb0/address": "be:3a:f2:b6:05:9f\n", nic + "bond0/address": "b0:7b:25:aa:00:01\n", nic +
					"lo/address": "00:00:00:00:00:00\n",
			},
			map[string]string{nic + "eno1/device/subsystem": "/bus/pci", nic + "eno2/device/subsystem": "/bus/pci", nic +
				"usb0/device/subsystem": "/bus/usb"},
			agentwire.Hardware{
				UUID: "4C4C4544-0042-3510-8052-B4C04F4D3233", SystemSerial: "B5BRM23", BoardSerial: ".B5BRM23.CN.",
				ChassisSerial: "B5BRM23",
				MACs:          []string{"b0:7b:25:aa:00:01", "b0:7b:25:aa:00:02"},
			},
		},
		"a container, for which its maker speaks": {
			map[string]string{"/etc/gpuaas-firmware/product_uuid": "11111111-2222-3333-4444-555555555555\n", nic +
				"eth0/address": "52:54:00:00:00:01\n"},
			nil,
			agentwire.Hardware{UUID: "11111111-2222-3333-4444-555555555555", MACs: []string{"52:54:00:00:00:01"}},
		},
		"nothing at all": {nil, nil, agentwire.Hardware{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := machineOf(t, c.files, c.links).Hardware(); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}
