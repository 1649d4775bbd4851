// Package transport is the agent's only way to the control plane: HTTPS with
// the certificate of the node, over connections that are kept.
//
// Every failure is an Error that says whether the control plane could not be
// reached, could not be trusted, refused, or was not able to answer, and what
// to do about it. Every answer shows how far the clock of the node is off.
package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"gpuaas/contract/agentwire"
)

const (
	callTimeout = 30 * time.Second
	// pollSlack is how much longer a poll may take than it asks for.
	pollSlack   = 15 * time.Second
	maxAnswer   = 2 << 20
	dialTimeout = 10 * time.Second
	// packageTimeout is for the largest package over a slow line.
	packageTimeout = 10 * time.Minute
)

// Options say whom to talk to, and as whom.
type Options struct {
	Base *url.URL
	// Roots verify the control plane.
	Roots *x509.CertPool
	// Certificate returns the node's certificate. It is nil before it has
	// enrolled.
	Certificate func() *tls.Certificate
	// Node is the id of the node. It is empty before it has enrolled.
	Node string
	// Version, Instance and Session stand in the headers of every call.
	Version, Instance, Session string
	// Trust adds headers that say what the node trusts. It is nil before the
	// node has enrolled.
	Trust func(http.Header)
	Now   func() time.Time
}

// Client calls the control plane. It is safe for use by several goroutines.
type Client struct {
	o Options

	mu        sync.Mutex
	transport *http.Transport
	roots     *x509.CertPool
	skew      time.Duration
	skewKnown bool
	peer      []*x509.Certificate
}

// New makes a client. It connects with the first call.
func New(o Options) *Client {
	c := &Client{o: o, roots: o.Roots}
	c.transport = c.newTransport()
	return c
}

// TLS returns the configuration of a connection to the control plane under the
// identity of the node.
func (c *Client) TLS() *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tlsConfig()
}

func (c *Client) tlsConfig() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: c.roots, Time: c.o.Now,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if certificate := c.o.Certificate(); certificate != nil {
				return certificate, nil
			}
			return &tls.Certificate{}, nil // none; the control plane decides what that means
		},
	}
}

// newTransport speaks HTTP/1.1 only: there are at most two connections, and a
// poll that hangs must not hold up a result.
func (c *Client) newTransport() *http.Transport {
	return &http.Transport{
		Proxy:           http.ProxyFromEnvironment,
		DialContext:     (&net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}).DialContext,
		TLSClientConfig: c.tlsConfig(), TLSHandshakeTimeout: dialTimeout,
		MaxIdleConnsPerHost: 2, IdleConnTimeout: 2 * time.Minute,
		ReadBufferSize: 4 << 10, WriteBufferSize: 4 << 10,
		TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
	}
}

// Reload makes new calls use new connections, after the certificate or the
// roots have changed. Running calls end on the connections they have.
func (c *Client) Reload(roots *x509.CertPool) {
	c.mu.Lock()
	old := c.transport
	if roots != nil {
		c.roots = roots
	}
	c.transport = c.newTransport()
	c.mu.Unlock()
	old.CloseIdleConnections()
}

// Skew is how far the control plane's clock is ahead of the node's. It is known
// after the first answer.
func (c *Client) Skew() (skew time.Duration, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.skew, c.skewKnown
}

// Peer returns the certificate chain that the control plane showed last.
func (c *Client) Peer() []*x509.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.peer
}

// call is one request.
type call struct {
	method, path string
	query        string
	token        string // for enrolment
	timeout      time.Duration
	body, answer any
	sink         io.Writer // takes the answer unchanged, instead of answer
	correlation  string
	trace        string
}

// do makes a call. found is false if there was no content.
func (c *Client) do(ctx context.Context, k call) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	response, err := c.open(ctx, k)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusNoContent {
		return false, nil
	}
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return false, c.unreachable(ctx, k, err)
	}
	if len(raw) > maxAnswer {
		return false, malformed(k, fmt.Errorf("more than %d bytes", maxAnswer))
	}
	if k.sink != nil {
		_, err := k.sink.Write(raw)
		return true, err
	}
	if k.answer == nil {
		return true, nil
	}
	// Unknown fields are accepted: a newer control plane may send more.
	if err := json.Unmarshal(raw, k.answer); err != nil {
		return false, malformed(k, err)
	}
	return true, nil
}

// open sends a request and returns the answer if it is a success.
func (c *Client) open(ctx context.Context, k call) (*http.Response, error) {
	request, err := c.request(ctx, k)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	transport := c.transport
	c.mu.Unlock()
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, c.unreachable(ctx, k, err)
	}
	c.measure(response)
	if response.StatusCode >= http.StatusMultipleChoices {
		defer response.Body.Close()
		return nil, refusal(response)
	}
	return response, nil
}

func (c *Client) request(ctx context.Context, k call) (*http.Request, error) {
	var body io.Reader
	if k.body != nil {
		raw, err := json.Marshal(k.body)
		if err != nil {
			return nil, fmt.Errorf("encode request for %s: %w", k.path, err)
		}
		body = bytes.NewReader(raw)
	}
	u := *c.o.Base
	u.Path, u.RawQuery = k.path, k.query
	r, err := http.NewRequestWithContext(ctx, k.method, u.String(), body)
	if err != nil {
		return nil, fmt.Errorf("make request for %s: %w", k.path, err)
	}
	r.Header = c.Header()
	for name, value := range map[string]string{"X-Correlation-Id": k.correlation, "Traceparent": k.trace} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if k.token != "" {
		r.Header.Set("Authorization", "Bearer "+k.token)
	}
	return r, nil
}

// Header returns the headers of every call.
func (c *Client) Header() http.Header {
	h := http.Header{}
	h.Set(agentwire.HeaderAgentVersion, c.o.Version)
	h.Set(agentwire.HeaderAgentInstance, c.o.Instance)
	h.Set(agentwire.HeaderAgentSession, c.o.Session)
	if c.o.Trust != nil {
		c.o.Trust(h)
	}
	return h
}

// measure reads the control plane's clock from an answer. The connection is
// verified, so nobody on the way can have changed it.
func (c *Client) measure(response *http.Response) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if response.TLS != nil {
		c.peer = response.TLS.PeerCertificates
	}
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		c.skew, c.skewKnown = date.Sub(c.o.Now()), true
	}
}

// path fills in the parameters of a path of agentwire.
func (c *Client) path(pattern string, values ...string) string {
	replace := append([]string{"{node_id}", url.PathEscape(c.o.Node)}, values...)
	return strings.NewReplacer(replace...).Replace(pattern)
}

// unreachable says why a call got no answer.
func (c *Client) unreachable(ctx context.Context, k call, err error) error {
	e := &Error{Kind: Unreachable, Code: CodeUnreachable, cause: err, Message: "the control plane at " + c.o.Base.Host +
		" cannot be reached"}
	e.Remedy = "check name resolution, routing and firewalls between the node and " + c.o.Base.Host +
		"; the agent keeps trying"
	var invalid x509.CertificateInvalidError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var verification *tls.CertificateVerificationError
	switch {
	case errors.Is(context.Cause(ctx), context.Canceled):
		return fmt.Errorf("call %s: %w", k.path, context.Canceled)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		e.Kind, e.Code = Untrusted, CodeServerCertificateDate
		e.Message = "the certificate of the control plane is not valid at " + c.o.Now().UTC().Format(time.RFC3339) +
			", the time on this node"
		e.Remedy = "check the clock of the node first, then the certificate of the control plane"
	case errors.As(err, &host):
		e.Kind, e.Code = Untrusted, CodeServerName
		e.Message = "the certificate of the control plane is not one for " + c.o.Base.Hostname()
		e.Remedy = "set GPUAAS_API_URL to a name that is in the certificate, or add the name on the control plane"
	case errors.As(err, &unknown), errors.As(err, &verification):
		e.Kind, e.Code = Untrusted, CodeServerUnknownIssuer
		e.Message = "the certificate of the control plane was not issued by the authority in the node's CA bundle"
		e.Remedy = "if the authority was replaced, fetch the new bundle with a bootstrap command of this node; otherwise " +
			"something else answers at " + c.o.Base.Host
	}
	return e
}
