package archtest

import (
	"encoding/json"
	"maps"
	"os"
	"strings"
	"testing"
)

// Each package of the console also has a line of reason, at one exact version.
func TestEveryPackageOfTheConsoleHasAReason(t *testing.T) {
	page, err := os.ReadFile("../docs/adr/0015-dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	var wanted struct{ Dependencies, DevDependencies map[string]string }
	b, err := os.ReadFile("../console/package.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &wanted); err != nil {
		t.Fatal(err)
	}
	all := maps.Clone(wanted.Dependencies)
	maps.Copy(all, wanted.DevDependencies)
	if len(all) < 10 {
		t.Fatalf("only %d packages found: the rule is broken", len(all))
	}
	for name, version := range all {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("the console requires %s, and docs/adr/0015-dependencies.md does not say why", name)
		}
		if strings.Trim(version, "0123456789.") != "" {
			t.Errorf("the console requires %s at %s, which is not one version", name, version)
		}
	}
}

// The lock file names what is installed by digest, and not where it comes from.
func TestTheLockOfTheConsoleNamesNoHost(t *testing.T) {
	lock, err := os.ReadFile("../console/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(lock), `"integrity": "sha512-`) || strings.Contains(string(lock), `"resolved"`) {
		t.Error("package-lock.json names hosts, or no digests: install with the settings of console/.npmrc")
	}
}
