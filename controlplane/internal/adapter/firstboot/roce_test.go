package firstboot_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A missing interface is named, and the others still get their routes.
func TestRoutingGoesOnWithoutAnInterface(t *testing.T) {
	work := t.TempDir()
	stub := "#!/bin/sh\ncase \"$*\" in\n'link show dev absent') exit 1 ;;\n'link show'* | *'rule del'*) [ \"$1\" = link " +
		"] ; exit ;;\n*lame*) exit 2 ;;\nesac\necho \"$*\" >>\"" + work + "/log\"\n"
	if err := os.WriteFile(filepath.Join(work, "ip"), []byte(stub), 0o700); err != nil {
		t.Fatal(err)
	}
	configuration := filepath.Join(work, "conf")
	if err := os.WriteFile(configuration, []byte("# a comment\nabsent 10.0.0.1 10.0.0.0/31 10.0.0.0 9000 1000 10000\n"+
		"lame 10.0.1.1 10.0.1.0/31 10.0.1.0 9000 1001 10001\npresent 10.0.2.5 10.0.2.0/24 - - 1002 10002\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "scripts/roce-routing.sh", configuration)
	cmd.Env = []string{"PATH=" + work}
	out, err := cmd.CombinedOutput()
	if err == nil ||
		string(out) != "roce-routing: there is no interface absent\nroce-routing: lame could not be set up\n" {
		t.Errorf("%v: %s", err, out)
	}
	did, err := os.ReadFile(filepath.Join(work, "log"))
	want := []string{
		"link set dev present up", "-4 route replace 10.0.2.0/24 dev present scope link src 10.0.2.5 table 1002",
		"-4 rule add from 10.0.2.5 lookup 1002 priority 10002",
	}
	if err != nil || strings.TrimSpace(string(did)) != strings.Join(want, "\n") {
		t.Errorf("it did %s, %v", did, err)
	}
}
