package agentwire

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Vitals are what an agent says about its own process with every call, in a header: a
// control plane of before reads bodies strictly and passes over headers. What is zero is
// not known.
type Vitals struct {
	MemoryBytes int64         // resident
	Uptime      time.Duration // since the process started, in whole seconds
}

// Bounds of what an agent can say about itself.
const (
	mostMemory = 1 << 40
	mostUptime = 100 * 365 * 24 * 60 * 60
)

// String returns the header.
func (v Vitals) String() string {
	var parts []string
	if v.MemoryBytes > 0 {
		parts = append(parts, "memory="+strconv.FormatInt(v.MemoryBytes, 10))
	}
	if seconds := int64(v.Uptime / time.Second); seconds > 0 {
		parts = append(parts, "uptime="+strconv.FormatInt(seconds, 10))
	}
	return strings.Join(parts, ";")
}

// ParseVitals reads the header. Names that it does not know are those of a later version.
func ParseVitals(header string) (v Vitals, err error) {
	for part := range strings.SplitSeq(header, ";") {
		name, text, _ := strings.Cut(part, "=")
		var most int64
		switch name {
		case "memory":
			most = mostMemory
		case "uptime":
			most = mostUptime
		default:
			continue
		}
		number, err := strconv.ParseInt(text, 10, 64)
		if err != nil || number < 0 || number > most {
			return Vitals{}, fmt.Errorf("%s must be a number from 0 to %d", name, most)
		}
		if name == "memory" {
			v.MemoryBytes = number
		} else {
			v.Uptime = time.Duration(number) * time.Second
		}
	}
	return v, nil
}
