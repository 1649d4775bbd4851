package enroll

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"gpuaas/agent/internal/atomicfile"
	"gpuaas/contract/agentwire"
)

// Roots reads what the control plane is verified with.
func (s Store) Roots() (*x509.CertPool, error) {
	raw, err := os.ReadFile(s.c.CABundle)
	if err != nil {
		return nil, fmt.Errorf("read CA bundle of the control plane: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(raw) {
		return nil, fmt.Errorf("read CA bundle of the control plane: %s holds no certificate", s.c.CABundle)
	}
	return pool, nil
}

// adoptBundle replaces the CA bundle by a newer one, but only by one that
// verifies the control plane which sent it: a bundle with a mistake in it must
// not cut the node off. peer is the chain that the control plane showed.
func (s Store) adoptBundle(b agentwire.TrustBundle, peer []*x509.Certificate, now time.Time) (*x509.CertPool, error) {
	if b.PEM == "" || len(peer) == 0 {
		return nil, nil
	}
	if present, err := os.ReadFile(s.c.CABundle); err == nil && string(present) == b.PEM {
		return nil, nil
	}
	sum := sha256.Sum256([]byte(b.PEM))
	if got := hex.EncodeToString(sum[:]); !strings.EqualFold(got, strings.TrimPrefix(b.Fingerprint, "sha256:")) {
		return nil, fmt.Errorf("trust bundle %s has fingerprint %s, announced was %s", b.Version, got, b.Fingerprint)
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(b.PEM)) {
		return nil, fmt.Errorf("trust bundle %s holds no certificate", b.Version)
	}
	for _, c := range peer[1:] {
		between.AddCert(c)
	}
	if _, err := peer[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now}); err != nil {
		return nil, fmt.Errorf("trust bundle %s does not verify the control plane that sent it: %w", b.Version, err)
	}
	return roots, atomicfile.Write(s.c.CABundle, []byte(b.PEM), 0o644)
}

// NodeIssuer checks that the present certificate comes from the authority in
// the bundle of node certificates.
func (s Store) NodeIssuer() error {
	certificates, err := os.ReadFile(s.path(certFile))
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNotEnrolled
	}
	if err != nil {
		return fmt.Errorf("read certificate: %w", err)
	}
	leaf, err := leafOf(certificates)
	if err != nil {
		return fmt.Errorf("read certificate: %w", err)
	}
	bundle, err := os.ReadFile(s.c.NodeCABundle)
	if err != nil {
		return fmt.Errorf("read bundle of node certificates: %w", err)
	}
	return verifyIssuer(leaf, string(bundle))
}

// Verifiers is the set of task verifiers in use.
type Verifiers struct {
	path string
	mu   sync.Mutex
	set  agentwire.VerifierSet
}

// LoadVerifiers reads the set. A missing file is an empty set, with which
// every task is refused.
func LoadVerifiers(path string) (*Verifiers, error) {
	v := &Verifiers{path: path}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return v, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read verifier set: %w", err)
	}
	if err := json.Unmarshal(raw, &v.set); err != nil {
		return nil, fmt.Errorf("read verifier set %s: %w", path, err)
	}
	if err := v.set.Validate(); err != nil {
		return nil, fmt.Errorf("read verifier set %s: %w", path, err)
	}
	return v, nil
}

// Set gives the set in use.
func (v *Verifiers) Set() agentwire.VerifierSet {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.set
}

// Version is the version of the set in use; 0 when there is none.
func (v *Verifiers) Version() int64 { return v.Set().Version }

// Adopt uses a set when it is newer than the present one: sets may arrive out
// of order, and an old one would bring a revoked key back.
func (v *Verifiers) Adopt(set agentwire.VerifierSet) (adopted bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if set.Version <= v.set.Version {
		return false, nil
	}
	return true, v.replace(set)
}

// replace uses a set whatever the present one is, as after an enrolment, which
// may have been at another control plane.
func (v *Verifiers) replace(set agentwire.VerifierSet) error {
	if err := set.Validate(); err != nil {
		return fmt.Errorf("check verifier set: %w", err)
	}
	raw, err := json.MarshalIndent(set, "", "  ")
	if err != nil {
		return fmt.Errorf("encode verifier set: %w", err)
	}
	if err := atomicfile.Write(v.path, raw, 0o644); err != nil {
		return err
	}
	v.set = set
	return nil
}
