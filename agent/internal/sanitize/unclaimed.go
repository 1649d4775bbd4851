package sanitize

import (
	"context"
	"crypto/rand"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gpuaas/contract/agentwire"
)

// systemPoints are where disks of the installation are mounted. What tenants
// leave there is removed file by file.
var systemPoints = []string{
	"/", "/boot", "/boot/efi", "/efi", "/usr", "/opt", "/home", "/tmp", "/scratch",
	"/var", "/var/tmp", "/var/log", "/var/lib", "/var/lib/docker", "/var/lib/containerd",
}

// elsewhere lists the transports of disks that are not, or not only, in this
// machine.
var elsewhere = []string{"loop", "iscsi", "fc", "nbd", "rbd", "virtual"}

// Unclaimed lists the disks of this machine that neither carry the system nor
// are mounted as data disks: whoever is root can use them, and nothing else
// here would notice. It leaves out the disks of the targets.
func (f Finder) Unclaimed(targets []Target) []Target {
	if f.contained() {
		return nil
	}
	points := f.points()
	var unclaimed []Target
	for _, name := range list(f.Host.Path("/sys/block")) {
		dir, err := filepath.EvalSymlinks(f.Host.Path("/sys/block/" + name))
		if err != nil || !isDisk(dir) {
			continue
		}
		t := Target{Unclaimed: true, Disk: Disk{Name: name, Node: "/dev/" + strings.ReplaceAll(name, "!", "/"), Whole: name}}
		if disk, err := f.disk(line(dir + "/dev")); err != nil {
			t.Refused = fmt.Sprintf("it could not be looked at: %v", err)
		} else {
			t.Disk = disk
		}
		known := slices.ContainsFunc(targets, func(o Target) bool { return o.Disk.Whole == name })
		of := points[name]
		if known || slices.ContainsFunc(of, func(p string) bool {
			return IsShare(p) || p == swap ||
				slices.Contains(systemPoints, p)
		}) {
			continue
		}
		if len(of) > 0 {
			t.Refused = fmt.Sprintf("it is mounted at %s, and only what is mounted at /share<N> is erased",
				strings.Join(of, ", "))
		}
		unclaimed = append(unclaimed, t)
	}
	return unclaimed
}

// claim makes targets of disks that were blank when the machine became a node.
// What they hold now, whoever had the machine left there, partitions included. A
// disk that is blank still, or that cannot be erased, stays one to look at.
func (f Finder) claim(ctx context.Context, unclaimed []Target) []Target {
	for i := range unclaimed {
		if t := &unclaimed[i]; t.Refused == "" && t.Disk.Serial != "" && slices.Contains(f.Ours, t.Disk.Serial) {
			f.claimOne(ctx, t)
		}
	}
	return unclaimed
}

func (f Finder) claimOne(ctx context.Context, t *Target) {
	seen, _, err := f.readThrough(ctx, t.Disk)
	if err == nil && seen.unclean == 0 || f.Erasable(t.Disk) != nil {
		return
	}
	d, err := Look(f.Host.Path(t.Disk.Node), t.Disk)
	if err != nil {
		return
	}
	defer d.Close()
	// The disk is to be blank again, which methods that leave anything do not bring.
	plan := Choose(d, true, f.Minimum)
	plan.Methods = slices.DeleteFunc(plan.Methods, func(m Method) bool { return !traits[m].zeroes })
	if d.Size() >= smallest && len(plan.Methods) > 0 && plan.Refusal(f.Minimum) == "" {
		t.Plan, t.Unclaimed, t.Bare = plan, false, true
	}
}

// Erasable says why a whole disk that is not mounted, with whatever partitions it
// has, must not be touched.
func (f Finder) Erasable(d Disk) error {
	dir, err := f.sys(d.Numbers)
	if err != nil {
		return bare(err)
	}
	if !slices.Contains(local, d.Transport) {
		return fmt.Errorf("it is connected by %s, which is not known to be for this machine alone", d.Transport)
	}
	parts, err := filepath.Glob(dir + "/*/partition")
	if err != nil {
		return fmt.Errorf("list partitions: %w", err)
	}
	for _, at := range append(parts, dir+"/partition") {
		if holders := list(filepath.Dir(at) + "/holders"); len(holders) > 0 {
			return fmt.Errorf("%s is a part of %s", filepath.Base(filepath.Dir(at)), strings.Join(holders, ", "))
		}
	}
	return nil
}

// contained says whether the machine is a container: it sees the disks of its
// host and has none of its own.
func (f Finder) contained() bool {
	table := strings.Fields(text(f.Host.Path("/proc/self/uid_map")))
	return len(table) > 0 && !slices.Equal(table, []string{"0", "0", "4294967295"})
}

// swap stands for a mount point.
const swap = "swap"

// points says where each disk is mounted.
func (f Finder) points() map[string][]string {
	points := map[string][]string{}
	add := func(wholes []string, point string) {
		for _, w := range wholes {
			points[w] = append(points[w], point)
		}
	}
	for _, m := range f.Mounts {
		add(f.wholes(m.Device, m.Source), m.Point)
	}
	for row := range strings.Lines(text(f.Host.Path("/proc/swaps"))) {
		if fields := strings.Fields(row); len(fields) > 1 {
			add(f.wholes("", fields[0]), swap)
		}
	}
	return points
}

// isDisk says whether a device could hold data of this machine. A read-only
// flag counts only on USB: whoever is root can set it on any disk.
func isDisk(dir string) bool {
	name, how := filepath.Base(dir), transport(dir)
	switch {
	case strings.HasPrefix(name, "sr"), strings.HasPrefix(name, "fd"), strings.HasPrefix(name, "dm-"),
		strings.HasPrefix(name, "md"),
		strings.HasPrefix(name, "ram"), strings.HasPrefix(name, "zram"):
		return false
	case slices.Contains(elsewhere, how), strings.HasPrefix(how, "nvme-") && how != "nvme-pcie":
		return false
	case line(dir+"/size") == "0", line(dir+"/hidden") == "1": // no medium, or another path to a listed disk
		return false
	case how == "usb" && line(dir+"/ro") == "1":
		return false
	}
	return true
}

// Judge looks at a disk that nobody uses and returns the evidence: blank if all
// that was read is zero, and otherwise refused. It changes nothing.
func (f Finder) Judge(ctx context.Context, t Target, tool string, clock func() time.Time) agentwire.DeviceSanitized {
	e := t.Evidence(tool)
	e.StartedAt = clock().UTC()
	e.EndedAt, e.Outcome, e.Reason = e.StartedAt, agentwire.OutcomeRefused, t.Refused
	if t.Refused != "" {
		return e
	}
	seen, size, err := f.readThrough(ctx, t.Disk)
	e.SizeBytes, e.SamplesRead, e.SampleBytes, e.SamplesUnclean = size, seen.samples, seen.bytes, seen.unclean
	e.EndedAt = clock().UTC()
	switch {
	case err != nil:
		e.Reason = fmt.Sprintf("not mounted: not erased, and it could not be looked at: %v", err)
	case seen.unclean > 0:
		e.Reason = fmt.Sprintf("not mounted: not erased, and it is not blank: %s",
			strings.ReplaceAll(seen.problem, "is not erased", "is not zero"))
	default:
		e.Outcome, e.Verified, e.VerifiedBy = agentwire.OutcomeBlank, true, agentwire.VerifiedByZeroes
		e.Reason = "not mounted: not erased; all that was read of it is zero"
	}
	return e
}

// readThrough reads a small device whole, and of a large one the ends and
// samples that nobody can foresee.
func (f Finder) readThrough(ctx context.Context, d Disk) (seen finding, size int64, err error) {
	dev, err := open(f.Host.Path(d.Node), d, unix.O_RDONLY|unix.O_DIRECT)
	if err != nil {
		return seen, 0, bare(err)
	}
	defer dev.Close()
	size = dev.Size()
	look := scan{places: everywhere(size), length: piece, clean: isZero}
	if size > fullRead {
		seed := make([]byte, 32)
		_, _ = rand.Read(seed) // never fails
		look.places = withEnds(spread(seed, size, sampleCount), size)
	}
	seen, err = look.run(ctx, dev)
	return seen, size, err
}

// alone makes sure that nothing else is on the disk of a partition: other
// partitions are mounted nowhere, so nobody would look at their data.
func (f Finder) alone(ctx context.Context, d Disk) error {
	if d.isWhole() {
		return nil
	}
	dir, err := f.sys(d.Numbers)
	if err != nil {
		return bare(err)
	}
	parts, err := filepath.Glob(filepath.Dir(dir) + "/*/partition")
	if err != nil {
		return fmt.Errorf("list partitions: %w", err)
	}
	for _, part := range parts {
		other, err := f.disk(line(filepath.Dir(part) + "/dev"))
		if err == nil && other.Name == d.Name {
			continue
		}
		var seen finding
		if err == nil {
			seen, _, err = f.readThrough(ctx, other)
		}
		switch name := filepath.Base(filepath.Dir(part)); {
		case err != nil:
			return fmt.Errorf("the disk %s has another part, %s, which could not be looked at: %w", d.Whole, name, err)
		case seen.unclean > 0:
			return fmt.Errorf("the disk %s has another part, %s, which is not mounted and not blank: it would not be erased",
				d.Whole, name)
		}
	}
	return nil
}
