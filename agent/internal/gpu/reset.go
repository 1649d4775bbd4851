package gpu

import (
	"fmt"
	"strconv"
	"strings"
)

// ResetOutcome says how a reset ended.
type ResetOutcome string

// The outcomes of a reset.
const (
	ResetDone         ResetOutcome = "done"
	ResetInUse        ResetOutcome = "in_use"
	ResetNotSupported ResetOutcome = "not_supported"
	ResetNotPermitted ResetOutcome = "not_permitted"
	ResetFailed       ResetOutcome = "failed"
)

// ResetCommands returns the commands that reset the GPU, that of the vendor's
// newest tool first. One that is not installed is passed over for the next.
func ResetCommands(vendor Vendor, g GPU) ([][]string, error) {
	switch {
	case vendor == NVIDIA && identifier.MatchString(g.UUID):
		return [][]string{{"nvidia-smi", "--gpu-reset", "-i", g.UUID}}, nil
	case vendor == AMD && g.Index >= 0 && identifier.MatchString(g.PCI):
		return [][]string{
			{"amd-smi", "reset", "--gpureset", "--gpu", g.PCI},
			{"rocm-smi", "--gpureset", "-d", strconv.Itoa(g.Index)},
		}, nil
	default:
		return nil, fmt.Errorf("reset GPU %q of vendor %q: no such GPU", g.UUID, string(vendor))
	}
}

// ParseReset reads what the tool printed. It reports a success only if the exit
// status and the text agree.
func ParseReset(vendor Vendor, exit int, output string) ResetOutcome {
	text := strings.ToLower(output)
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(text, p) {
				return true
			}
		}
		return false
	}
	switch {
	case has("insufficient permissions", "permission denied", "requires root", "must be run as root",
		"requires elevation"):
		return ResetNotPermitted
	case has("in use by", "being used by"):
		return ResetInUse
	case has("not supported", "not_supported", "not available on this"):
		return ResetNotSupported
	case exit == 0 && vendor == NVIDIA && has("was successfully reset"),
		exit == 0 && vendor == AMD && has("successfully reset gpu"):
		return ResetDone
	default:
		return ResetFailed
	}
}
