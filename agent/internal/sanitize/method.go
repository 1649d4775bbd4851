package sanitize

import (
	"fmt"
	"strings"

	"gpuaas/contract/agentwire"
)

// Method is a way to erase a device.
type Method string

// The methods, best first.
const (
	NVMeSanitizeCrypto Method = "nvme_sanitize_crypto_erase"
	NVMeSanitizeBlock  Method = "nvme_sanitize_block_erase"
	NVMeFormatCrypto   Method = "nvme_format_crypto_erase"
	NVMeFormatUserData Method = "nvme_format_user_data_erase"
	SecureDiscard      Method = "secure_discard"
	Discard            Method = "discard"
	ZeroOut            Method = "zero_out"
	Overwrite          Method = "overwrite_zeroes"
)

// trait is what a method promises.
type trait struct {
	level string
	// zeroes says that the device reads as zeroes afterwards. Other methods
	// leave anything.
	zeroes bool
}

// traits use the terms of NIST SP 800-88: a laboratory cannot undo a purge; the
// interface of the device cannot undo a clear. Where opinions differ, as on
// formatting with the erase of user data, the lower level is claimed.
var traits = map[Method]trait{
	NVMeSanitizeCrypto: {level: agentwire.LevelPurge},
	NVMeSanitizeBlock:  {level: agentwire.LevelPurge},
	NVMeFormatCrypto:   {level: agentwire.LevelPurge},
	NVMeFormatUserData: {level: agentwire.LevelClear},
	SecureDiscard:      {level: agentwire.LevelClear, zeroes: true},
	Discard:            {level: agentwire.LevelClear, zeroes: true},
	ZeroOut:            {level: agentwire.LevelClear, zeroes: true},
	Overwrite:          {level: agentwire.LevelClear, zeroes: true},
}

// Level returns the level of a method.
func (m Method) Level() string { return traits[m].level }

func (m Method) suffices(minimum string) bool {
	return minimum != agentwire.LevelPurge || m.Level() == agentwire.LevelPurge
}

// Plan says which methods may be tried on a device, best first.
type Plan struct {
	Methods []Method `json:"methods"`
	// Without says why better methods are missing.
	Without []string `json:"without,omitempty"`
	NSID    uint32   `json:"nsid,omitempty"`
	Format  uint32   `json:"format,omitempty"` // present format of the namespace, as Format NVM wants it
}

// Refusal says why a device cannot be erased as wanted. It is empty if it can.
func (p Plan) Refusal(minimum string) string {
	if len(p.Methods) > 0 {
		return ""
	}
	return fmt.Sprintf("nothing that this device can do reaches the level %s: %s", minimum, strings.Join(p.Without, "; "))
}

// Choose asks a device what it can do, and changes nothing. whole says that the
// device is not part of a larger one.
func Choose(d Device, whole bool, minimum string) Plan {
	var p Plan
	var able []Method
	switch {
	case !d.NVMe():
		p.Without = append(p.Without, "not an NVMe device")
	case !whole:
		p.Without = append(p.Without, "only a part of an NVMe device, whose commands are for all of it")
	default:
		able = p.askNVMe(d)
	}
	able = append(able, SecureDiscard)
	if d.DiscardZeroes() {
		able = append(able, Discard)
	}
	able = append(able, ZeroOut, Overwrite)
	lesser := []string{}
	for _, m := range able {
		if m.suffices(minimum) {
			p.Methods = append(p.Methods, m)
		} else {
			lesser = append(lesser, string(m))
		}
	}
	if len(lesser) > 0 {
		p.Without = append(p.Without, strings.Join(lesser, ", ")+" would only be "+agentwire.LevelClear)
	}
	return p
}
