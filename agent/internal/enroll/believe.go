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

// Trust is whom the node trusts: the keys that sign its tasks, the issuer of
// its certificates, and the authorities of the control plane. What is on the
// disk is trusted; an enrolment puts it there, and from then on it changes only
// by statements that the present keys have signed.
type Trust struct {
	s         Store
	domain    string
	verifiers *Verifiers

	mu   sync.Mutex
	kept keptTrust
}

// keptTrust is what goes with the two bundles and is not in them. A state of
// an older agent has none of it: its versions count as 0.
type keptTrust struct {
	IssuerVersion int64    `json:"issuer_version"`
	BundleVersion int64    `json:"bundle_version"`
	Refused       *Refused `json:"refused,omitempty"`
}

// Refused is what the node was last told to trust and did not.
type Refused struct { //nolint:errname // a note of a refusal, not an error that is returned
	agentwire.TrustRefusal
	At time.Time `json:"at"`
}

// toldLongEnough is how long a refusal is told at least: whoever was answering
// when it happened is not the one who must hear of it.
const toldLongEnough = time.Hour

// OpenTrust reads whom the node trusts. domain is that of its certificate.
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

// beginTrust is the beginning of all trust: an enrolment answers the token of
// an operator over a connection to the pinned CA, and may set everything.
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
				continue // what the bootstrap has pinned stays
			}
			t.kept.BundleVersion = st.Version
			if err := atomicfile.Write(s.c.CABundle, []byte(st.PEM), 0o644); err != nil {
				return err
			}
		}
	}
	return t.write()
}

// Verifiers is the set of task verifiers in use.
func (t *Trust) Verifiers() *Verifiers { return t.verifiers }

// Refused is what was last refused; nil when nothing was.
func (t *Trust) Refused() *Refused {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.kept.Refused
}

// BundleVersion is the version of the authorities of the control plane; 0 when
// they have come with no version.
func (t *Trust) BundleVersion() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.kept.BundleVersion
}

// Header tells the control plane what the node trusts.
func (t *Trust) Header(h http.Header) {
	h.Set(agentwire.HeaderVerifierVersion, strconv.FormatInt(t.verifiers.Version(), 10))
	if raw, err := os.ReadFile(t.s.c.CABundle); err == nil {
		h.Set(agentwire.HeaderTrustBundle, agentwire.BundleFingerprint(string(raw)))
	}
	if r := t.Refused(); r != nil {
		h.Set(agentwire.HeaderTrustRefused, r.Code+" "+r.About)
	}
}

// issuer of node certificates with its version.
type issuer struct {
	pem     string
	version int64
}

// issuer gives what the certificate of a renewal was issued by: a newer
// authority that is signed, or the one that the node has pinned. A refusal that
// comes with an issuer is one of something newer, which was not needed.
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
		"the new certificate is not taken over, the present one stays: %v; another issuer needs the signature of a key that this node trusts", err)
}

// took remembers the version of an issuer that is in its place.
func (t *Trust) took(i *issuer) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept.IssuerVersion == i.version {
		return nil
	}
	t.kept.IssuerVersion = i.version
	return t.write()
}

// takeRenewed takes over what came with a certificate besides it.
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
			"another CA bundle of the control plane came without a signature, the present one stays in use: %s", unsignedBecause))
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

// otherBundle compares certificates: how a bundle is written means nothing.
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

// Take takes over what is newer and signed: verifiers and the bundle. What is
// refused is returned and told; the rest is in use. roots are not nil when the
// control plane is verified with something else from now on. The issuer of node
// certificates is for a renewal, where a certificate comes with it.
func (t *Trust) Take(statements []agentwire.Statement, peer []*x509.Certificate, now time.Time) (roots *x509.CertPool, err error) {
	roots, err = t.take(statements, peer, now)
	return roots, errors.Join(err, t.note(err, now))
}

func (t *Trust) take(statements []agentwire.Statement, peer []*x509.Certificate, now time.Time) (roots *x509.CertPool, err error) {
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
		return nil, agentwire.Distrust(agentwire.CodeTrustUnfit, st.About, "bundle %d is signed and not taken over: %v", st.Version, err)
	}
	if err := atomicfile.Write(t.s.c.CABundle, []byte(st.PEM), 0o644); err != nil {
		return nil, err
	}
	t.kept.BundleVersion = st.Version
	return roots, t.write()
}

// note remembers what was refused, and forgets it when nothing is refused any
// more and it was told for long enough.
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
