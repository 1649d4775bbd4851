package agentwire

import (
	"testing"
	"time"
)

func TestVitalsAreReadAsTheyWereSaid(t *testing.T) {
	for _, v := range []Vitals{{}, {MemoryBytes: 1}, {Uptime: time.Hour}, {MemoryBytes: 40 << 20, Uptime: time.Second}} {
		if got, err := ParseVitals(v.String()); err != nil || got != v {
			t.Errorf("%q: %+v, %v", v, got, err)
		}
	}
	if got, err := ParseVitals("threads=9;memory=5;more"); err != nil || got.MemoryBytes != 5 {
		t.Errorf("what a later version says is not passed over: %+v, %v", got, err)
	}
	for _, bad := range []string{
		"memory=-1", "memory=", "uptime=1.5", "uptime=99999999999999999999", "memory=1099511627777",
	} {
		if got, err := ParseVitals(bad); err == nil {
			t.Errorf("%q is %+v", bad, got)
		}
	}
}
