package cli

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpuaas/cli/internal/failure"
	"gpuaas/contract/agentpackage"
)

// What is built with a key is believed by whoever has its public half, and by nobody
// else.
func TestAReleaseIsBuiltAndSigned(t *testing.T) {
	dir := t.TempDir()
	key := filepath.Join(dir, "release.key")
	made := newBench(t).run("agent", "release", "make-key", key)
	public, err := base64.StdEncoding.DecodeString(strings.TrimSpace(made.stdout))
	if made.exit != failure.OK || err != nil {
		t.Fatalf("%+v, %v", made, err)
	}
	if again := newBench(t).run("agent", "release", "make-key", key); again.exit == failure.OK {
		t.Error("a key was overwritten")
	}
	program := make([]byte, 80)
	copy(program, "\x7fELF\x02\x01\x01")
	program[18] = 62
	build := func(second []byte, args ...string) outcome {
		for name, content := range map[string][]byte{"gpuaas-agent": program, "gpuaas-gpu": second} {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return newBench(t).run(append([]string{"agent", "release", "build", dir, dir}, args...)...)
	}
	sound := []string{"--version", "1.4.0", "--commit", "0123456789ab", "--key", key}
	if got := build([]byte("#!/bin/sh\n"), sound...); got.exit != failure.Usage ||
		!strings.Contains(got.err, "no node could run together") {
		t.Errorf("a script as program: %+v", got)
	}
	if got := build(program, "--version", "dev", "--commit", "0123456789ab", "--key", key); got.exit != failure.Usage {
		t.Errorf("a version without an order: %+v", got)
	}
	if got := build(program, "--version", "1.4.0", "--commit", "0123456789ab", "--key",
		filepath.Join(dir, "gpuaas-gpu")); !strings.Contains(got.err, "no private key of Ed25519") {
		t.Errorf("no key: %+v", got)
	}
	got := build(program, sound...)
	if got.exit != failure.OK {
		t.Fatalf("%+v", got)
	}
	var signed agentpackage.Signed
	text, err := os.ReadFile(strings.TrimSpace(got.stdout))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &signed); err != nil || !signed.By([]ed25519.PublicKey{public}) {
		t.Errorf("%s is not believed: %v", text, err)
	}
	archive, err := os.ReadFile(strings.TrimSuffix(strings.TrimSpace(got.stdout), ".json") + ".tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	if c, err := agentpackage.Read(bytes.NewReader(archive)); err != nil || c.Version != "1.4.0" {
		t.Errorf("the archive holds %+v, %v", c, err)
	}
}
