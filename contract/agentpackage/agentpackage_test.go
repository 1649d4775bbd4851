package agentpackage_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"strings"
	"testing"

	"gpuaas/contract/agentpackage"
)

func TestVersionsHaveTheOrderOfSemanticVersions(t *testing.T) {
	inOrder := []string{
		"0.9.9", "1.0.0-1", "1.0.0-2", "1.0.0-10", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-rc.2", "1.0.0-rc.10", "1.0.0",
		"1.0.1", "1.2.0", "1.10.0",
	}
	for i, a := range inOrder {
		for j, b := range inOrder {
			x, okX := agentpackage.ParseVersion(a)
			y, okY := agentpackage.ParseVersion(b)
			if !okX || !okY {
				t.Fatalf("%s or %s is no version", a, b)
			}
			if got := x.Compare(y); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%s compared with %s is %d", a, b, got)
			}
		}
	}
	for _, bad := range []string{"", "1", "1.2", "v1.2.3", "01.2.3", "1.2.3-", "1.2.3 ", "c94a3f06", "1.2.3-a..b"} {
		if _, ok := agentpackage.ParseVersion(bad); ok {
			t.Errorf("%q is a version", bad)
		}
	}
}

func sound() agentpackage.Statement {
	return agentpackage.Statement{
		Version: "1.4.0", Commit: "0123456789ab", Architecture: "amd64", Digest: strings.Repeat("a", 64), Size: 10,
		ProtocolMin: 1, ProtocolMax: 1, Notes: "better",
	}
}

func TestOnlyTheHolderOfAReleaseKeySigns(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := agentpackage.Sign(sound(), private)
	if err != nil {
		t.Fatal(err)
	}
	if !signed.By([]ed25519.PublicKey{other, public}) {
		t.Error("the signature is not believed")
	}
	if signed.By([]ed25519.PublicKey{other}) || signed.By(nil) {
		t.Error("the signature of a stranger is believed")
	}
	signed.Statement.Commit = "0123456789ac"
	if signed.By([]ed25519.PublicKey{public}) {
		t.Error("a statement was changed, and is believed")
	}
}

func TestAnUnsoundStatementNamesItsField(t *testing.T) {
	if field, problem := sound().Check(); field != "" {
		t.Fatalf("%s %s", field, problem)
	}
	for want, change := range map[string]func(*agentpackage.Statement){
		"version":               func(s *agentpackage.Statement) { s.Version = "dev" },
		"commit":                func(s *agentpackage.Statement) { s.Commit = "unknown" },
		"architecture":          func(s *agentpackage.Statement) { s.Architecture = "riscv64" },
		"digest":                func(s *agentpackage.Statement) { s.Digest = "sha256:a" },
		"size":                  func(s *agentpackage.Statement) { s.Size = agentpackage.MaxSize + 1 },
		"minimum_control_plane": func(s *agentpackage.Statement) { s.MinimumControlPlane = "new" },
		"protocol_min":          func(s *agentpackage.Statement) { s.ProtocolMin = 2 },
		"notes":                 func(s *agentpackage.Statement) { s.Notes = strings.Repeat("n", 4001) },
	} {
		s := sound()
		change(&s)
		if got, _ := s.Check(); got != want {
			t.Errorf("the field is %q, not %q", got, want)
		}
	}
}

func program(machine byte) []byte {
	p := make([]byte, 80)
	copy(p, "\x7fELF\x02\x01\x01")
	p[18] = machine
	return p
}

func TestAnArchiveIsReadBack(t *testing.T) {
	files := []agentpackage.File{
		{Name: agentpackage.ProgramAgent, Mode: 0o755, Content: program(62)},
		{Name: agentpackage.ProgramGPU, Mode: 0o755, Content: program(183)},
	}
	archive, err := agentpackage.Write("1.4.0", files)
	if err != nil {
		t.Fatal(err)
	}
	got, err := agentpackage.Read(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	if got.Version != "1.4.0" || got.Programs[agentpackage.ProgramAgent].Architecture != "amd64" ||
		got.Programs[agentpackage.ProgramGPU].Architecture != "arm64" {
		t.Errorf("read %+v", got)
	}
	for n := range archive {
		if _, err := agentpackage.Read(bytes.NewReader(archive[:n])); !errors.Is(err, agentpackage.ErrTruncated) {
			t.Fatalf("cut after %d of %d bytes: %v", n, len(archive), err)
		}
	}
	for name, files := range map[string][]agentpackage.File{
		"no gpu program": files[:1],
		"a path":         append(files[:2:2], agentpackage.File{Name: "../x", Mode: 0o644}),
		"twice":          append(files[:2:2], files[0]),
	} {
		archive, err := agentpackage.Write("1.4.0", files)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := agentpackage.Read(bytes.NewReader(archive)); err == nil {
			t.Errorf("%s: the archive is accepted", name)
		}
	}
}
