package artifact

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/operate/policy"
)

// Key is one whose signatures of artifacts count.
type Key struct {
	ID           id.ArtifactKey
	Org          id.Org // none: the platform's
	Name         string
	PEM          string
	Fingerprint  string // SHA-256 of the public key as PKIX DER
	Algorithm    string
	Repositories []string // prefixes of repositories that it may sign for
	NotBefore    time.Time
	NotAfter     time.Time
	CreatedAt    time.Time
	CreatedBy    string
	WithdrawnAt  *time.Time
	WithdrawnBy  string
	Because      string
}

// KeyWish is a key to trust.
type KeyWish struct {
	Name         string
	PEM          string
	Repositories []string
	NotBefore    time.Time
	NotAfter     time.Time
}

const (
	maxKeys  = 100 // of one owner
	maxYears = 10
)

// prefixForm is that of policies: a host, with or without a path.
var prefixForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,200}[a-z0-9])?(:[0-9]{1,5})?(/[a-z0-9._-]+)*/?$`)

// check refuses a key that makes no sense, and answers it as it is kept.
func (w KeyWish) check(now time.Time) (Key, error) {
	var wrong []fault.Field
	refuse := func(path, why string) { wrong = append(wrong, fault.Field{Path: "body." + path, Message: why}) }
	if n := strings.TrimSpace(w.Name); n == "" || n != w.Name || len(n) > 100 {
		refuse("name", "must have 1 to 100 characters, without blanks around it")
	}
	k := Key{Name: w.Name, Repositories: w.Repositories, NotBefore: w.NotBefore, NotAfter: w.NotAfter}
	public, algorithm, err := readKey(w.PEM)
	if err != nil {
		refuse("pem", err.Error())
	} else {
		k.Algorithm, k.PEM, k.Fingerprint = algorithm, written(public), fingerprint(public)
	}
	if len(w.Repositories) == 0 || len(w.Repositories) > 64 {
		refuse("repositories", "must name 1 to 64 repositories, or beginnings of them")
	}
	for i, r := range w.Repositories {
		if len(r) > 200 || !prefixForm.MatchString(r) {
			refuse(fmt.Sprintf("repositories[%d]", i), "must be a host and a path, such as registry.example/team")
		}
	}
	if k.NotBefore.IsZero() {
		k.NotBefore = now
	}
	switch {
	case !k.NotAfter.After(k.NotBefore):
		refuse("not_after", "must be later than not_before")
	case k.NotAfter.After(k.NotBefore.AddDate(maxYears, 0, 0)):
		refuse("not_after", fmt.Sprintf("must not be more than %d years later", maxYears))
	}
	if len(wrong) == 0 {
		return k, nil
	}
	return k, fault.New(fault.Invalid, "artifact_key_invalid", "the key cannot be trusted: %s %s", wrong[0].Path,
		wrong[0].Message).WithFields(wrong...).WithRemedy("correct what is named")
}

// readKey reads a public key of a kind that signatures are verified with.
func readKey(text string) (crypto.PublicKey, string, error) {
	block, rest := pem.Decode([]byte(text))
	switch {
	case block == nil || strings.TrimSpace(string(rest)) != "":
		return nil, "", fmt.Errorf("must be one public key in PEM")
	case block.Type != "PUBLIC KEY":
		return nil, "", fmt.Errorf("must be a public key (BEGIN PUBLIC KEY)")
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, "", fmt.Errorf("cannot be read as a public key")
	}
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P256() {
			return k, "ecdsa-p256", nil
		}
	case ed25519.PublicKey:
		return k, "ed25519", nil
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bits >= 2048 && bits <= 8192 {
			return k, fmt.Sprintf("rsa-%d", bits), nil
		}
	}
	return nil, "", fmt.Errorf("must be ECDSA on P-256, Ed25519, or RSA of 2048 to 8192 bits")
}

func der(key crypto.PublicKey) []byte {
	out, err := x509.MarshalPKIXPublicKey(key)
	if err != nil { // it was read from such bytes
		panic("artifact: write public key: " + err.Error())
	}
	return out
}

func written(key crypto.PublicKey) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der(key)}))
}

func fingerprint(key crypto.PublicKey) string {
	sum := sha256.Sum256(der(key))
	return hex.EncodeToString(sum[:])
}

// maySign says whether the key is one for a repository.
func (k Key) maySign(repository string) bool {
	return slices.ContainsFunc(k.Repositories, func(p string) bool { return policy.Within(repository, p) })
}

// ended says why the signatures of the key count no more; empty: they do.
func (k Key) ended(now time.Time) string {
	switch {
	case k.WithdrawnAt != nil:
		return fmt.Sprintf("its key %s was withdrawn: %s", k.Name, k.Because)
	case !now.Before(k.NotAfter):
		return fmt.Sprintf("its key %s ended on %s", k.Name, k.NotAfter.UTC().Format(time.DateOnly))
	case now.Before(k.NotBefore):
		return fmt.Sprintf("its key %s begins on %s", k.Name, k.NotBefore.UTC().Format(time.DateOnly))
	}
	return ""
}

// signed says whether a signature over a message is by the key.
func (k Key) signed(message, signature []byte) bool {
	public, _, err := readKey(k.PEM)
	if err != nil {
		return false
	}
	sum := sha256.Sum256(message)
	switch p := public.(type) {
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(p, sum[:], signature)
	case ed25519.PublicKey:
		return ed25519.Verify(p, message, signature)
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(p, crypto.SHA256, sum[:], signature) == nil
	}
	return false
}

func missingKey() error {
	return fault.New(fault.NotFound, "artifact_key_not_found", "there is no such key here").
		WithRemedy("see which there are: gpuaas artifact key list")
}
