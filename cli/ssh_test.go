package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpuaas/cli/internal/failure"
)

const (
	hostKeyLine = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
	hostKeyJSON = `{"algorithm":"ssh-ed25519","public_key":"` + hostKeyLine + `","fingerprint":"SHA256:first"}`
	otherKey    = `{"algorithm":"ssh-rsa","public_key":"ssh-rsa AAAA","fingerprint":"SHA256:second"}`
	reachable   = `{` + allocationPart + `,"status":"active","host":"10.0.0.7","port":22`
)

func (b *bench) knownHosts() string {
	return filepath.Join(b.home, ".config", "gpuaas", "known_hosts", allocationID)
}

// ssh takes no other machine for the node than the one that the control plane knows.
func TestSSHPinsTheHostKeys(t *testing.T) {
	f := newFakeAPI(t)
	f.on("get-allocation-flat", answer(200, reachable+`,"host_keys":[`+hostKeyJSON+`]}`))
	b := signedIn(t, f)
	got := b.run("ssh", allocationID, "--config")
	want := "Host gpuaas-train gpuaas-" + allocationID + "\n  HostName 10.0.0.7\n  User alice\n  Port 22\n  HostKeyAlias gpuaas-" + allocationID + "\n" +
		"  UserKnownHostsFile \"~/.config/gpuaas/known_hosts/" + allocationID + "\"\n  GlobalKnownHostsFile /dev/null\n" +
		"  StrictHostKeyChecking yes\n  UpdateHostKeys no\n"
	if got.exit != 0 || got.stdout != want || got.err != "" {
		t.Errorf("%+v\nwant %s", got, want)
	}
	written, err := os.ReadFile(b.knownHosts())
	if err != nil || string(written) != "gpuaas-"+allocationID+" "+hostKeyLine+"\n" {
		t.Errorf("known_hosts %q, %v", written, err)
	}

	f.on("get-allocation-flat", answer(200, reachable+`,"host_keys":[`+hostKeyJSON+
		`],"host_keys_changed_at":"2026-03-04T05:07:08Z","host_keys_shown":[`+otherKey+`]}`))
	got = b.run("ssh", allocationID, "--config")
	if got.exit != 0 || got.stdout != want || !strings.Contains(got.err, "SHA256:second") {
		t.Errorf("after a change: %+v", got)
	}
	if again, err := os.ReadFile(b.knownHosts()); err != nil || string(again) != string(written) {
		t.Errorf("after a change known_hosts is %q, %v", again, err)
	}
	if got := b.run("allocation", "show", allocationID); !strings.Contains(got.stdout, "SHA256:first (ssh-ed25519)") ||
		!strings.Contains(got.stdout, "not by a new installation; it shows SHA256:second (ssh-rsa)") {
		t.Errorf("people read %s", got.stdout)
	}
}

func TestSSHSaysWhenNoHostKeyIsKnown(t *testing.T) {
	f := newFakeAPI(t)
	f.on("get-allocation-flat", answer(200, reachable+`}`))
	b := signedIn(t, f)
	got := b.run("ssh", allocationID, "--config")
	if got.exit != 0 || !strings.Contains(got.err, "No host key of the node is known") ||
		!strings.HasSuffix(got.stdout, "  StrictHostKeyChecking ask\n") || strings.Contains(got.stdout, "KnownHostsFile") {
		t.Errorf("%+v", got)
	}
	if _, err := os.Stat(b.knownHosts()); !os.IsNotExist(err) {
		t.Errorf("a known_hosts without a key: %v", err)
	}
}

// The API of another control plane must not bring lines into files of ssh.
func TestAttackAHostKeyBringsNoOtherLine(t *testing.T) {
	for _, key := range []string{`ssh-rsa AAAA\n* ssh-rsa BBBB`, `@cert-authority * ssh-rsa AAAA`, `ssh-rsa AAAA x`, `ssh-rsa `} {
		f := newFakeAPI(t)
		f.on("get-allocation-flat", answer(200, reachable+`,"host_keys":[{"algorithm":"ssh-rsa","public_key":"`+key+
			`","fingerprint":"SHA256:first"}]}`))
		b := signedIn(t, f)
		got := b.run("ssh", allocationID, "--config")
		if got.exit != failure.Unexpected || got.stdout != "" {
			t.Errorf("%s: %+v", key, got)
		}
		if _, err := os.Stat(b.knownHosts()); !os.IsNotExist(err) {
			t.Errorf("%s: was written: %v", key, err)
		}
	}
}
