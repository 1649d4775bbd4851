// Package guard dials addresses that tenants choose. Whoever chooses one must not find
// a way into networks that only the control plane reaches: a name is resolved once,
// every address is checked, and the checked address is dialled.
package guard

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// ErrRefused says that a host lies in a network that may not be called.
var ErrRefused = errors.New("it leads to a network that may not be called")

// Config is what may be called besides the public internet.
type Config struct {
	// Allowed are networks that may be called although they are not public.
	Allowed []netip.Prefix
	// Forbidden are networks that are never called, public and allowed ones among them.
	Forbidden []netip.Prefix
	// ForbiddenHosts are names that are never called, with all names below them.
	ForbiddenHosts []string
	// Lookup resolves a name; nil: the resolver of the system does.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Connect dials an address that was checked; nil: a dialer that waits five seconds.
	Connect func(ctx context.Context, network, address string) (net.Conn, error)
}

// Guard dials what may be called. Any number of calls may run side by side.
type Guard struct{ cfg Config }

// New makes a guard. It connects to nothing.
func New(cfg Config) *Guard {
	if cfg.Lookup == nil {
		cfg.Lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if cfg.Connect == nil {
		cfg.Connect = (&net.Dialer{Timeout: 5 * time.Second}).DialContext
	}
	return &Guard{cfg: cfg}
}

// Config is what the guard goes by.
func (g *Guard) Config() Config { return g.cfg }

// special are networks within the public ones that are not public.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("192.88.99.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("2001::/23"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("2002::/16"),
	netip.MustParsePrefix("3fff::/20"),
}

// global are the addresses of IPv6 that are handed out; all others, among them
// those that translate to IPv4, are refused.
var global = netip.MustParsePrefix("2000::/3")

// MayName says whether an address may name a host. What a name resolves to is checked
// when it is dialled.
func (g *Guard) MayName(host string) bool {
	addr, err := netip.ParseAddr(host)
	return (err != nil || g.permits(addr.Unmap())) && !g.forbids(host)
}

// forbids says whether a name is one that is never called, or below one.
func (g *Guard) forbids(host string) bool {
	host = strings.ToLower(strings.TrimRight(host, "."))
	return slices.ContainsFunc(g.cfg.ForbiddenHosts, func(name string) bool {
		name = strings.ToLower(strings.Trim(name, "."))
		return host == name || strings.HasSuffix(host, "."+name)
	})
}

func (g *Guard) permits(addr netip.Addr) bool {
	if addr.Zone() != "" {
		return false
	}
	in := func(p netip.Prefix) bool { return p.Contains(addr) }
	if slices.ContainsFunc(g.cfg.Forbidden, in) {
		return false
	}
	if slices.ContainsFunc(g.cfg.Allowed, in) {
		return true
	}
	return addr.IsGlobalUnicast() && !addr.IsPrivate() && !slices.ContainsFunc(special, in) &&
		(addr.Is4() || global.Contains(addr))
}

// Dial resolves a name once and dials an address that it has checked, so a name
// that changes its address meanwhile gains nothing.
func (g *Guard) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if g.forbids(host) {
		return nil, ErrRefused
	}
	addrs, err := g.cfg.Lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	failures := []error{}
	for _, addr := range addrs {
		if !g.permits(addr.Unmap()) {
			continue
		}
		conn, err := g.cfg.Connect(ctx, network, net.JoinHostPort(addr.Unmap().String(), port))
		if err == nil {
			return conn, nil
		}
		failures = append(failures, err)
	}
	if len(failures) == 0 {
		return nil, ErrRefused
	}
	return nil, errors.Join(failures...)
}
