package decommission

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/contract/certificate"
)

// disk is one disk of the machine, and its devices that evidence mentions.
type disk struct {
	name, serial string // name is the kernel's, without /dev
	whole        int64  // bytes; 0 if unknown
	parts        []string
	named        int64 // bytes of the partitions
}

var partitionForm = regexp.MustCompile(`^(.*[0-9])p[0-9]+$|^((?:s|h|v|xv)d[a-z]+)[0-9]+$`)

// diskOf returns the disk that a device is, or is a partition of.
func diskOf(device string) (name string, partition bool) {
	name = path.Base(device)
	if m := partitionForm.FindStringSubmatch(name); m != nil {
		return m[1] + m[2], true
	}
	return name, false
}

// device adds what was done to a device. The serial number of a disk identifies
// a partition only together with the partition's name.
func (b *builder) device(s seen, v agentwire.DeviceSanitized, ref []certificate.Evidence) {
	identifier := or(v.Serial, or(v.Device, or(v.MountPoint, "a disk without a name")))
	b.doc.Machine.Serials = append(b.doc.Machine.Serials,
		certificate.Serial{Part: "disk", Name: v.Device, Value: identifier, Source: agentTool})
	if name, partition := diskOf(v.Device); v.Device != "" {
		partition = partition || v.WholeBytes > v.SizeBytes
		b.names(name, partition, v)
		if partition && v.Serial != "" {
			identifier = v.Serial + " partition " + path.Base(v.Device)
		}
	}
	subject := certificate.Subject{
		Kind: "disk", Identifier: identifier, Description: strings.TrimSpace(v.Model + " " + v.MountPoint),
		ObservedBy: certificate.Agent, Outcome: certificate.Failed, Detail: v.Reason,
		Method: v.Method, CoveredBytes: v.BytesCovered, TotalBytes: v.SizeBytes, Tool: v.Tool, StartedAt: v.StartedAt,
		EndedAt: v.EndedAt, Evidence: ref,
		Verification: certificate.Verification{
			How: "canaries were looked for, and samples read back: " + v.VerifiedBy, Samples: int64(v.SamplesRead),
			BytesRead: v.SampleBytes, SamplesUnclean: int64(v.SamplesUnclean),
			CanariesPlanted: int64(v.CanariesPlanted), CanariesFound: int64(v.CanariesFound), Result: certificate.NotPassed,
		},
	}
	switch doubt := s.doubtOf(v); {
	case doubt == "" && v.Outcome == agentwire.OutcomeBlank:
		subject.Outcome, subject.Detail, subject.Verification.Result = certificate.Done,
			or(v.Reason, "nothing was on it, and nothing was done to it"), certificate.Passed
	case doubt == "":
		subject.Outcome, subject.Level, subject.Verification.Result = certificate.Sanitized, certificate.Level(v.Level),
			certificate.Passed
	case v.Outcome == agentwire.OutcomeRefused:
		subject.Outcome, subject.Verification.Result = certificate.Refused, certificate.NotVerifiable
	case v.Outcome == agentwire.OutcomeSanitized || v.Outcome == agentwire.OutcomeBlank:
		subject.Detail = doubt
	}
	subject.CoveredBytes = min(max(subject.CoveredBytes, 0), subject.TotalBytes) // more than the whole cannot be claimed
	b.add(subject)
}

// names records that evidence mentions a device of a disk.
func (b *builder) names(name string, partition bool, v agentwire.DeviceSanitized) {
	i := slices.IndexFunc(b.disks, func(d disk) bool { return d.name == name })
	if i < 0 {
		i, b.disks = len(b.disks), append(b.disks, disk{name: name, serial: v.Serial})
	}
	if d := &b.disks[i]; partition {
		d.whole, d.parts, d.named = max(d.whole, v.WholeBytes), append(d.parts, path.Base(v.Device)), d.named+v.SizeBytes
	}
}

// doubtOf returns why this task does not prove that a device is sanitized or
// blank, or "" if it does. Work done outside the time of the task was not done
// by it.
func (s seen) doubtOf(v agentwire.DeviceSanitized) string {
	doubt := doubtOf(v)
	if v.Outcome == agentwire.OutcomeBlank {
		doubt = doubtOfBlank(v)
	}
	if doubt != "" {
		return doubt
	}
	earliest, latest := s.AskedAt.Add(-agentwire.MaxSkew), at(s.FinishedAt, v.EndedAt).Add(agentwire.MaxSkew)
	if v.StartedAt.Before(earliest) || v.EndedAt.After(latest) || v.EndedAt.Before(v.StartedAt) {
		return fmt.Sprintf("it is said to have been done from %s to %s, and the task was asked for at %s and had ended at %s",
			stamp(v.StartedAt), stamp(v.EndedAt), stamp(s.AskedAt), stamp(at(s.FinishedAt, time.Time{})))
	}
	return ""
}

// doubtOfBlank returns why a device does not count as empty, or "" if it does.
func doubtOfBlank(v agentwire.DeviceSanitized) string {
	switch {
	case v.SamplesUnclean > 0:
		return fmt.Sprintf("it is said to be blank, and %d samples are not", v.SamplesUnclean)
	case !v.Verified || v.SampleBytes <= 0:
		return or(v.Reason, "it is said to be blank, and nothing that was read speaks for it")
	}
	return ""
}

// diskGaps names the remainder of disks of which only partitions were
// sanitized, and the disks of the machine that no evidence mentions.
func (b *builder) diskGaps() error {
	for _, d := range b.disks {
		if len(d.parts) == 0 || d.whole > 0 && d.whole <= d.named {
			continue
		}
		what := fmt.Sprintf("disk %s outside of %s", or(d.serial, d.name), strings.Join(d.parts, ", "))
		if d.whole > 0 {
			what = fmt.Sprintf("%d of %d bytes of %s", d.whole-d.named, d.whole, what)
		}
		b.gap(what, "only what is named of the disk was dealt with")
	}
	if b.node.Inspection == nil {
		return nil
	}
	var found agentwire.Capabilities
	if err := json.Unmarshal(b.node.Inspection, &found); err != nil {
		return fmt.Errorf("decode inspection of node %s: %w", b.node.ID, err)
	}
	for _, d := range found.Disks {
		if !slices.ContainsFunc(b.disks, func(o disk) bool { return o.name == path.Base(d.Name) }) {
			b.gap(strings.TrimSpace(fmt.Sprintf("disk %s (%d bytes) %s", d.Name, d.SizeBytes, d.Model)),
				"the machine has it, and no evidence here speaks of it")
		}
	}
	return nil
}
