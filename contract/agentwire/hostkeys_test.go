package agentwire_test

import (
	"strings"
	"testing"

	"gpuaas/contract/agentwire"
)

// Keys and fingerprints as ssh-keygen wrote and showed them.
const (
	hostEd25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGIw4v7uf5NmvvMUaUbbdZDunsozdTSBfifWx4+OFz+9"
	hostECDSA   = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBBZbQ9rZ80pHQT6/CbMsoNy0QB12/nhXZ+BFQFhimdvEi20up66cHyMxW9RFwNfEzhoNk7p+D1ySZRnxVoPnPB0="
	hostRSA     = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQDo8nMG/UiYz2GD5Wlg9lC3PKIt+sqszS73GCvEDDOhRNkuoRLp7nUF6ARzCRdJBXgU7jJJk87UEGU9Bw0o71mR4oxcHKxzlR1AWjsqAdjBzlaFTfNxmBQblzLQQrmB4a9jK3PcRT8aKK9FdC5cOH831FPliOkVSFflLISnNVCIpOHPafit7ev3jKCSgE7S1072fRAUGA6ayrtCf/4NH/tZObC583ui7GOKC8wxGGNC+NoYFsMbi+MsTtEh3E46ixrPsLc9nYm5oXFOzkB3JncxpFhePCy5KTraaDbyMTyIjuG1iD366QB+oJ+eumMI8eL8mXCkr9LBLMzbcIUzRRMD"
)

func TestHostKeysAreThoseThatOpenSSHKnows(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]agentwire.HostKey{
		hostEd25519: {Algorithm: "ssh-ed25519", Fingerprint: "SHA256:dsKyE19ck4WtNq/DlnPjUexHW7WGM4o1jmgQzzgpYWM"},
		hostECDSA:   {Algorithm: "ecdsa-sha2-nistp256", Fingerprint: "SHA256:Bx0+0+Y+CCtKnqTQFApdQBIKXvFqvNaOQLA6TBedt10"},
		hostRSA:     {Algorithm: "ssh-rsa", Fingerprint: "SHA256:j9TNJ6rFgF+XzQ64Xr4/gPCw0CD/xr5oRRcQDJEsbGY"},
	} {
		if got, err := agentwire.ParseHostKey(line); err != nil || got != want {
			t.Errorf("%.40s…: %+v, %v; want %+v", line, got, err, want)
		}
	}
	sound := agentwire.HostKeysRequest{Keys: []string{hostECDSA, hostEd25519, hostRSA}}
	if err := sound.Validate(); err != nil {
		t.Error(err)
	}
}

func TestWhatIsNoHostKeyIsRefused(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"empty":               "",
		"a comment":           hostEd25519 + " root@node",
		"a second line":       hostEd25519 + "\n* " + hostRSA,
		"a carriage return":   hostEd25519 + "\r",
		"a marker":            "@cert-authority " + hostEd25519,
		"another algorithm":   "ssh-rsa" + strings.TrimPrefix(hostEd25519, "ssh-ed25519"),
		"an algorithm of old": "ssh-dss AAAAB3NzaC1kc3M=",
		"not base64":          "ssh-ed25519 AAAA!!!!",
		"cut short":           hostEd25519[:len(hostEd25519)-8],
		"more behind it":      hostEd25519 + "AAAA",
		"only its name":       "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5",
		"a length of lies":    "ssh-ed25519 /////w==",
		"too long":            "ssh-rsa " + strings.Repeat("A", agentwire.MaxHostKeyText),
	} {
		if _, err := agentwire.ParseHostKey(line); err == nil {
			t.Errorf("%s: %.80q was taken for a host key", name, line)
		}
	}
	for name, keys := range map[string][]string{
		"none": nil, "twice": {hostEd25519, hostEd25519}, "not sorted": {hostRSA, hostEd25519},
		"too many": make([]string, agentwire.MaxHostKeys+1), "one that is none": {"x"},
	} {
		if (agentwire.HostKeysRequest{Keys: keys}).Validate() == nil {
			t.Errorf("%s: was taken for the host keys of a machine", name)
		}
	}
}
