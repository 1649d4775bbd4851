package e2e

import (
	"regexp"
	"strings"
	"testing"

	"gpuaas/sim/faults"
)

// TestFaultCatalogue lets one case of each stage of each family and some paths go
// wrong, on engines and with a control plane of its own; the command tries them all.
func TestFaultCatalogue(t *testing.T) {
	t.Parallel()
	out, said, code := command(t, nil, "sim", "faults", "--sample", "--seed", "7")
	if code != 0 {
		t.Fatalf("exit code %d\n%s\n%s", code, out, said)
	}
	for _, c := range faults.Sample(faults.Catalogue(), 7) {
		if !regexp.MustCompile(`(?m)^[✓!] ` + c.Name() + ` `).MatchString(out) {
			t.Errorf("%s was not resolved:\n%s", c.Name(), out)
		}
	}
	if !strings.Contains(out, "| not resolved | 0 |") || !strings.Contains(out, ", 0 found |") {
		t.Errorf("something did not hold:\n%s", out)
	}
	if _, said, code := command(t, nil, "sim", "faults", "--case", "nonsense"); code == 0 ||
		!strings.Contains(said, "--list") {
		t.Errorf("a case that there is not: exit code %d\n%s", code, said)
	}
	if _, said, code := command(t, nil, "sim", "faults", "--family", "nonsense"); code == 0 ||
		!strings.Contains(said, "decommission") {
		t.Errorf("a family that there is not: exit code %d\n%s", code, said)
	}
	if listed := succeed(t, nil, "sim", "faults", "--list"); strings.Count(listed, "\n") != len(faults.Catalogue()) {
		t.Errorf("the list has another number of cases than the catalogue:\n%s", listed)
	}
}
