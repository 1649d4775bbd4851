// Package sysfs reads what the kernel says of GPUs: the PCI devices of every
// vendor, and the state of AMD GPUs.
package sysfs

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Vendors of GPUs, by PCI vendor id.
const (
	NVIDIA = "nvidia"
	AMD    = "amd"
)

var vendors = map[string]string{"0x10de": NVIDIA, "0x1002": AMD}

// Card is a PCI device that is a GPU.
type Card struct {
	PCI    string
	Vendor string
}

// Cards lists the GPUs on the PCI bus, with or without a driver. root is /sys.
func Cards(root fs.FS) []Card {
	entries, err := fs.ReadDir(root, "bus/pci/devices")
	if err != nil {
		return nil // a host without PCI has no GPU on it
	}
	var cards []Card
	for _, e := range entries {
		device := path.Join("bus/pci/devices", e.Name())
		vendor, known := vendors[text(root, path.Join(device, "vendor"))]
		class := text(root, path.Join(device, "class"))
		// 03 is a display controller, 12 a processing accelerator.
		if known && (strings.HasPrefix(class, "0x03") || strings.HasPrefix(class, "0x12")) {
			cards = append(cards, Card{PCI: e.Name(), Vendor: vendor})
		}
	}
	return cards
}

func text(root fs.FS, name string) string {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return "" // an attribute that this kernel does not have
	}
	return strings.TrimSpace(string(b))
}

func number(root fs.FS, name string) uint64 {
	n, err := strconv.ParseUint(text(root, name), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// fields reads lines of "key value", "key=value" or "key: value".
func fields(root fs.FS, name string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text(root, name)) {
		line = strings.TrimSpace(line)
		if i := strings.IndexAny(line, " =:"); i > 0 {
			out[line[:i]] = strings.TrimLeft(line[i:], " =:")
		}
	}
	return out
}

// numbered lists the entries of a folder that are a prefix and a number, in
// the order of the numbers.
func numbered(root fs.FS, folder, prefix string) []string {
	entries, err := fs.ReadDir(root, folder)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if rest, ok := strings.CutPrefix(e.Name(), prefix); ok {
			if _, err := strconv.Atoi(rest); err == nil {
				names = append(names, e.Name())
			}
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	return names
}
