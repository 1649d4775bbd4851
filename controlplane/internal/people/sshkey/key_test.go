package sshkey

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"gpuaas/controlplane/internal/base/fault"
)

func line(tb testing.TB, public any) string {
	tb.Helper()
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		tb.Fatal(err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

func ed(tb testing.TB) string {
	tb.Helper()
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return line(tb, public)
}

func TestKeysThatServersAcceptAreRead(t *testing.T) {
	curve, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	big, err := rsa.GenerateKey(rand.Reader, leastRSA)
	if err != nil {
		t.Fatal(err)
	}
	for algorithm, text := range map[string]string{
		ssh.KeyAlgoED25519: ed(t), ssh.KeyAlgoECDSA384: line(t, &curve.PublicKey), ssh.KeyAlgoRSA: line(t, &big.PublicKey),
	} {
		k, err := parse("", "  "+text+" me@laptop\n")
		if err != nil || k.Algorithm != algorithm || k.Name != "me@laptop" || k.PublicKey != text ||
			!strings.HasPrefix(k.Fingerprint, "SHA256:") {
			t.Errorf("%s: %+v, %v", algorithm, k, err)
		}
	}
	if k, err := parse("", ed(t)); err != nil || k.Name != k.Fingerprint {
		t.Errorf("a key without a comment: %+v, %v", k, err)
	}
}

// Nobody can put a command, an environment or a second key into the file that a
// node gets.
func TestAttackAKeyIsOneLineWithoutOptions(t *testing.T) {
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	sound := ed(t)
	for name, text := range map[string]string{
		"empty":             "   \n",
		"no key":            "hello",
		"two keys":          sound + "\n" + ed(t),
		"an option":         `command="/bin/sh" ` + sound,
		"an environment":    `environment="LD_PRELOAD=/tmp/x" ` + sound,
		"cut off":           sound[:len(sound)-9],
		"a weak RSA key":    line(t, &small.PublicKey),
		"a private key":     "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----",
		"a certificate":     strings.Replace(sound, "ssh-ed25519 ", "ssh-ed25519-cert-v01@openssh.com ", 1),
		"an authority":      "cert-authority " + sound,
		"too long":          sound + " " + strings.Repeat("x", maxText),
		"a name of control": "",
	} {
		given := ""
		if name == "a name of control" {
			given, text = "a\x1b[2Jb", sound
		}
		_, err := parse(given, text)
		if fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "AAAA") {
			t.Errorf("%s: the error repeats what was sent: %v", name, err)
		}
	}
	if k, err := parse("", sound+" evil\x1b[2J\x00comment"); err != nil || strings.ContainsAny(k.Name, "\x00\x1b") ||
		strings.ContainsAny(k.PublicKey, "\n\x1b") {
		t.Errorf("%+q, %v", k, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl laptop")
	f.Add("name", `command="x" ssh-rsa AAAA`)
	f.Fuzz(func(t *testing.T, name, text string) {
		k, err := parse(name, text)
		if err != nil {
			return
		}
		if strings.ContainsAny(k.PublicKey, "\n\r\x00") || len(strings.Fields(k.PublicKey)) != 2 || k.Name == "" {
			t.Errorf("%+q", k)
		}
		if again, err := parse(k.Name, k.PublicKey); err != nil || again != k {
			t.Errorf("%+v became %+v, %v", k, again, err)
		}
	})
}
