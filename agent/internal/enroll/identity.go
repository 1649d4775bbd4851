// Package enroll gets a node its identity and keeps it: the key that is made on
// the machine and never leaves it, the certificate, the two trust stores, and
// the verifier set that comes with every certificate.
//
// A key is on the disk before it is used, so that the agent can ask again after
// a lost answer. The next key replaces the present one only after its
// certificate is there; a crash at any point leaves one pair that fits.
package enroll

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gpuaas/agent/internal/atomicfile"
	"gpuaas/agent/internal/config"
	"gpuaas/contract/agentwire"
)

const (
	keyFile    = "key.pem"
	nextFile   = "key-next.pem"
	certFile   = "cert.pem"
	issuedFile = "issued.json"
	trustFile  = "trust.json"
)

// ErrNotEnrolled says that the machine has no certificate yet.
var ErrNotEnrolled = errors.New("this node is not enrolled: run the bootstrap command of the node, or gpuaas-agent " +
	"enroll --token-file FILE")

// Identity is the identity of the node.
type Identity struct {
	Node        string
	Domain      string // the trust domain that the node belongs to
	Certificate *tls.Certificate
	NotBefore   time.Time
	NotAfter    time.Time
	RenewAfter  time.Time
	Generation  int64
	Serial      string
	Environment string
}

// kept is stored with a certificate and not part of it.
type kept struct {
	Serial      string    `json:"serial"`
	RenewAfter  time.Time `json:"renew_after"`
	Generation  int64     `json:"generation"`
	TrustBundle string    `json:"trust_bundle_version"`
	Environment string    `json:"environment_name"`
}

// Store is the identity on the disk.
type Store struct{ c config.Config }

// NewStore returns the identity below the host root of c.
func NewStore(c config.Config) Store { return Store{c: c} }

func (s Store) path(name string) string { return filepath.Join(s.c.Identity(), name) }

// Load reads the identity.
func (s Store) Load() (*Identity, error) {
	certificates, err := os.ReadFile(s.path(certFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotEnrolled
	}
	if err != nil {
		return nil, fmt.Errorf("read certificate: %w", err)
	}
	leaf, err := leafOf(certificates)
	if err != nil {
		return nil, fmt.Errorf("read certificate %s: %w", s.path(certFile), err)
	}
	keyPEM, err := s.matchingKey(leaf)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certificates, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("pair certificate and key: %w", err)
	}
	domain, node, err := nodeOf(leaf)
	if err != nil {
		return nil, err
	}
	if s.c.NodeID != "" && s.c.NodeID != node {
		return nil, fmt.Errorf("the certificate belongs to node %s and GPUAAS_NODE_ID says %s: enrol again with a token of "+
			"the right node", node, s.c.NodeID)
	}
	id := &Identity{
		Node: node, Domain: domain, Certificate: &pair, NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter,
		Serial: serial(leaf),
	}
	s.addKept(id)
	return id, nil
}

// addKept assumes a renewal after two thirds of the life if the file is missing
// or belongs to another certificate.
func (s Store) addKept(id *Identity) {
	id.RenewAfter = id.NotBefore.Add(id.NotAfter.Sub(id.NotBefore) * 2 / 3)
	raw, err := os.ReadFile(s.path(issuedFile))
	var k kept
	if err != nil || json.Unmarshal(raw, &k) != nil {
		return
	}
	id.Generation, id.Environment = k.Generation, k.Environment
	if k.Serial == id.Serial && k.RenewAfter.After(id.NotBefore) && k.RenewAfter.Before(id.NotAfter) {
		id.RenewAfter = k.RenewAfter
	}
}

// matchingKey finds the key of a certificate. If a crash interrupted the
// exchange, that is the next key.
func (s Store) matchingKey(leaf *x509.Certificate) ([]byte, error) {
	for _, name := range []string{keyFile, nextFile} {
		raw, err := os.ReadFile(s.path(name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read key: %w", err)
		}
		key, err := parseKey(raw)
		if err != nil {
			return nil, fmt.Errorf("read key %s: %w", s.path(name), err)
		}
		if key.PublicKey.Equal(leaf.PublicKey) {
			return raw, nil
		}
	}
	return nil, fmt.Errorf("no key in %s fits the certificate: enrol again with a recovery token", s.c.Identity())
}

func (s Store) promoteKey() error {
	if err := os.Rename(s.path(nextFile), s.path(keyFile)); err != nil {
		return fmt.Errorf("put the new key in its place: %w", err)
	}
	return atomicfile.SyncFolder(s.c.Identity())
}

// nextKey returns the key for the next certificate. It is made once and stays
// until the certificate is there.
func (s Store) nextKey() (*ecdsa.PrivateKey, error) {
	raw, err := os.ReadFile(s.path(nextFile))
	if err == nil {
		key, err := parseKey(raw)
		switch {
		case err != nil: // it was never used, because it could not be read
		case s.inUse(key):
			if err := s.promoteKey(); err != nil {
				return nil, err
			}
		default:
			return key, nil
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read key: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return key, atomicfile.Write(s.path(nextFile), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)
}

// inUse says whether the present certificate belongs to a key.
func (s Store) inUse(key *ecdsa.PrivateKey) bool {
	raw, err := os.ReadFile(s.path(certFile))
	if err != nil {
		return false
	}
	leaf, err := leafOf(raw)
	return err == nil && key.PublicKey.Equal(leaf.PublicKey)
}

func request(key crypto.Signer) (string, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return "", fmt.Errorf("make certificate request: %w", err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})), nil
}

// check says whether an issued certificate is the requested one: for this node,
// its trust domain if one is known, its key, and by the issuer.
func check(issued agentwire.Issued, node, domain, issuer string, key *ecdsa.PrivateKey) error {
	leaf, err := leafOf([]byte(issued.Certificate))
	if err != nil {
		return fmt.Errorf("read issued certificate: %w", err)
	}
	gotDomain, got, err := nodeOf(leaf)
	switch {
	case err != nil:
		return err
	case got != node:
		return fmt.Errorf("the issued certificate belongs to node %s, this is node %s", got, node)
	case domain != "" && gotDomain != domain:
		return fmt.Errorf("the issued certificate belongs to trust domain %s, this node to %s", gotDomain, domain)
	case !key.PublicKey.Equal(leaf.PublicKey):
		return errors.New("the issued certificate belongs to another key")
	}
	return verifyIssuer(leaf, issuer)
}

// install puts a checked certificate into use, with the issuer that it was
// checked against. generation comes from an enrolment. A renewal cannot change
// it, because nobody has signed it.
func (s Store) install(issued agentwire.Issued, issuer string, generation int64) error {
	leaf, err := leafOf([]byte(issued.Certificate))
	if err != nil {
		return fmt.Errorf("read issued certificate: %w", err)
	}
	raw, err := json.Marshal(kept{
		Serial: serial(leaf), RenewAfter: issued.RenewAfter, Generation: generation,
		TrustBundle: issued.TrustBundle.Version, Environment: issued.TrustBundle.Environment,
	})
	if err != nil {
		return fmt.Errorf("encode what goes with the certificate: %w", err)
	}
	for _, f := range []struct {
		path    string
		content []byte
		mode    os.FileMode
	}{
		{s.c.NodeCABundle, []byte(issuer), 0o644},
		{s.path(issuedFile), raw, 0o600},
		{s.path(certFile), []byte(issued.Certificate), 0o600},
	} {
		if err := atomicfile.Write(f.path, f.content, f.mode); err != nil {
			return err
		}
	}
	return s.promoteKey()
}

// verifyIssuer verifies as of the moment of issue: whether the node's clock is
// right is another question.
func verifyIssuer(leaf *x509.Certificate, authorities string) error {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(authorities)) {
		return errors.New("the issuer of node certificates that came with the certificate cannot be read")
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: roots, CurrentTime: leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) / 2),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return fmt.Errorf("the node certificate was not issued by the authority in the node certificate bundle: %w", err)
	}
	return nil
}

func leafOf(chain []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(chain)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("there is no certificate in it")
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse certificate: %w", err)
	}
	return leaf, nil
}

func parseKey(raw []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, errors.New("there is no key in it")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("it is not a PKCS #8 key") // the cause might quote the key
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("it is not an ECDSA key")
	}
	return key, nil
}

// nodeOf reads the trust domain and the node id from the URI of a certificate.
func nodeOf(leaf *x509.Certificate) (domain, node string, err error) {
	for _, u := range leaf.URIs {
		if node, ok := strings.CutPrefix(u.Path, "/node/"); ok && u.Scheme == "spiffe" && node != "" &&
			!strings.Contains(node, "/") {
			return u.Host, node, nil
		}
	}
	return "", "", errors.New("the certificate does not say which node it belongs to")
}

func serial(c *x509.Certificate) string { return fmt.Sprintf("%x", c.SerialNumber) }
