package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// The headers in which a proxy says for whom it speaks. Only one of them is
// read, never both: the other may come from the client itself.
const (
	ForwardedFor = "X-Forwarded-For"
	Forwarded    = "Forwarded" // RFC 7239
)

// clientAddr returns the peer. If the peer is a trusted proxy, it returns the
// first address from the right of the header that is not a trusted proxy.
func (a *API) clientAddr(r *http.Request) string {
	addr := hostOf(r.RemoteAddr)
	hops := strings.Split(strings.Join(r.Header.Values(a.cfg.ProxyHeader), ","), ",")
	for i := len(hops) - 1; i >= 0 && a.trusted(addr); i-- {
		hop := strings.TrimSpace(hops[i])
		if a.cfg.ProxyHeader == Forwarded {
			hop = forwardedFor(hop)
		}
		ip, ok := hopAddr(hop)
		if !ok {
			break
		}
		addr = ip.Unmap().String()
	}
	return addr
}

// forwardedFor returns the address in one element of a Forwarded header.
func forwardedFor(element string) string {
	for pair := range strings.SplitSeq(element, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if strings.EqualFold(name, "for") {
			return strings.Trim(value, `"`)
		}
	}
	return ""
}

// hopAddr reads an address that may have a port.
func hopAddr(hop string) (netip.Addr, bool) {
	if at, err := netip.ParseAddrPort(hop); err == nil {
		return at.Addr(), true
	}
	ip, err := netip.ParseAddr(strings.Trim(hop, "[]"))
	return ip, err == nil
}

func (a *API) trusted(addr string) bool {
	ip, err := netip.ParseAddr(addr)
	return err == nil && slices.ContainsFunc(a.cfg.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(ip) })
}

func hostOf(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return remote
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().String()
	}
	return host
}
