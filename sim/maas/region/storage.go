package region

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const (
	mib           = 1 << 20
	extent        = 4 * mib
	tableOverhead = 5 * mib
	efiSize       = 512 * mib
	smallestBoot  = 8_000_000_000
)

// usable is how much of a disk partitions may take.
func usable(size int64) int64 { return max(size-tableOverhead, 0) / extent * extent }

func (d *BlockDevice) usedFor() string {
	switch {
	case d.Table != "":
		return fmt.Sprintf("%s partitioned with %d partition%s", d.Table, len(d.Partitions), plural(len(d.Partitions)))
	case d.Filesystem != nil:
		return d.Filesystem.usedFor()
	}
	return "Unused"
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

func (f *Filesystem) usedFor() string {
	switch {
	case f == nil:
		return "Unused"
	case f.Volume != "":
		return "LVM volume for " + f.Volume
	case f.Mount != "":
		return f.Type + " formatted filesystem mounted at " + f.Mount
	}
	return "Unmounted " + f.Type + " formatted filesystem"
}

// hasRoot says whether something is mounted at "/".
func (m *Machine) hasRoot() bool {
	for _, d := range m.Disks {
		if d.Filesystem != nil && d.Filesystem.Mount == "/" {
			return true
		}
		for _, p := range d.Partitions {
			if p.Filesystem != nil && p.Filesystem.Mount == "/" {
				return true
			}
		}
	}
	return false
}

// bootDisk returns the chosen disk, or the first physical one that is large
// enough.
func (m *Machine) bootDisk() *BlockDevice {
	if d := m.disk(m.BootDisk); d != nil {
		return d
	}
	for _, d := range m.Disks {
		if !d.Virtual && d.Size >= smallestBoot {
			return d
		}
	}
	return nil
}

func (m *Machine) wipeLayout() {
	m.Disks = slices.DeleteFunc(m.Disks, func(d *BlockDevice) bool { return d.Virtual })
	m.VolumeGroups = nil
	for _, d := range m.Disks {
		d.Filesystem, d.Table, d.Partitions = nil, "", nil
	}
}

var layouts = []string{"blank", "custom", "vmfs7", "vmfs6", "bcache", "lvm", "flat"}

// applyLayout lays out a machine's disks. It treats the layouts for VMware as a
// partitioned disk without filesystems. bcache falls back to flat, as MAAS does
// without a cache device.
func (r *Region) applyLayout(m *Machine, layout string, root *BlockDevice) {
	m.wipeLayout()
	boot := m.bootDisk()
	if boot == nil || layout == "blank" || layout == "custom" {
		return
	}
	if root == nil {
		root = boot
	}
	boot.Table = "GPT"
	size := usable(root.Size)
	if m.BootMethod == "uefi" {
		boot.Partitions = []*Partition{r.partition(efiSize, true,
			&Filesystem{Type: "fat32", Label: "efi", Mount: "/boot/efi", UUID: r.uuid()})}
		if root == boot {
			size -= efiSize
		}
	}
	fs := &Filesystem{Type: "ext4", Label: "root", Mount: "/", UUID: r.uuid()}
	switch layout {
	case "lvm":
		r.addVolume(m, size-extent, fs)
		fs = &Filesystem{Type: "lvm-pv", UUID: r.uuid(), Volume: "vgroot"}
	case "vmfs6", "vmfs7":
		fs = nil
	}
	root.Table = "GPT"
	root.Partitions = append(root.Partitions, r.partition(size, false, fs))
}

func (r *Region) addVolume(m *Machine, size int64, fs *Filesystem) {
	m.VolumeGroups = []int{r.id("volumegroup")}
	m.Disks = append(m.Disks, &BlockDevice{
		ID: r.id("blockdevice"), Name: "vgroot-lvroot", Virtual: true, UUID: r.uuid(),
		Size: size, BlockSize: 4096, Filesystem: fs,
	})
}

func (r *Region) partition(size int64, bootable bool, fs *Filesystem) *Partition {
	return &Partition{ID: r.id("partition"), UUID: r.uuid(), Size: size, Bootable: bootable, Filesystem: fs}
}

// SetStorageLayout wipes the layout of a Ready machine and applies another.
func (r *Region) SetStorageLayout(c Caller, systemID string, f url.Values) (*MachineDoc, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, err := r.forAdmin(c, systemID)
	if err != nil {
		return nil, err
	}
	if m.Status != Ready {
		return nil, conflict("Cannot change the storage layout on a machine that is not Ready.")
	}
	layout := f.Get("storage_layout")
	switch {
	case layout == "":
		return nil, fieldError("storage_layout", "This field is required.")
	case !slices.Contains(layouts, layout):
		return nil, fieldError("storage_layout",
			fmt.Sprintf("'%s' is not a valid storage_layout.  It should be one of: '%s'.", layout,
				strings.Join(layouts, "', '")))
	case m.bootDisk() == nil:
		return nil, badRequest("Machine is missing a boot disk; no storage layout can be applied.")
	}
	var root *BlockDevice
	if want := f.Get("root_device"); want != "" {
		var ids []string
		for _, d := range m.Disks {
			if d.Virtual {
				continue
			}
			ids = append(ids, strconv.Itoa(d.ID))
			if strconv.Itoa(d.ID) == want {
				root = d
			}
		}
		if root == nil {
			return nil, fieldError("root_device", fmt.Sprintf("'%s' is not a valid root_device.  It should be one of: '%s'.",
				want, strings.Join(ids, "', '")))
		}
	}
	r.applyLayout(m, layout, root)
	r.changes++
	return r.machineDoc(m), nil
}

// RestoreStorage puts the default layout back.
func (r *Region) RestoreStorage(c Caller, systemID string) (*MachineDoc, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, err := r.forAdmin(c, systemID)
	if err != nil {
		return nil, err
	}
	if !m.Status.in(Ready, FailedTesting) {
		return nil, conflict("Machine must be in a ready or failed testing state to restore storage configuration.")
	}
	r.applyLayout(m, r.text("default_storage_layout"), nil)
	r.changes++
	return r.machineDoc(m), nil
}

// RestoreNetworking puts the interfaces back as commissioning found them.
func (r *Region) RestoreNetworking(c Caller, systemID string, storage bool) (*MachineDoc, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, err := r.forAdmin(c, systemID)
	if err != nil {
		return nil, err
	}
	if !m.Status.in(Ready, FailedTesting) {
		return nil, conflict("Machine must be in a ready or failed testing state to restore networking configuration.")
	}
	if m.Hardware == nil {
		return nil, &RefusalError{
			Status: http.StatusInternalServerError,
			Text:   "No resources found from commissioning output",
		}
	}
	if storage {
		r.applyLayout(m, r.text("default_storage_layout"), nil)
	}
	r.configureNetwork(m)
	r.changes++
	return r.machineDoc(m), nil
}

// BlockDevices lists the disks and volumes of a machine.
func (r *Region) BlockDevices(c Caller, systemID string) ([]BlockDeviceDoc, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	m, err := r.forReading(c, systemID)
	if err != nil {
		return nil, err
	}
	list := []BlockDeviceDoc{}
	for _, d := range m.Disks {
		doc := r.blockDoc(m, d)
		doc.Firmware = nil // the collection leaves it out
		list = append(list, *doc)
	}
	return list, nil
}

// BlockDevice reads one disk or volume.
func (r *Region) BlockDevice(c Caller, systemID string, id int) (*BlockDeviceDoc, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	m, err := r.forReading(c, systemID)
	if err != nil {
		return nil, err
	}
	if d := m.disk(id); d != nil {
		return r.blockDoc(m, d), nil
	}
	return nil, missing("BlockDevice")
}

// SetBootDisk chooses the disk that a Ready machine boots from.
func (r *Region) SetBootDisk(c Caller, systemID string, id int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, err := r.forAdmin(c, systemID)
	if err != nil {
		return err
	}
	d := m.disk(id)
	switch {
	case d == nil:
		return missing("BlockDevice")
	case m.Status != Ready:
		return conflict("Cannot set as boot disk because the machine is not Ready.")
	case d.Virtual:
		return badRequest("Cannot set a %s block device as the boot disk.", "virtual")
	}
	m.BootDisk = id
	r.changes++
	return nil
}

// TagBlockDevice adds or removes a tag of a disk.
func (r *Region) TagBlockDevice(c Caller, systemID string, id int, tag string, add bool) (*BlockDeviceDoc, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, err := r.forAdmin(c, systemID)
	if err != nil {
		return nil, err
	}
	d := m.disk(id)
	switch {
	case d == nil:
		return nil, missing("BlockDevice")
	case m.Status != Ready:
		return nil, conflict("Cannot update block device because the machine is not Ready.")
	case tag == "":
		return nil, badRequest("No provided tag!")
	}
	d.Tags = slices.DeleteFunc(slices.Clone(d.Tags), func(t string) bool { return t == tag })
	if add {
		d.Tags = append(d.Tags, tag)
	}
	r.changes++
	return r.blockDoc(m, d), nil
}
