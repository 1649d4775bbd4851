package maas

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"gpuaas/controlplane/internal/base/fault"
)

// ParseURL checks the address of a region and completes it to the base of its
// API. It accepts the host alone, the address of the web console, or the API.
func ParseURL(raw string) (*url.URL, error) {
	refuse := func(why string) (*url.URL, error) { // the URL may hold a password, so no error quotes it
		return nil, fault.New(fault.Invalid, CodeURLInvalid, "the MAAS URL %s", why).
			WithRemedy("use the form http://maas.example:5240/MAAS or https://maas.example:5443/MAAS")
	}
	u, err := url.Parse(strings.TrimSpace(raw))
	switch {
	case err != nil:
		return refuse("cannot be parsed")
	case u.Scheme != "http" && u.Scheme != "https":
		return refuse("must begin with http:// or https://")
	case u.User != nil:
		return refuse("must not hold credentials")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return refuse("must not hold a query or a fragment")
	case u.Hostname() == "" || strings.ContainsAny(u.Host, " \t"):
		return refuse("names no host")
	case slices.Contains(strings.Split(u.Path, "/"), ".."):
		return refuse("must not hold ..")
	}
	path := strings.TrimSuffix(strings.TrimRight(u.Path, "/"), strings.TrimSuffix("/"+apiPath, "/"))
	if path == "" {
		path = "/MAAS"
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: path + "/" + apiPath}, nil
}

// guard connects only to addresses that it has checked. It resolves a name once
// and dials the checked address, so a name that changes its address in between
// gains nothing.
type guard struct {
	allowed  []netip.Prefix // empty: everything that is not refused below
	loopback func(netip.AddrPort) bool
	resolver *net.Resolver
	dialer   net.Dialer
}

func newGuard(allowed []netip.Prefix, loopback func(netip.AddrPort) bool) *guard {
	return &guard{
		allowed: allowed, loopback: loopback, resolver: net.DefaultResolver,
		dialer: net.Dialer{Timeout: 10 * time.Second},
	}
}

// permits always refuses link-local addresses, because metadata services are
// there. It refuses loopback unless the operator named that very port: whoever
// may describe a site must not make us call the engines beside us.
func (g *guard) permits(to netip.AddrPort) bool {
	addr := to.Addr()
	if addr.IsUnspecified() || addr.IsMulticast() || addr.IsLinkLocalUnicast() || addr.Zone() != "" {
		return false
	}
	if addr.IsLoopback() && (g.loopback == nil || !g.loopback(to)) {
		return false
	}
	return len(g.allowed) == 0 || slices.ContainsFunc(g.allowed, func(p netip.Prefix) bool { return p.Contains(addr) })
}

func (g *guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := g.resolver.LookupPort(ctx, network, service)
	if err != nil {
		return nil, err
	}
	addrs, err := g.resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	var checked []netip.AddrPort
	for _, addr := range addrs {
		if to := netip.AddrPortFrom(addr.Unmap(), uint16(port)); g.permits(to) { //nolint:gosec // a port
			checked = append(checked, to)
		}
	}
	if len(checked) == 0 {
		return nil, refusal(addrs)
	}
	var failures []error
	for _, to := range checked {
		conn, err := g.dialer.DialContext(ctx, network, to.String())
		if err == nil {
			return conn, nil
		}
		failures = append(failures, err)
	}
	return nil, errors.Join(failures...)
}

// refusal does not reveal which addresses the name has.
func refusal(addrs []netip.Addr) error {
	if slices.ContainsFunc(addrs, func(a netip.Addr) bool { return a.Unmap().IsLoopback() }) {
		return fault.New(fault.Forbidden, CodeAddressRefused,
			"the MAAS URL leads to the machine of the control plane itself").
			WithRemedy("correct the site's URL; if MAAS does run there, whoever runs the control plane names its host:port in " +
				"the setting sites.loopback")
	}
	return fault.New(fault.Forbidden, CodeAddressRefused, "the MAAS URL leads to an address outside the allowed networks").
		WithRemedy("correct the site's URL, or allow its network")
}

// transport keeps connections for reuse. It uses no proxies of the environment:
// they would connect where the guard cannot check.
func transport(g *guard, ca []byte) (*http.Transport, error) {
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(ca) > 0 {
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM(ca) {
			return nil, fault.New(fault.Invalid, CodeCAInvalid, "the CA of the MAAS site holds no certificate").
				WithRemedy("give the CA as PEM, beginning with -----BEGIN CERTIFICATE-----")
		}
	}
	return &http.Transport{
		DialContext:            g.dial,
		TLSClientConfig:        trust,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConnsPerHost:    PerSite,
		IdleConnTimeout:        30 * time.Second, // shorter than that of proxies in front of MAAS
		MaxResponseHeaderBytes: 64 << 10,
	}, nil
}
