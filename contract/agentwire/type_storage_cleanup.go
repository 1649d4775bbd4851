package agentwire

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// TypeStorageCleanup removes what tenants left on disks.
const TypeStorageCleanup = "node.storage_cleanup"

var _ = declare[StorageCleanupParams, StorageCleanupOutput](Spec{
	Type: TypeStorageCleanup, Title: "remove what tenants left on disks and mounts",
	Destroys: "What tenants left on disks and mounts is deleted for good, of those who are there now as well.",
	Class:    ClassExclusive, Window: 12 * time.Hour, Patience: time.Hour, Attempts: 3,
	Sound: []string{
		`{"scope":"local"}`, `{"scope":"all","scratch":["/scratch","/share3/tmp","/mnt/nvme0"]}`,
		`{"scope":"all","disks":"sanitize","minimum_level":"purge"}`, `{"scope":"local","disks":"sanitize"}`,
		`{"scope":"local","disks":"sanitize","blank_at_join":["S6ESNX0T300001"]}`,
	},
})

// StorageCleanupParams says what to clean: local (/tmp, /var/tmp, scratch),
// weka (mounts, configuration, and the containers of the client with their state
// and cache) or all.
type StorageCleanupParams struct {
	Scope string `json:"scope"`
	// Scratch adds folders that tenants may write to; their content is removed.
	Scratch []string `json:"scratch,omitempty"`
	// Disks is empty or sanitize. sanitize erases everything on the data disks
	// mounted at /share<N> and creates their file systems again.
	Disks string `json:"disks,omitempty"`
	// MinimumLevel is the lowest level that counts, clear or purge. A disk that
	// cannot reach it is left alone. Empty means clear.
	MinimumLevel string `json:"minimum_level,omitempty"`
	// BlankAtJoin are the serial numbers of disks that were blank when the node
	// joined: what is on them now, tenants left, so they are erased although they
	// are not mounted. Other disks that are not mounted are only looked at.
	BlankAtJoin []string `json:"blank_at_join,omitempty"`
}

// MaxDataDisks is more than a machine has.
const MaxDataDisks = 128

// DisksSanitize asks for the data disks to be erased.
const DisksSanitize = "sanitize"

// Levels of sanitization, as NIST SP 800-88 names them.
const (
	LevelClear = "clear"
	LevelPurge = "purge"
)

// scratchRoots are the only places below which folders may be emptied.
var scratchRoots = []string{"/scratch", "/share", "/mnt", "/local", "/data"}

// Validate implements Params.
func (p StorageCleanupParams) Validate() error {
	if !slices.Contains([]string{"local", "weka", "all"}, p.Scope) {
		return errors.New("scope must be local, weka or all")
	}
	if err := p.validateDisks(); err != nil {
		return err
	}
	if len(p.Scratch) > 32 {
		return errors.New("at most 32 scratch folders")
	}
	for _, s := range p.Scratch {
		if path.Clean(s) != s || !path.IsAbs(s) ||
			!slices.ContainsFunc(scratchRoots, func(root string) bool { return within(s, root) }) {
			return fmt.Errorf("scratch folder %q must be a clean absolute path below one of %s", s,
				strings.Join(scratchRoots, ", "))
		}
	}
	return nil
}

func (p StorageCleanupParams) validateDisks() error {
	switch {
	case p.Disks != "" && p.Disks != DisksSanitize:
		return errors.New("disks must be empty or sanitize")
	case p.Disks != "" && p.Scope == "weka":
		return errors.New("disks of the machine are not in the scope weka")
	case p.MinimumLevel != "" && p.MinimumLevel != LevelClear && p.MinimumLevel != LevelPurge:
		return errors.New("minimum_level must be empty, clear or purge")
	case p.MinimumLevel != "" && p.Disks == "":
		return errors.New("minimum_level is about disks, which are not asked for")
	case len(p.BlankAtJoin) > 0 && p.Disks == "":
		return errors.New("blank_at_join is about disks, which are not asked for")
	case len(p.BlankAtJoin) > MaxDataDisks || slices.Contains(p.BlankAtJoin, ""):
		return fmt.Errorf("blank_at_join has at most %d serial numbers, none of them empty", MaxDataDisks)
	}
	return nil
}

// within also accepts numbered roots such as /share3.
func within(p, root string) bool {
	rest, ok := strings.CutPrefix(p, root)
	if !ok {
		return false
	}
	rest = strings.TrimLeft(rest, "0123456789")
	return rest == "" || strings.HasPrefix(rest, "/")
}

// StorageCleanupOutput says what was removed, and what could not be.
type StorageCleanupOutput struct {
	Scope          string   `json:"scope"`
	EntriesRemoved int64    `json:"entries_removed"`
	BytesFreed     int64    `json:"bytes_freed"`
	Unmounted      []string `json:"unmounted"`
	ConfigRemoved  []string `json:"config_removed"`
	Residue        []string `json:"residue"`
	// Folders and Devices are the evidence, one entry for each that was looked
	// at.
	Folders []FolderCleaned   `json:"folders"`
	Devices []DeviceSanitized `json:"devices"`
}

// Outcomes of a folder or a device.
const (
	OutcomeEmptied    = "emptied"
	OutcomeIncomplete = "incomplete" // something is left
	OutcomeNotThere   = "not_there"
	OutcomeSkipped    = "skipped" // not touched
	OutcomeSanitized  = "sanitized"
	OutcomeFailed     = "failed"  // touched, and not proven to be erased
	OutcomeRefused    = "refused" // not touched: nothing was destroyed
	OutcomeBlank      = "blank"   // not touched, and all that was read is zero
)

// What proves that a device is erased.
const (
	VerifiedByZeroes  = "zeroes"  // all that was read was zero
	VerifiedByAbsence = "absence" // nothing that was read equals what was there before
	VerifiedByNothing = "nothing"
)

// FolderCleaned is the evidence for one folder.
type FolderCleaned struct {
	Path           string `json:"path"`
	EntriesRemoved int64  `json:"entries_removed"`
	BytesFreed     int64  `json:"bytes_freed"`
	Outcome        string `json:"outcome"` // emptied, incomplete, not_there, skipped
	Reason         string `json:"reason,omitempty"`
}

// DeviceSanitized is the evidence for one block device.
type DeviceSanitized struct {
	Device     string `json:"device"`      // empty if there is none behind the mount point
	MountPoint string `json:"mount_point"` // empty for a disk that is not mounted as a data disk
	Serial     string `json:"serial"`
	Model      string `json:"model"`
	Transport  string `json:"transport"`
	SizeBytes  int64  `json:"size_bytes"`
	// WholeBytes is the size of the disk that the device is a part of. It is
	// zero if the device is the disk itself.
	WholeBytes int64 `json:"whole_bytes,omitempty"`
	// Method is what was done last, and Level its level: clear or purge.
	Method  string `json:"method"`
	Level   string `json:"level"`
	Outcome string `json:"outcome"` // sanitized, failed, refused, blank
	// Reason says why it was not sanitized, and which better methods the device
	// did not carry out.
	Reason string `json:"reason,omitempty"`
	// BytesCovered is to how much of the device the method was applied.
	BytesCovered int64 `json:"bytes_covered"`
	// Canaries are blocks of random bytes that were written and read back
	// before, and looked for afterwards. Found means that any sector of one
	// came back.
	CanariesPlanted int `json:"canaries_planted"`
	CanariesFound   int `json:"canaries_found"`
	// Samples are what was read afterwards. If the method leaves zeroes,
	// anything else is unclean; if it leaves anything, only the former content
	// is.
	SamplesRead    int    `json:"samples_read"`
	SampleBytes    int64  `json:"sample_bytes"`
	SamplesUnclean int    `json:"samples_unclean"`
	VerifiedBy     string `json:"verified_by"` // zeroes, absence, nothing
	Verified       bool   `json:"verified"`
	// Tool is the program and version that did it.
	Tool      string    `json:"tool"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
	// FilesystemRestored says that an empty file system of the same kind, name
	// and id is mounted where the former one was.
	FilesystemRestored bool `json:"filesystem_restored"`
}
