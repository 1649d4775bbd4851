package cli

import (
	"fmt"
	"testing"
)

func TestWindowsAreReadAsPeopleWriteThem(t *testing.T) {
	for text, want := range map[string]string{
		"sat,sun 22:00-04:00 Europe/Berlin": "[sat sun] 22:00 04:00 Europe/Berlin",
		"mon-wed,wed 01:00-02:00 UTC":       "[mon tue wed] 01:00 02:00 UTC",
		"SAT-MON 01:00-02:00 UTC":           "[sat sun mon] 01:00 02:00 UTC",
		"fri 01:00 UTC":                     "[fri] 01:00  UTC", // which the control plane refuses
	} {
		w, err := windowOf(text)
		if got := fmt.Sprint(w.Days, " ", w.From, " ", w.To, " ", w.Zone); err != nil || got != want {
			t.Errorf("%q is %q, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "22:00-04:00 UTC", "moonday 22:00-04:00 UTC", "mon- 22:00-04:00 UTC", "mon,, 1:00-2:00 UTC",
	} {
		if w, err := windowOf(text); err == nil {
			t.Errorf("%q is %+v", text, w)
		}
	}
}
