package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpuaas/cli/internal/failure"
)

// A private key never leaves the machine, and is not printed either.
func TestAttackAPrivateKeyIsNotSent(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "id_ed25519")
	content := "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END OPENSSH PRIVATE KEY-----\n"
	if err := os.WriteFile(secret, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFakeAPI(t)
	got := signedIn(t, f).run("key", "add", secret)
	if got.exit != failure.Usage || !strings.Contains(got.err, ".pub") || strings.Contains(got.err, "b3Blbn") {
		t.Errorf("%+v", got)
	}
	for _, c := range f.received() {
		if c.operation == "add-my-ssh-key" {
			t.Error("it was sent")
		}
	}
}
