package agent

import (
	"bytes"
	"net/http"
	"os"
	"strconv"
	"time"

	"gpuaas/contract/agentwire"
)

// introduce adds to a call what the node trusts and how its agent is.
func (a *Agent) introduce(h http.Header) {
	a.trust.Header(h)
	vitals := agentwire.Vitals{MemoryBytes: ownMemory(), Uptime: max(time.Since(a.started), time.Second)}
	h.Set(agentwire.HeaderVitals, vitals.String())
}

// ownMemory is what this process has in memory; 0 if the system does not say.
func ownMemory() int64 {
	raw, err := os.ReadFile("/proc/self/statm")
	fields := bytes.Fields(raw)
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
