package enroll

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"gpuaas/agent/internal/atomicfile"
	"gpuaas/contract/agentwire"
)

// Roots reads the authorities that verify the control plane.
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

// fits says whether a bundle verifies the control plane that sent it, because a
// wrong bundle must not cut the node off. peer is the chain that the control
// plane showed.
func fits(bundle string, peer []*x509.Certificate, now time.Time) (*x509.CertPool, error) {
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	if len(peer) == 0 || !roots.AppendCertsFromPEM([]byte(bundle)) {
		return nil, errors.New("it holds no certificate, or nobody is there to try it on")
	}
	for _, c := range peer[1:] {
		between.AddCert(c)
	}
	if _, err := peer[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now}); err != nil {
		return nil, fmt.Errorf("it does not verify the control plane that sent it: %w", err)
	}
	return roots, nil
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

// LoadVerifiers reads the set. If the file is missing, the set is empty and
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

// Set returns the set in use.
func (v *Verifiers) Set() agentwire.VerifierSet {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.set
}

// Version returns the version of the set in use. It is 0 if there is none.
func (v *Verifiers) Version() int64 { return v.Set().Version }

// adopt uses a set if the present one verifies the statement about it.
func (v *Verifiers) adopt(st agentwire.Statement, domain string) (adopted bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	newer, refusal := v.set.Believe(st, domain, v.set.Version)
	if refusal != nil {
		return false, refusal
	}
	if !newer {
		return false, nil
	}
	return true, v.replace(*st.Verifiers)
}

// replace uses a set without asking the present one. That is for enrolments,
// which may be at another control plane.
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
