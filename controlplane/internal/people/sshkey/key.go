package sshkey

import (
	"bytes"
	"crypto/rsa"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"golang.org/x/crypto/ssh"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
)

// Key is a public key of a person or of a project.
type Key struct {
	ID          id.SSHKey
	User        id.User    // zero: of a project
	Project     id.Project // zero: of a person
	Name        string
	Algorithm   string
	PublicKey   string // one line of authorized_keys, without options and without a comment
	Fingerprint string // SHA256:…
	AddedBy     string
	CreatedAt   time.Time
}

// Owner is whose keys a command is about: one of the two is set.
type Owner struct {
	User    id.User
	Project id.Project
}

const (
	// MaxKeys is how many keys a person or a project may have.
	MaxKeys  = 100
	maxText  = 16 << 10
	leastRSA = 2048 // bits
	mostRSA  = 16384
)

// algorithms are those that servers of today accept.
var algorithms = []string{
	ssh.KeyAlgoED25519, ssh.KeyAlgoSKED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
	ssh.KeyAlgoSKECDSA256, ssh.KeyAlgoRSA,
}

// parse reads one public key as ssh-keygen writes it. It never repeats in an
// error what was sent: that may be a private key.
func parse(name, text string) (Key, error) {
	line := strings.TrimSpace(text)
	refuse := func(message string) (Key, error) { return Key{}, rejected("body.public_key", message) }
	switch {
	case line == "":
		return refuse("must be a public key, such as the content of ~/.ssh/id_ed25519.pub")
	case strings.Contains(line, "PRIVATE KEY"):
		return refuse("is a private key: nothing of it was stored, but it has left your machine. " +
			"Make a new pair with ssh-keygen, and send the file that ends with .pub")
	case len(line) > maxText:
		return refuse("is too long for a public key")
	}
	key, comment, options, rest, err := ssh.ParseAuthorizedKey([]byte(line))
	switch {
	case err != nil:
		return refuse("is no public key in the form of OpenSSH: send the one line of a file that ends with .pub")
	case len(bytes.TrimSpace(rest)) > 0:
		return refuse("has more than one line: add each key on its own")
	case len(options) > 0:
		return refuse("has options before the key: leave them out")
	case !slices.Contains(algorithms, key.Type()):
		return refuse("must be of a kind that servers accept: " + strings.Join(algorithms, ", "))
	}
	if bits, isRSA := bitsOf(key); isRSA && (bits < leastRSA || bits > mostRSA) {
		return refuse(fmt.Sprintf("is an RSA key of %d bits: use %d to %d, or better ed25519", bits, leastRSA, mostRSA))
	}
	k := Key{
		Algorithm: key.Type(), Fingerprint: ssh.FingerprintSHA256(key),
		PublicKey: strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))),
	}
	k.Name, err = named(name, comment, k)
	return k, err
}

// named is the name of a key: as given, or its comment, or its fingerprint.
func named(given, comment string, k Key) (string, error) {
	name := strings.TrimSpace(given)
	if name == "" {
		name = strings.TrimSpace(strings.Map(func(r rune) rune {
			if !unicode.IsPrint(r) {
				return -1
			}
			return r
		}, comment))
		name = string([]rune(name)[:min(200, len([]rune(name)))])
	}
	if name == "" {
		name = k.Fingerprint
	}
	if len([]rune(name)) > 200 || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return "", rejected("body.name", "must be at most 200 printable characters")
	}
	return name, nil
}

func bitsOf(key ssh.PublicKey) (bits int, isRSA bool) {
	if of, ok := key.(ssh.CryptoPublicKey); ok {
		if public, ok := of.CryptoPublicKey().(*rsa.PublicKey); ok {
			return public.N.BitLen(), true
		}
	}
	return 0, false
}

func rejected(path, message string) error {
	return fault.New(fault.Invalid, "validation_error", "the request has fields that cannot be accepted").
		WithFields(fault.Field{Path: path, Message: message})
}

func notFound() error {
	return fault.New(fault.NotFound, "ssh_key_not_found", "there is no such SSH key").
		WithRemedy("see which there are: gpuaas key list")
}
