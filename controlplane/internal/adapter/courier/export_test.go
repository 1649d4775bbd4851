package courier

import (
	"context"
	"net"
	"net/netip"
)

// Resolving makes a courier resolve names otherwise.
func (c *Courier) Resolving(lookup func(host string) []netip.Addr) *Courier {
	c.lookup = func(_ context.Context, host string) ([]netip.Addr, error) { return lookup(host), nil }
	return c
}

// Dialling makes a courier tell which addresses it dials.
func (c *Courier) Dialling(told func(address string)) *Courier {
	dial := c.dial
	c.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		told(address)
		return dial(ctx, network, address)
	}
	return c
}
