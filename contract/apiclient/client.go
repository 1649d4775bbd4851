package apiclient

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

const (
	headerCorrelation = "X-Correlation-Id"
	headerKey         = "Idempotency-Key"

	defaultTimeout  = 40 * time.Second // longer than the control plane's own limit
	defaultAttempts = 4
	largestAnswer   = 64 << 20
)

// Config is what a client needs to know. Only URL is required.
type Config struct {
	URL string
	// Token proves who is calling. Without one only public operations work.
	Token string
	// CAFile holds certificates (PEM) that are trusted in addition to those of
	// the system.
	CAFile    string
	UserAgent string
	// IdempotencyKey is sent with every change. If it is empty, each change
	// gets a random one.
	IdempotencyKey string
	// Timeout ends an attempt, except for streams.
	Timeout time.Duration
	// Attempts is how often a call is tried if repeating it is safe; 4 by
	// default.
	Attempts int
	// Retrying, if set, is told why a call is repeated and after which pause.
	Retrying func(why error, pause time.Duration)
	// Wait lets tests not wait. It returns early with the error of a context
	// that ended.
	Wait WaitFunc
	// Transport replaces the one that CAFile describes.
	Transport http.RoundTripper
}

// New makes a client.
func New(cfg Config) (*Client, error) {
	base, err := checkURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	if cfg.Transport == nil {
		if cfg.Transport, err = newTransport(cfg.CAFile); err != nil {
			return nil, err
		}
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.Attempts <= 0 {
		cfg.Attempts = defaultAttempts
	}
	if cfg.Wait == nil {
		cfg.Wait = wait
	}
	return &Client{base: base, http: &caller{cfg: cfg, http: &http.Client{
		Transport: cfg.Transport,
		// Following a redirect could carry the token to where it does not
		// belong.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}}, nil
}

// checkURL refuses what would send the token somewhere unexpected. The returned
// URL ends with a slash, because paths of the API lie below it.
func checkURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("parse URL of the control plane: %w", err)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("the URL of the control plane must begin with http:// or https://, not %q", raw)
	case u.Host == "":
		return nil, fmt.Errorf("the URL of the control plane has no host: %q", raw)
	case u.User != nil:
		return nil, errors.New("the URL of the control plane must not hold a user or password")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("the URL of the control plane must end with the host or a path: %q", raw)
	}
	if strings.HasSuffix(u.Path, "/") {
		return u, nil
	}
	return url.Parse(u.String() + "/")
}

func newTransport(caFile string) (*http.Transport, error) {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, errors.New("the default transport was replaced by something else")
	}
	t = t.Clone()
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile == "" {
		return t, nil
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("read CA file: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("read certificates of the system: %w", err)
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("the CA file %s holds no certificate in PEM form", caFile)
	}
	t.TLSClientConfig.RootCAs = pool
	return t, nil
}

// randomID is 128 random bits; rand.Read never fails.
func randomID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
