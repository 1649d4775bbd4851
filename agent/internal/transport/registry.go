package transport

import (
	"net"
	"net/http"
	"time"
)

// Registry returns a way to the platform's own registry: its requests go to the control
// plane, under the identity of the node. It keeps connections of its own, so that a large
// file holds up no task.
func (c *Client) Registry() http.RoundTripper {
	const patience = 30 * time.Second
	return home{c, &http.Transport{
		Proxy:           http.ProxyFromEnvironment,
		DialContext:     (&net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}).DialContext,
		TLSClientConfig: c.TLS(), TLSHandshakeTimeout: dialTimeout, ResponseHeaderTimeout: patience,
		DisableCompression: true, MaxIdleConnsPerHost: 16,
	}}
}

type home struct {
	client *Client
	*http.Transport
}

// RoundTrip implements http.RoundTripper.
func (h home) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := r.Clone(r.Context())
	sent.URL.Scheme, sent.URL.Host, sent.Host = h.client.o.Base.Scheme, h.client.o.Base.Host, ""
	for name, values := range h.client.Header() {
		sent.Header[name] = values
	}
	return h.Transport.RoundTrip(sent)
}
