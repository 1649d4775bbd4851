package enroll

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"gpuaas/agent/internal/atomicfile"
	"gpuaas/contract/agentwire"
)

// Trust holds whom the node trusts: the keys that sign its tasks, the issuer of
// its certificates, and the authorities of the control plane. Whatever is on
// the disk is trusted. An enrolment puts it there; from then on it changes only
// by statements that the present keys have signed.
type Trust struct {
	s         Store
	domain    string
	verifiers *Verifiers

	mu   sync.Mutex
	kept keptTrust
}

// keptTrust is stored with the two bundles. The state of an older agent has
// none of it, and its versions count as 0.
type keptTrust struct {
	IssuerVersion int64    `json:"issuer_version"`
	BundleVersion int64    `json:"bundle_version"`
	Refused       *Refused `json:"refused,omitempty"`
}

// Refused is what the node was last told to trust and refused.
type Refused struct { //nolint:errname // a note of a refusal, not an error that is returned
	agentwire.TrustRefusal
	At time.Time `json:"at"`
}

// toldLongEnough is how long a refusal is reported at least: whoever answered
// when it happened may not be the control plane that must hear of it.
const toldLongEnough = time.Hour

// OpenTrust reads whom the node trusts. domain is the trust domain of its
// certificate.
func (s Store) OpenTrust(domain string) (*Trust, error) {
	verifiers, err := LoadVerifiers(s.c.Verifiers())
	if err != nil {
		return nil, err
	}
	t := &Trust{s: s, domain: domain, verifiers: verifiers}
	raw, err := os.ReadFile(s.path(trustFile))
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read versions of what the node trusts: %w", err)
	}
	if err := json.Unmarshal(raw, &t.kept); err != nil {
		return nil, fmt.Errorf("read versions of what the node trusts, %s: %w", s.path(trustFile), err)
	}
	return t, nil
}

// beginTrust stores the first trust. An enrolment answers the token of an
// operator over a connection to the pinned CA, so it may set everything.
func (s Store) beginTrust(issued agentwire.Issued, peer []*x509.Certificate, now time.Time) error {
	verifiers := &Verifiers{path: s.c.Verifiers()}
	if err := verifiers.replace(issued.Verifiers); err != nil {
		return err
	}
	t := &Trust{s: s}
	for _, st := range issued.Trust {
		switch {
		case st.About == agentwire.AboutIssuer && st.PEM == issued.NodeCA:
			t.kept.IssuerVersion = st.Version
		case st.About == agentwire.AboutBundle && st.PEM == issued.TrustBundle.PEM:
			if _, err := fits(st.PEM, peer, now); err != nil {
				continue // what the bootstrap pinned stays
			}
			t.kept.BundleVersion = st.Version
			if err := atomicfile.Write(s.c.CABundle, []byte(st.PEM), 0o644); err != nil {
				return err
			}
		}
	}
	return t.write()
}

// Verifiers returns the task verifiers in use.
func (t *Trust) Verifiers() *Verifiers { return t.verifiers }

// Refused returns what was last refused. It is nil if nothing was.
func (t *Trust) Refused() *Refused {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.kept.Refused
}

// BundleVersion returns the version of the control plane's authorities. It is 0
// if they came without one.
func (t *Trust) BundleVersion() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.kept.BundleVersion
}

// Header adds headers that tell the control plane what the node trusts.
func (t *Trust) Header(h http.Header) {
	h.Set(agentwire.HeaderVerifierVersion, strconv.FormatInt(t.verifiers.Version(), 10))
	if raw, err := os.ReadFile(t.s.c.CABundle); err == nil {
		h.Set(agentwire.HeaderTrustBundle, agentwire.BundleFingerprint(string(raw)))
	}
	if r := t.Refused(); r != nil {
		h.Set(agentwire.HeaderTrustRefused, r.Code+" "+r.About)
	}
}

// issuer is an issuer of node certificates with its version.
type issuer struct {
	pem     string
	version int64
}

// issuer returns who issued the certificate of a renewal: a newer authority in
// a signed statement, or the one that the node has pinned. If it returns both
// an issuer and an error, the error is about a newer authority that was not
// needed.
func (t *Trust) issuer(issued agentwire.Issued, present *Identity, key *ecdsa.PrivateKey) (*issuer, error) {
	text, err := os.ReadFile(t.s.c.NodeCABundle)
	if err != nil {
		return nil, fmt.Errorf("read bundle of node certificates: %w", err)
	}
	t.mu.Lock()
	pinned := &issuer{pem: string(text), version: t.kept.IssuerVersion}
	t.mu.Unlock()
	var refused error
	for _, st := range issued.Trust {
		if st.About != agentwire.AboutIssuer {
			continue
		}
		newer, refusal := t.verifiers.Set().Believe(st, t.domain, pinned.version)
		if refusal != nil {
			refused = refusal
		}
		if newer && check(issued, present.Node, present.Domain, st.PEM, key) == nil {
			return &issuer{st.PEM, st.Version}, nil
		}
	}
	err = check(issued, present.Node, present.Domain, pinned.pem, key)
	switch {
	case err == nil:
		return pinned, refused
	case refused != nil:
		return nil, refused
	}
	return nil, agentwire.Distrust(agentwire.CodeTrustUnsigned, agentwire.AboutIssuer,
		"the new certificate is not taken over, the present one stays: %v; another issuer needs the signature of a key "+
			"that this node trusts", err)
}

// took stores the version of an issuer that is now in use.
func (t *Trust) took(i *issuer) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept.IssuerVersion == i.version {
		return nil
	}
	t.kept.IssuerVersion = i.version
	return t.write()
}

// takeRenewed takes over what came together with a certificate.
func (t *Trust) takeRenewed(
	issued agentwire.Issued, present *Identity, notNeeded error, peer []*x509.Certificate, now time.Time,
) (*x509.CertPool, error) {
	roots, err := t.take(issued.Trust, peer, now)
	refused := []error{notNeeded, err}
	about := func(kind string) bool {
		return slices.ContainsFunc(issued.Trust, func(st agentwire.Statement) bool { return st.About == kind })
	}
	if v := issued.Verifiers.Version; v > t.verifiers.Version() && !about(agentwire.AboutVerifiers) {
		refused = append(refused, agentwire.Distrust(agentwire.CodeTrustUnsigned, agentwire.AboutVerifiers,
			"verifier set %d came without a signature, set %d stays in use: %s", v, t.verifiers.Version(), unsignedBecause))
	}
	if offered := issued.TrustBundle.PEM; offered != "" && !about(agentwire.AboutBundle) && t.otherBundle(offered) {
		refused = append(refused, agentwire.Distrust(agentwire.CodeTrustUnsigned, agentwire.AboutBundle,
			"another CA bundle of the control plane came without a signature, the present one stays in use: %s",
			unsignedBecause))
	}
	if present.Generation > 0 && issued.Generation-present.Generation > agentwire.MaxGenerationJump {
		refused = append(refused, agentwire.Distrust(agentwire.CodeGenerationJump, agentwire.AboutGeneration,
			"generation %d was offered to this node, which is at %d: generations come with signed tasks only, and by at most %d",
			issued.Generation, present.Generation, agentwire.MaxGenerationJump))
	}
	all := errors.Join(refused...)
	return roots, errors.Join(all, t.note(all, now))
}

const unsignedBecause = "the control plane is older than this agent, or somebody else answers for it"

// otherBundle compares the certificates, because the spelling of a bundle does
// not matter.
func (t *Trust) otherBundle(offered string) bool {
	text, err := os.ReadFile(t.s.c.CABundle)
	if err != nil {
		return true
	}
	present, err := agentwire.Authorities(string(text))
	if err != nil {
		return true
	}
	other, err := agentwire.Authorities(offered)
	return err != nil || !slices.EqualFunc(present, other, (*x509.Certificate).Equal)
}

// Take takes over newer signed verifiers and bundles. It returns and reports
// what it refuses; the rest is in use. roots is not nil if the control plane is
// verified with other authorities from now on. Take ignores the issuer of node
// certificates: a renewal handles it, because a certificate comes with it.
func (t *Trust) Take(statements []agentwire.Statement, peer []*x509.Certificate, now time.Time) (
	roots *x509.CertPool, err error,
) {
	roots, err = t.take(statements, peer, now)
	return roots, errors.Join(err, t.note(err, now))
}

func (t *Trust) take(statements []agentwire.Statement, peer []*x509.Certificate, now time.Time) (
	roots *x509.CertPool, err error,
) {
	var failed []error
	for _, st := range statements {
		switch st.About {
		case agentwire.AboutVerifiers:
			_, err := t.verifiers.adopt(st, t.domain)
			failed = append(failed, err)
		case agentwire.AboutBundle:
			fresh, err := t.adoptBundle(st, peer, now)
			if fresh != nil {
				roots = fresh
			}
			failed = append(failed, err)
		}
	}
	return roots, errors.Join(failed...)
}

func (t *Trust) adoptBundle(st agentwire.Statement, peer []*x509.Certificate, now time.Time) (*x509.CertPool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	newer, refusal := t.verifiers.Set().Believe(st, t.domain, t.kept.BundleVersion)
	if refusal != nil {
		return nil, refusal
	}
	if !newer {
		return nil, nil
	}
	roots, err := fits(st.PEM, peer, now)
	if err != nil {
		return nil, agentwire.Distrust(agentwire.CodeTrustUnfit, st.About, "bundle %d is signed and not taken over: %v",
			st.Version, err)
	}
	if err := atomicfile.Write(t.s.c.CABundle, []byte(st.PEM), 0o644); err != nil {
		return nil, err
	}
	t.kept.BundleVersion = st.Version
	return roots, t.write()
}

// note stores what was refused. It forgets it when nothing is refused any more
// and the refusal was reported for long enough.
func (t *Trust) note(err error, now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var refusal *agentwire.TrustRefusal
	switch {
	case errors.As(err, &refusal):
		t.kept.Refused = &Refused{TrustRefusal: *refusal, At: now.UTC()}
	case err == nil && t.kept.Refused != nil && now.Sub(t.kept.Refused.At) > toldLongEnough:
		t.kept.Refused = nil
	default:
		return nil
	}
	return t.write()
}

func (t *Trust) write() error {
	raw, err := json.MarshalIndent(t.kept, "", "  ")
	if err != nil {
		return fmt.Errorf("encode versions of what the node trusts: %w", err)
	}
	return atomicfile.Write(t.s.path(trustFile), raw, 0o600)
}
