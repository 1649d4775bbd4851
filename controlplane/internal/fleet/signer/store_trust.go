package signer

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/fleet/signer/internal/signerdb"
)

// awayAtMost is how long after its retirement a key still signs what nodes
// shall trust. A node that knows no newer key was away too long, and comes back
// with a recovery token.
const awayAtMost = 90 * 24 * time.Hour

// Bundle is the set of CAs with which nodes verify the listener.
type Bundle struct {
	Version     int64
	PEM         string
	Fingerprint string // SHA-256 of the text, in hex
	Authorities []*x509.Certificate
	CreatedAt   time.Time
}

// Progress says how many nodes use a bundle.
type Progress struct {
	Nodes       int // nodes that have an agent and are not being removed
	NodesBehind int
	Sample      []id.Node
}

// Authority returns the name of a certificate in a bundle.
func Authority(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return hex.EncodeToString(sum[:])
}

func bundleFrom(row signerdb.NodeTrust) (Bundle, error) {
	certificates, err := agentwire.Authorities(row.Pem)
	if err != nil {
		return Bundle{}, fmt.Errorf("read trust bundle %d: %w", row.Version, err)
	}
	return Bundle{
		Version: row.Version, PEM: row.Pem, Fingerprint: agentwire.BundleFingerprint(row.Pem), Authorities: certificates,
		CreatedAt: row.CreatedAt,
	}, nil
}

// written returns the text of a bundle.
func written(authorities []*x509.Certificate) string {
	var out strings.Builder
	for _, c := range authorities {
		out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
	}
	return out.String()
}

// Bundle returns the bundle with which nodes shall verify the listener. The
// first one is the CA of the listener at the first call; from then on operators
// decide.
func (s *Service) Bundle(ctx context.Context, listenerCA string) (Bundle, error) {
	row, err := s.reads.Trusted(ctx, agentwire.AboutBundle)
	if errors.Is(err, pgx.ErrNoRows) {
		row, err = s.trust(ctx, agentwire.AboutBundle, listenerCA,
			func(*signerdb.Queries, signerdb.NodeTrust) (bool, error) { return true, nil })
	}
	if err != nil {
		return Bundle{}, fmt.Errorf("read trust bundle: %w", err)
	}
	return bundleFrom(row)
}

// Statements returns everything that nodes shall trust now, each signed by
// every key that some node may still rely on. issuer returns who issues node
// certificates now: the secrets engine decides that, and the signer numbers its
// versions. issuer receives the recorded issuer, so that a replica which
// remembers another one asks the secrets engine again first.
func (s *Service) Statements(
	ctx context.Context, domain string, issuer func(ctx context.Context, recorded string) (string, error),
) ([]agentwire.Statement, error) {
	set, err := s.Verifiers(ctx)
	if err != nil {
		return nil, err
	}
	by, err := s.issuer(ctx, issuer)
	if err != nil {
		return nil, err
	}
	bundle, err := s.reads.Trusted(ctx, agentwire.AboutBundle)
	if err != nil {
		return nil, fmt.Errorf("read trust bundle: %w", err)
	}
	out := []agentwire.Statement{
		{About: agentwire.AboutVerifiers, Version: set.Version, Verifiers: &set},
		{About: agentwire.AboutIssuer, Version: by.Version, PEM: by.Pem},
		{About: agentwire.AboutBundle, Version: bundle.Version, PEM: bundle.Pem},
	}
	keys, err := s.reads.Vouching(ctx, signerdb.VouchingParams{
		RetiredAfter: until(s.now(), -awayAtMost),
		Most:         agentwire.MaxSignatures,
	})
	if err != nil {
		return nil, fmt.Errorf("read keys that sign what nodes trust: %w", err)
	}
	for i := range out {
		out[i].Domain = domain
		if err := s.vouch(ctx, &out[i], keys); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// issuerStands is how long an issuer stands before an earlier one may replace
// it. Replicas ask the secrets engine far more often than that. A replica that
// names an earlier issuer sooner may be out of date; later, it is right.
const issuerStands = time.Hour

// issuer returns who issues node certificates, with its version.
func (s *Service) issuer(
	ctx context.Context, now func(ctx context.Context, recorded string) (string, error),
) (signerdb.NodeTrust, error) {
	row, err := s.reads.Trusted(ctx, agentwire.AboutIssuer)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return row, fmt.Errorf("read issuer of node certificates: %w", err)
	}
	text, err := now(ctx, row.Pem)
	if err != nil || text == row.Pem {
		return row, err
	}
	return s.trust(ctx, agentwire.AboutIssuer, text, func(q *signerdb.Queries, before signerdb.NodeTrust) (bool, error) {
		if before.Pem == text || s.now().Sub(before.CreatedAt) > issuerStands {
			return before.Pem == text, nil
		}
		return q.WasTrusted(ctx, signerdb.WasTrustedParams{About: agentwire.AboutIssuer, Pem: text})
	})
}

// vouch signs a statement with all keys. If a retired key is gone from the
// secrets engine, that is no failure: nodes that know no other key are
// recovered.
func (s *Service) vouch(ctx context.Context, st *agentwire.Statement, keys []signerdb.VouchingRow) error {
	message, err := st.SignedBytes()
	if err != nil {
		return fault.Wrap(err, fault.Internal, "trust_not_signable",
			"the statement about %s has no form that could be signed", st.About)
	}
	for _, k := range keys {
		signature, err := s.vouched.sign(k.ID, message, func() ([]byte, error) {
			return s.sign(ctx, signerdb.ActiveKeyRow{ID: k.ID, KeyName: k.KeyName, PublicKey: k.PublicKey}, message)
		})
		if err != nil && Status(k.Status) != Retired {
			return err
		}
		if err != nil {
			s.logger.WarnContext(ctx, "a retired signer does not sign what nodes are to trust", "signer", k.ID, "error", err)
			continue
		}
		st.Signatures = append(st.Signatures, agentwire.StatementSignature{Signer: k.ID, Signature: signature})
	}
	return nil
}

// vouchers caches signatures of statements, because all nodes ask for the same.
type vouchers struct {
	mu   sync.Mutex
	made map[string][]byte
}

const maxVouchers = 256

func (v *vouchers) sign(signer string, message []byte, sign func() ([]byte, error)) ([]byte, error) {
	sum := sha256.Sum256(message)
	name := signer + " " + string(sum[:])
	v.mu.Lock()
	known := v.made[name]
	v.mu.Unlock()
	if known != nil {
		return known, nil
	}
	signature, err := sign()
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.made == nil || len(v.made) >= maxVouchers {
		v.made = map[string][]byte{}
	}
	v.made[name] = signature
	return signature, nil
}

// Progress returns how many nodes have taken over a bundle.
func (s *Service) Progress(ctx context.Context, b Bundle) (Progress, error) {
	var p Progress
	var err error
	if p.Nodes, p.NodesBehind, p.Sample, err = s.fleet.BundleBehind(ctx, b.Fingerprint); err != nil {
		return p, fmt.Errorf("look for nodes without bundle %d: %w", b.Version, err)
	}
	return p, nil
}

// CurrentBundle reads the bundle from the database.
func (s *Service) CurrentBundle(ctx context.Context) (Bundle, error) {
	row, err := s.reads.Trusted(ctx, agentwire.AboutBundle)
	if errors.Is(err, pgx.ErrNoRows) {
		return Bundle{}, errNoBundle
	}
	if err != nil {
		return Bundle{}, fmt.Errorf("read trust bundle: %w", err)
	}
	return bundleFrom(row)
}

var (
	errNoBundle = fault.New(fault.Unavailable, "trust_bundle_missing", "no bundle is known yet").
			WithRemedy("it is made when a process with role api has a certificate for its node listener")
	errLastAuthority = fault.New(fault.Conflict, "trust_bundle_last_authority", "it is the only authority in the bundle").
				WithRemedy("add the next one first, and wait until all nodes have taken it over")
	errNotAnAuthority = fault.New(fault.Invalid, "trust_authority_refused",
		"the text holds no certificate of an authority that is valid now").
		WithRemedy("send the certificate of the CA itself in PEM, not that of the listener")
	errUnknownAuthority = fault.New(fault.NotFound, "trust_authority_not_found", "the bundle holds no such authority").
				WithRemedy("list them with: gpuaas trust show")
	errBundleFull = fault.New(fault.Conflict, "trust_bundle_full", "the bundle holds as many authorities as it can").
			WithRemedy("drop those that no listener uses any more with: gpuaas trust remove")
)

// maxAuthorities limits the CAs of a bundle.
const maxAuthorities = 16

func errNodesBehind(behind int) error {
	return fault.New(fault.Conflict, "trust_bundle_not_taken_over",
		"%d nodes have not taken the present bundle over and may know the others only", behind).
		WithRemedy("see which with: gpuaas trust show; update their agents or bring them back; with force they need a " +
			"recovery token once the listener has changed")
}

// AddAuthority adds CAs by which nodes accept the listener. It is the first
// step of replacing the listener's CA.
func (s *Service) AddAuthority(ctx context.Context, text, reason string) (Bundle, error) {
	fresh, err := agentwire.Authorities(text)
	if err != nil {
		return Bundle{}, errNotAnAuthority
	}
	for _, c := range fresh {
		if now := s.now(); !c.IsCA || now.Before(c.NotBefore) || now.After(c.NotAfter) {
			return Bundle{}, errNotAnAuthority
		}
	}
	return s.changeBundle(ctx, "add_authority", reason, func(now Bundle) ([]*x509.Certificate, error) {
		next := now.Authorities
		for _, c := range fresh {
			if !now.holds(c) {
				next = append(next, c)
			}
		}
		if len(next) > maxAuthorities {
			return nil, errBundleFull
		}
		return next, nil
	})
}

// RemoveAuthority drops a CA. It is the last step. Unless forced, it waits
// until all nodes have the present bundle, from which they know the other CAs.
// It never drops the CA that this listener still uses.
func (s *Service) RemoveAuthority(ctx context.Context, fingerprint, reason string, force bool) (Bundle, error) {
	return s.changeBundle(ctx, "remove_authority", reason, func(now Bundle) ([]*x509.Certificate, error) {
		next := make([]*x509.Certificate, 0, len(now.Authorities))
		for _, c := range now.Authorities {
			if Authority(c) != fingerprint {
				next = append(next, c)
			}
		}
		switch {
		case len(next) == len(now.Authorities):
			return nil, errUnknownAuthority
		case len(next) == 0:
			return nil, errLastAuthority
		}
		p, err := s.Progress(ctx, now)
		if err != nil {
			return nil, err
		}
		if p.NodesBehind > 0 && !force {
			return nil, errNodesBehind(p.NodesBehind)
		}
		if s.listening != nil {
			return next, s.listening(written(next))
		}
		return next, nil
	})
}

func (b Bundle) holds(c *x509.Certificate) bool {
	for _, have := range b.Authorities {
		if have.Equal(c) {
			return true
		}
	}
	return false
}

// changeBundle makes the next bundle and makes all nodes fetch it.
func (s *Service) changeBundle(
	ctx context.Context, action, reason string, next func(now Bundle) ([]*x509.Certificate, error),
) (Bundle, error) {
	var out Bundle
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := signerdb.New(tx)
		if err := q.Lock(ctx); err != nil {
			return fmt.Errorf("lock signers: %w", err)
		}
		row, err := q.Trusted(ctx, agentwire.AboutBundle)
		if errors.Is(err, pgx.ErrNoRows) {
			return errNoBundle
		}
		if err != nil {
			return fmt.Errorf("read trust bundle: %w", err)
		}
		if out, err = bundleFrom(row); err != nil {
			return err
		}
		authorities, err := next(out)
		if err != nil || len(authorities) == len(out.Authorities) {
			return err
		}
		if row, err = q.Trust(ctx, signerdb.TrustParams{
			About: agentwire.AboutBundle,
			Pem:   written(authorities),
		}); err != nil {
			return fmt.Errorf("write trust bundle: %w", err)
		}
		if out, err = bundleFrom(row); err != nil {
			return err
		}
		return s.announce(ctx, tx, q, out, action, reason)
	})
	return out, err
}

func (s *Service) announce(ctx context.Context, tx pgx.Tx, q *signerdb.Queries, b Bundle, action, reason string) error {
	names := make([]string, len(b.Authorities))
	for i, c := range b.Authorities {
		names[i] = Authority(c)
	}
	if err := audit.Record(ctx, tx, audit.Entry{
		Action: "trust." + action, TargetKind: "trust_bundle", TargetID: strconv.FormatInt(b.Version, 10),
		Result: audit.Success, Reason: reason,
		Metadata: map[string]any{"version": b.Version, "authorities": names},
	}); err != nil {
		return err
	}
	set, err := verifiers(ctx, q)
	if err != nil {
		return err
	}
	return s.distribute(ctx, tx, set, fmt.Sprintf("trust-bundle-%d", b.Version))
}

// trust writes the next version of something, unless keep says that the version
// which is there by now stays.
func (s *Service) trust(
	ctx context.Context, about, text string, keep func(q *signerdb.Queries, before signerdb.NodeTrust) (bool, error),
) (signerdb.NodeTrust, error) {
	var out signerdb.NodeTrust
	err := s.db.InTx(system(ctx), func(ctx context.Context, tx pgx.Tx) error {
		q := signerdb.New(tx)
		if err := q.Lock(ctx); err != nil {
			return fmt.Errorf("lock signers: %w", err)
		}
		var stays bool
		var err error
		if out, err = q.Trusted(ctx, about); err == nil {
			stays, err = keep(q, out)
		}
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("read what nodes trust: %w", err)
		}
		if stays {
			return nil
		}
		if out, err = q.Trust(ctx, signerdb.TrustParams{About: about, Pem: text}); err != nil {
			return fmt.Errorf("write what nodes trust: %w", err)
		}
		return audit.Record(ctx, tx, audit.Entry{
			Action: "trust.record", TargetKind: about, TargetID: strconv.FormatInt(out.Version, 10), Result: audit.Success,
			Reason:   "it is in use",
			Metadata: map[string]any{"version": out.Version},
		})
	})
	return out, err
}
