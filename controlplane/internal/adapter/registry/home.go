package registry

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
)

// Home is the way to the platform's own registry, which lets in only the control plane: by
// a password, by a client certificate, or by both. Any number of calls may run side by side.
type Home struct {
	Name         string // that references to it begin with
	URL          *url.URL
	User         string
	PasswordFile string
	CAFile       string // empty: those of the system
	CertFile     string
	KeyFile      string

	once sync.Once
	way  *http.Transport
	err  error
}

// RoundTrip implements http.RoundTripper: a request goes to where the registry is, with the
// login of the control plane. Nothing goes anywhere else.
func (h *Home) RoundTrip(r *http.Request) (*http.Response, error) {
	h.once.Do(func() { h.way, h.err = h.open() })
	if h.err != nil {
		return nil, h.err
	}
	if r.URL.Host != h.Name {
		return nil, fmt.Errorf("%s is not the registry of the platform", r.URL.Host)
	}
	sent := r.Clone(r.Context())
	sent.URL.Scheme, sent.URL.Host, sent.Host = h.URL.Scheme, h.URL.Host, ""
	sent.Header.Del("Authorization")
	if h.PasswordFile != "" {
		password, err := os.ReadFile(h.PasswordFile)
		if err != nil {
			return nil, fmt.Errorf("read password: %w", err)
		}
		sent.SetBasicAuth(h.User, strings.TrimSpace(string(password)))
	}
	return h.way.RoundTrip(sent)
}

// open makes the transport. It uses no proxy of the environment, which would see what
// tenants push.
func (h *Home) open() (*http.Transport, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if h.CAFile != "" {
		ca, err := os.ReadFile(h.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read CA: %w", err)
		}
		if t.RootCAs = x509.NewCertPool(); !t.RootCAs.AppendCertsFromPEM(ca) {
			return nil, errors.New("read CA: no certificate in " + h.CAFile)
		}
	}
	if h.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(h.CertFile, h.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read client certificate: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return &http.Transport{
		DialContext:     (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		TLSClientConfig: t, TLSHandshakeTimeout: 5 * time.Second, ResponseHeaderTimeout: 10 * time.Minute,
		MaxResponseHeaderBytes: 64 << 10, MaxIdleConnsPerHost: 32, IdleConnTimeout: 30 * time.Second,
		DisableCompression: true,
	}, nil
}

// noRedirect follows nobody: the registry serves what it has itself.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
