package sanitize

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gpuaas/agent/internal/hostexec"
	"gpuaas/agent/internal/inspect"
	"gpuaas/contract/agentwire"
)

// sharePoint is where data disks are mounted.
var sharePoint = regexp.MustCompile(`^/share[0-9]+$`)

// IsShare says whether a path is the mount point of a data disk.
func IsShare(point string) bool { return sharePoint.MatchString(point) }

// Disk is a block device as the machine shows it.
type Disk struct {
	Name    string `json:"name"`    // of the kernel, for example nvme1n1
	Node    string `json:"node"`    // path by which it is opened
	Numbers string `json:"numbers"` // major:minor
	Whole   string `json:"whole"`   // the device that it is a part of, or itself
	// Identity stays the same if devices get other names. Boot is for devices
	// that have none.
	Identity  string `json:"identity"`
	Boot      string `json:"boot"`
	Serial    string `json:"serial"`
	Model     string `json:"model"`
	Transport string `json:"transport"`
	// WholeBytes is the size of the disk that this is a part of. It is zero if
	// it is the disk itself.
	WholeBytes int64 `json:"whole_bytes,omitempty"`
}

func (d Disk) nvme() bool { return strings.HasPrefix(d.Name, "nvme") }

func (d Disk) isWhole() bool { return d.Name == d.Whole }

// Target is a data disk with what is needed to restore its file system.
type Target struct {
	Disk       Disk       `json:"disk"`
	Point      string     `json:"point"`
	Filesystem Filesystem `json:"filesystem"`
	Plan       Plan       `json:"plan"`
	// Refused says why the disk is left alone. It is empty if it is erased.
	Refused string `json:"refused,omitempty"`
	// Unclaimed says that the disk is not mounted as a data disk, so it is only
	// looked at.
	Unclaimed bool `json:"unclaimed,omitempty"`
	// Bare says that the disk is erased whole, and gets no file system back.
	Bare bool `json:"bare,omitempty"`
}

// name is the name of a target in reports and notes.
func (t Target) name() string {
	if t.Point != "" {
		return t.Point
	}
	return t.Disk.Node
}

// Evidence returns the evidence of a target that was not touched yet.
func (t Target) Evidence(tool string) agentwire.DeviceSanitized {
	return agentwire.DeviceSanitized{
		Device: t.Disk.Node, MountPoint: t.Point, Serial: t.Disk.Serial, Model: t.Disk.Model, Transport: t.Disk.Transport,
		WholeBytes: t.Disk.WholeBytes, VerifiedBy: agentwire.VerifiedByNothing, Tool: tool,
	}
}

// Finder looks for data disks.
type Finder struct {
	Host    hostexec.Host
	Mounts  []inspect.Mount
	Table   []inspect.Mount // what /etc/fstab wants
	Minimum string
	// Ours are the serial numbers of disks that are erased although they are not
	// mounted: they were blank when the machine became a node.
	Ours []string
}

// Targets lists the data disks, including those that must not be touched. It
// changes nothing.
func (f Finder) Targets(ctx context.Context) []Target {
	var targets []Target
	for i, m := range f.Mounts {
		if !sharePoint.MatchString(m.Point) || slices.ContainsFunc(f.Mounts[:i],
			func(o inspect.Mount) bool { return o.Point == m.Point }) {
			continue
		}
		t := Target{Point: m.Point}
		if err := f.examine(ctx, m, &t); err != nil {
			t.Refused = err.Error()
		}
		targets = append(targets, t)
	}
	for _, w := range f.Table {
		if !sharePoint.MatchString(w.Point) || slices.ContainsFunc(targets,
			func(t Target) bool { return t.Point == w.Point }) {
			continue
		}
		targets = append(targets, Target{
			Point:   w.Point,
			Refused: "the machine should have a disk here, and it is not mounted: nothing is known of what is on it",
		})
	}
	return targets
}

// examine fills in a target, or says why it is left alone.
func (f Finder) examine(ctx context.Context, m inspect.Mount, t *Target) error {
	if m.Shared() {
		return fmt.Errorf("a %s file system may be used by other machines too", m.Type)
	}
	disk, err := f.disk(m.Device)
	if err != nil {
		return fmt.Errorf("there is no local block device behind it (%s): %w", m.Type, err)
	}
	t.Disk = disk
	if err := f.usable(disk); err != nil {
		return err
	}
	if err := f.onlyHere(m, disk); err != nil {
		return err
	}
	if err := f.alone(ctx, disk); err != nil {
		return err
	}
	if t.Filesystem, err = examineFilesystem(f.Host, m, disk); err != nil {
		return err
	}
	d, err := Look(f.Host.Path(disk.Node), disk)
	if err != nil {
		return err
	}
	defer d.Close()
	if d.Size() < smallest {
		return fmt.Errorf("it has only %d bytes", d.Size())
	}
	t.Plan = Choose(d, disk.isWhole(), f.Minimum)
	if why := t.Plan.Refusal(f.Minimum); why != "" {
		return errors.New(why)
	}
	return nil
}

// sys returns the folder of a device in sysfs.
func (f Finder) sys(numbers string) (string, error) {
	return filepath.EvalSymlinks(f.Host.Path("/sys/dev/block/" + numbers))
}

func (f Finder) disk(numbers string) (Disk, error) {
	dir, err := f.sys(numbers)
	if err != nil {
		return Disk{}, bare(err)
	}
	name := filepath.Base(dir)
	d := Disk{
		Name: name, Node: "/dev/" + strings.ReplaceAll(name, "!", "/"), Numbers: numbers, Whole: name,
		Boot: line(f.Host.Path("/proc/sys/kernel/random/boot_id")),
	}
	part := line(dir + "/partition")
	if part != "" {
		dir = filepath.Dir(dir)
		d.Whole = filepath.Base(dir)
		sectors, err := strconv.ParseInt(line(dir+"/size"), 10, 64)
		if err != nil || sectors <= 0 || sectors > math.MaxInt64/sector {
			return Disk{}, fmt.Errorf("the size of %s is not known", d.Whole)
		}
		d.WholeBytes = sectors * sector // sysfs counts in 512 bytes, whatever the disk does
	}
	d.Model, d.Serial = line(dir+"/device/model"), serial(dir)
	d.Transport = transport(dir)
	for _, file := range []string{"/wwid", "/device/wwid", "/loop/backing_file"} {
		if id := line(dir + file); id != "" && d.Identity == "" {
			d.Identity = id
		}
	}
	if d.Identity == "" {
		d.Identity = d.Serial
	}
	if d.Identity != "" && part != "" {
		d.Identity += " part " + part
	}
	return d, nil
}

func serial(dir string) string {
	for _, file := range []string{"/device/serial", "/serial"} {
		if s := line(dir + file); s != "" {
			return s
		}
	}
	page, err := os.ReadFile(dir + "/device/vpd_pg80")
	if err != nil || len(page) < 5 {
		return ""
	}
	return strings.TrimSpace(strings.Trim(strings.ToValidUTF8(string(page[4:]), ""), "\x00"))
}

// transport says how a disk is connected, by its place among the devices.
func transport(dir string) string {
	name := filepath.Base(dir)
	if strings.HasPrefix(name, "nvme") {
		return nvmeTransport(dir)
	}
	for _, known := range []struct{ part, transport string }{
		{"/virtual/block/loop", "loop"},
		{"/session", "iscsi"},
		{"/rport-", "fc"},
		{"/virtual/block/nbd", "nbd"},
		{"/rbd", "rbd"},
		{"/virtual/", "virtual"},
		{"/usb", "usb"},
		{"/virtio", "virtio"},
		{"/ata", "ata"},
		{"/end_device-", "sas"},
	} {
		if strings.Contains(dir, known.part) {
			return known.transport
		}
	}
	return "unknown"
}

// nvmeTransport returns pcie if every path to the device is PCIe.
func nvmeTransport(dir string) string {
	files, err := filepath.Glob(dir + "/device/nvme*/transport")
	if err != nil || len(files) == 0 {
		files = []string{dir + "/device/transport"}
	}
	for _, f := range files {
		if how := line(f); how != "pcie" {
			return "nvme-" + how
		}
	}
	return "nvme-pcie"
}

// local lists the transports of disks that only this machine can reach.
var local = []string{"nvme-pcie", "loop", "usb", "virtio", "ata", "sas"}

// usable says why a device of this kind must not be touched.
func (f Finder) usable(d Disk) error {
	dir, err := f.sys(d.Numbers)
	if err != nil {
		return bare(err)
	}
	if len(list(dir+"/slaves")) > 0 || strings.HasPrefix(d.Name, "dm-") || strings.HasPrefix(d.Name, "md") {
		return fmt.Errorf("%s is put together from other devices (%s), which would each have to be erased", d.Name,
			strings.Join(list(dir+"/slaves"), ", "))
	}
	whole := dir
	if !d.isWhole() {
		whole = filepath.Dir(dir)
	}
	switch {
	case !slices.Contains(local, d.Transport):
		return fmt.Errorf("it is connected by %s, which is not known to be for this machine alone", d.Transport)
	case line(dir+"/ro") == "1":
		return errors.New("the device is read only")
	}
	parts, err := filepath.Glob(whole + "/*/partition")
	if err != nil {
		return fmt.Errorf("list partitions: %w", err)
	}
	if d.isWhole() && len(parts) > 0 {
		return errors.New("the device has partitions, and is mounted as a whole")
	}
	for _, at := range append(parts, whole+"/partition") {
		if holders := list(filepath.Dir(at) + "/holders"); len(holders) > 0 {
			return fmt.Errorf("%s is a part of %s", filepath.Base(filepath.Dir(at)), strings.Join(holders, ", "))
		}
	}
	return nil
}

// onlyHere makes sure that the disk carries nothing else: no system, other
// mount, swap, or second mount of the same file system.
func (f Finder) onlyHere(m inspect.Mount, d Disk) error {
	if m.Root != "/" {
		return fmt.Errorf("only the folder %s of the file system is mounted here", m.Root)
	}
	seen := 0
	for _, o := range f.Mounts {
		if o.Point == m.Point {
			if seen++; seen > 1 {
				return errors.New("more than one file system is mounted here")
			}
			continue
		}
		if inspect.Within(o.Point, m.Point) {
			return fmt.Errorf("another file system is mounted in it, at %s", o.Point)
		}
		if slices.Contains(f.wholes(o.Device, o.Source), d.Whole) {
			return fmt.Errorf("the disk %s also carries %s", d.Whole, o.Point)
		}
	}
	for row := range strings.Lines(text(f.Host.Path("/proc/swaps"))) {
		if fields := strings.Fields(row); len(fields) > 1 && slices.Contains(f.wholes("", fields[0]), d.Whole) {
			return fmt.Errorf("the disk %s is also used for swap", d.Whole)
		}
	}
	return nil
}

// wholes names the disks below a mount, through RAID, LVM and the like. Some
// file systems show their own number instead, and name their device.
func (f Finder) wholes(numbers, source string) []string {
	if numbers == "" || strings.HasPrefix(numbers, "0:") {
		var st unix.Stat_t
		if !strings.HasPrefix(source, "/dev/") || unix.Stat(f.Host.Path(source), &st) != nil ||
			st.Mode&unix.S_IFMT != unix.S_IFBLK {
			return nil
		}
		numbers = deviceNumbers(&st)
	}
	dir, err := f.sys(numbers)
	if err != nil {
		return nil
	}
	return under(dir)
}

func under(dir string) []string {
	slaves := list(dir + "/slaves")
	if len(slaves) == 0 {
		if line(dir+"/partition") != "" {
			dir = filepath.Dir(dir)
		}
		return []string{filepath.Base(dir)}
	}
	var all []string
	for _, s := range slaves {
		if below, err := filepath.EvalSymlinks(dir + "/slaves/" + s); err == nil {
			all = append(all, under(below)...)
		}
	}
	return all
}

// Same says why a device is not the one that was found earlier. It is nil if it
// is the same.
func (f Finder) Same(d Disk) error {
	now, err := f.disk(d.Numbers)
	switch {
	case err != nil:
		return fmt.Errorf("the device %s is gone: %w", d.Node, err)
	case now.Identity != d.Identity || now.Name != d.Name || now.Serial != d.Serial:
		return fmt.Errorf("%s is another device now", d.Node)
	case d.Identity == "" && now.Boot != d.Boot:
		return fmt.Errorf("the machine was started anew, and %s has nothing that it could be recognised by", d.Node)
	}
	return nil
}

func text(path string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(raw)
}

func line(path string) string {
	first, _, _ := strings.Cut(text(path), "\n")
	return strings.TrimSpace(strconv.QuoteToASCII(first)[1 : len(strconv.QuoteToASCII(first))-1])
}

func list(path string) []string {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

// bare removes the path from a message: paths of sysfs tell nobody anything.
func bare(err error) error {
	var in *fs.PathError
	if errors.As(err, &in) {
		return in.Err
	}
	return err
}
