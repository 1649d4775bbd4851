package agentgateway

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
)

// TrustConfig says where certificates come from. With files nothing but node
// certificates is asked of the secrets engine.
type TrustConfig struct {
	PKI PKI
	// Names are the names and addresses that nodes reach this listener by.
	Names                     []string
	CertFile, KeyFile, CAFile string
	// Bundle returns the CAs that nodes verify listeners with, the CA of this
	// listener first. If Bundle is nil, there is only that CA.
	Bundle func(ctx context.Context, listenerCA string) (string, error)
	// FormerCAFile holds CAs that issued node certificates before the present
	// one and are still believed, so that a change of the CA cuts nobody off.
	FormerCAFile string
	Logger       *slog.Logger
	// Clock is time.Now unless a test says otherwise.
	Clock func() time.Time
}

// Trust holds what the two ends of the listener are verified with: its own
// certificate and the CA of that, and the issuers of node certificates. The
// two CAs have nothing to do with each other.
type Trust struct {
	cfg     TrustConfig
	server  atomic.Pointer[serverCertificate]
	ownCA   atomic.Pointer[string] // of this listener
	bundle  atomic.Pointer[bundle] // as it was last read
	issuers atomic.Pointer[issuers]

	renewing   sync.Mutex // the certificate of the listener
	refreshing sync.Mutex // fetching the issuers
	triedAt    time.Time
	outcome    error
}

type serverCertificate struct {
	pair              *tls.Certificate
	notAfter, renewAt time.Time
}

// bundle returns the CAs that nodes verify this listener with.
type bundle struct {
	pem         string
	fingerprint string // SHA-256 of the text, in hex: what sha256sum says of the file
	publishedAt time.Time
}

// issuers are the CAs whose node certificates are accepted. A new value takes
// the place of the old one when they change.
type issuers struct {
	pem, former string
	pool        *x509.CertPool
}

// NewTrust makes an empty trust; nothing is fetched before it is needed.
func NewTrust(cfg TrustConfig) *Trust {
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Trust{cfg: cfg}
}

const (
	lookEvery     = time.Minute      // at the server certificate and its files
	refetchCAs    = 10 * time.Minute // what the CAs are
	refetchSoon   = 15 * time.Second // because of an issuer that is not the one known here
	refetchFailed = 5 * time.Second  // after it did not work
	retryFirst    = 500 * time.Millisecond
	retryMost     = 30 * time.Second
)

// keep holds everything fresh until the context ends. What cannot be fetched
// is tried again; what is there keeps being used.
func (t *Trust) keep(ctx context.Context) {
	wait := retryFirst
	for {
		pause := lookEvery
		if err := t.refresh(ctx); err != nil && ctx.Err() == nil {
			t.cfg.Logger.WarnContext(ctx, "certificates of the node listener could not be refreshed", "error", err, "retry_in",
				wait.String())
			pause, wait = wait, min(2*wait, retryMost)
		} else {
			wait = retryFirst
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// refresh renews what is due.
func (t *Trust) refresh(ctx context.Context) error {
	_, caErr := t.serverCA(ctx)
	serverErr := t.renewDue(ctx)
	within := refetchCAs
	if t.issuers.Load() == nil {
		within = 0
	}
	issuersErr := t.refetchIssuers(ctx, within)
	return errors.Join(caErr, serverErr, issuersErr)
}

func (t *Trust) renewDue(ctx context.Context) error {
	t.renewing.Lock()
	defer t.renewing.Unlock()
	if s := t.server.Load(); s != nil && t.cfg.Clock().Before(s.renewAt) {
		return nil
	}
	return t.renewServer(ctx)
}

// renewServer replaces the certificate of the listener. Connections that are
// open keep theirs; new ones get the new one.
func (t *Trust) renewServer(ctx context.Context) error {
	fetch := t.issueServer
	if t.cfg.CertFile != "" {
		fetch = t.readServer
	}
	s, err := fetch(ctx)
	if err != nil {
		return err
	}
	if err := t.mayShow(ctx, s); err != nil {
		return err
	}
	if old := t.server.Swap(s); old == nil || !old.notAfter.Equal(s.notAfter) {
		t.cfg.Logger.InfoContext(ctx, "the node listener has a certificate", "not_after", s.notAfter)
	}
	return nil
}

// readServer takes the certificate from files, which are looked at again every
// minute: whoever renews it only writes them.
func (t *Trust) readServer(context.Context) (*serverCertificate, error) {
	pair, err := tls.LoadX509KeyPair(t.cfg.CertFile, t.cfg.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("read certificate of the node listener: %w", err)
	}
	return &serverCertificate{pair: &pair, notAfter: pair.Leaf.NotAfter, renewAt: t.cfg.Clock().Add(lookEvery)}, nil
}

// certificate is that of the listener, for the next handshake.
func (t *Trust) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s := t.server.Load()
	if s == nil {
		return nil, errors.New("the node listener has no certificate yet")
	}
	return s.pair, nil
}

// Ready reports whether nodes that come to this listener can be let in: it has
// a certificate that they accept, and knows who issues theirs.
func (t *Trust) Ready() bool {
	s := t.server.Load()
	return s != nil && t.cfg.Clock().Before(s.notAfter) && t.issuers.Load() != nil
}

// Check reports why no node can verify the certificate that this listener shows.
// A listener without a certificate yet is not reported: agents come again, and
// refresh says what it waits for.
func (t *Trust) Check(ctx context.Context) error {
	s := t.server.Load()
	if s == nil {
		return nil
	}
	if !t.cfg.Clock().Before(s.notAfter) {
		return fault.New(fault.Unavailable, "listener_certificate_expired",
			"the certificate of the node listener ended on %s, and nodes refuse it", s.notAfter.UTC().Format(time.RFC3339)).
			WithRemedy("renew the files of nodes.tls, or see in the log why the secrets engine issues none")
	}
	known, err := t.serverCA(ctx)
	if err != nil {
		if known = t.bundle.Load(); known == nil {
			return nil // nobody knows; refresh says so
		}
	}
	problem := verifies(known.pem, s, t.cfg.Clock())
	if problem == nil {
		return nil
	}
	return fault.Wrap(problem, fault.Unavailable, "listener_not_in_bundle",
		"no node can verify the certificate of the node listener").
		WithRemedy("give the listener a certificate of an authority in the bundle (%s), or start with the files it had",
			authorityNames(known.pem))
}

// CheckNow fetches what the listener shows, where nobody has yet, and checks it.
func (t *Trust) CheckNow(ctx context.Context) error {
	if err := t.renewDue(ctx); err != nil {
		return err
	}
	return t.Check(ctx)
}

// authorityNames lists the authorities of a bundle for people.
func authorityNames(bundle string) string {
	certificates, err := agentwire.Authorities(bundle)
	if err != nil {
		return "see gpuaas trust show"
	}
	names := make([]string, len(certificates))
	for i, c := range certificates {
		names[i] = fmt.Sprintf("%q, SHA-256 %x", cmp.Or(c.Subject.CommonName, c.Subject.String()), sha256.Sum256(c.Raw))
	}
	return strings.Join(names, "; ")
}

// mayShow refuses a certificate that nodes cannot verify, as long as the listener
// has another one. It accepts any first certificate, because the listener cannot
// serve without one.
func (t *Trust) mayShow(ctx context.Context, s *serverCertificate) error {
	known, err := t.serverCA(ctx)
	if err != nil {
		if known = t.bundle.Load(); known == nil {
			return nil // nobody knows; refresh says so
		}
	}
	problem := verifies(known.pem, s, t.cfg.Clock())
	if problem == nil {
		return nil
	}
	err = fault.Wrap(problem, fault.Conflict, "listener_not_in_bundle",
		"nodes cannot verify the new certificate of the node listener").
		WithRemedy("add its CA to what nodes trust with: gpuaas trust add, and wait until all nodes have taken it over")
	if old := t.server.Load(); old != nil && t.cfg.Clock().Before(old.notAfter) {
		return err
	}
	t.cfg.Logger.ErrorContext(ctx, "the node listener shows a certificate that nodes cannot verify", "error", err)
	return nil
}

// Fits says why nodes that know a bundle only could not verify this listener.
func (t *Trust) Fits(bundle string) error {
	s := t.server.Load()
	if s == nil {
		return nil
	}
	if err := verifies(bundle, s, t.cfg.Clock()); err != nil {
		return fault.Wrap(err, fault.Conflict, "trust_authority_in_use",
			"the node listener still shows a certificate of that authority").
			WithRemedy("give the listener a certificate of the next authority first, in all replicas")
	}
	return nil
}

func verifies(bundle string, s *serverCertificate, now time.Time) error {
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(bundle))
	for _, der := range s.pair.Certificate[1:] {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return fmt.Errorf("parse certificate of the node listener: %w", err)
		}
		between.AddCert(c)
	}
	if _, err := s.pair.Leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between,
		CurrentTime: now,
	}); err != nil {
		return fmt.Errorf("verify certificate of the node listener: %w", err)
	}
	return nil
}

// serverCA returns the CA that nodes verify this listener with.
func (t *Trust) serverCA(ctx context.Context) (*bundle, error) {
	own := t.ownCA.Load()
	if own == nil { // fetched once: another one takes a restart that somebody means
		text, err := t.fetchServerCA(ctx)
		if err != nil {
			return nil, err
		}
		own = &text
		t.ownCA.Store(own)
	}
	text := *own
	if t.cfg.Bundle != nil {
		var err error
		if text, err = t.cfg.Bundle(ctx, text); err != nil {
			return nil, err
		}
	}
	if b := t.bundle.Load(); b != nil && b.pem == text {
		return b, nil
	}
	certificates, err := agentwire.Authorities(text)
	if err != nil {
		return nil, fmt.Errorf("read CA of the node listener: %w", err)
	}
	b := &bundle{pem: text, fingerprint: agentwire.BundleFingerprint(text), publishedAt: certificates[0].NotBefore.UTC()}
	t.bundle.Store(b)
	return b, nil
}

func (t *Trust) fetchServerCA(ctx context.Context) (string, error) {
	if t.cfg.CAFile == "" {
		text, err := t.cfg.PKI.ServerCA(ctx)
		if err != nil {
			return "", fmt.Errorf("fetch CA of the node listener: %w", err)
		}
		return text, nil
	}
	b, err := os.ReadFile(t.cfg.CAFile)
	if err != nil {
		return "", fault.Wrap(err, fault.Unavailable, "node_listener_ca_unreadable",
			"the CA file of the node listener cannot be read").
			WithRemedy("check nodes.tls.ca_file")
	}
	return string(b), nil
}

// nodeIssuers are the CAs whose certificates are accepted.
func (t *Trust) nodeIssuers(ctx context.Context) (*issuers, error) {
	if i := t.issuers.Load(); i != nil {
		return i, nil
	}
	if err := t.refetchIssuers(ctx, time.Second); err != nil {
		return nil, err
	}
	return t.issuers.Load(), nil
}

// issuerNow returns who issues node certificates. If the database records another
// issuer than this replica knows, the replica asks the secrets engine again first,
// because its own knowledge may be old. If it cannot ask, it changes nothing.
func (t *Trust) issuerNow(ctx context.Context, recorded string) (string, error) {
	known, err := t.nodeIssuers(ctx)
	if err != nil || known.pem == recorded {
		return recorded, err
	}
	err = t.refetchIssuers(ctx, refetchSoon)
	if err != nil && recorded != "" {
		t.cfg.Logger.WarnContext(ctx, "another issuer of node certificates is recorded than this replica knows", "error", err)
		return recorded, nil
	}
	return t.issuers.Load().pem, err
}

// refetchIssuers asks the secrets engine who issues node certificates. A call soon
// after another gets the outcome of that one, so that not every node waits for an
// engine that is away.
func (t *Trust) refetchIssuers(ctx context.Context, within time.Duration) error {
	t.refreshing.Lock()
	defer t.refreshing.Unlock()
	if t.outcome != nil {
		within = min(within, refetchFailed)
	}
	if !t.triedAt.IsZero() && t.cfg.Clock().Sub(t.triedAt) < within {
		return t.outcome
	}
	t.outcome = t.fetchIssuers(ctx)
	t.triedAt = t.cfg.Clock()
	return t.outcome
}

func (t *Trust) fetchIssuers(ctx context.Context) error {
	text, err := t.cfg.PKI.NodeCA(ctx)
	if err != nil {
		return fmt.Errorf("fetch issuer of node certificates: %w", err)
	}
	var former []byte
	if t.cfg.FormerCAFile != "" {
		if former, err = os.ReadFile(t.cfg.FormerCAFile); err != nil {
			return fault.Wrap(err, fault.Unavailable, "node_former_ca_unreadable", "the file of former node CAs cannot be read").
				WithRemedy("check nodes.former_ca_file")
		}
	}
	if old := t.issuers.Load(); old != nil && old.pem == text && old.former == string(former) {
		return nil
	}
	fresh, err := newIssuers(text, string(former))
	if err != nil {
		return err
	}
	t.issuers.Store(fresh)
	return nil
}

// newIssuers trusts the issuer itself and not the root above it, because another
// intermediate of that root may not issue node certificates. A root is trusted if
// it issues node certificates directly.
func newIssuers(text, former string) (*issuers, error) {
	out := &issuers{pem: text, former: former, pool: x509.NewCertPool()}
	for _, chain := range []string{text, former} {
		if chain == "" {
			continue
		}
		certificates, err := agentwire.Authorities(chain)
		if err != nil {
			return nil, fmt.Errorf("read issuer of node certificates: %w", err)
		}
		for i, c := range certificates {
			if root := bytes.Equal(c.RawIssuer, c.RawSubject); !root || i == 0 {
				out.pool.AddCert(c)
			}
		}
	}
	return out, nil
}
