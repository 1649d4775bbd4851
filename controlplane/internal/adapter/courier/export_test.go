package courier

import (
	"context"
	"net"
	"net/netip"

	"gpuaas/controlplane/internal/adapter/guard"
)

// Resolving makes a courier resolve names otherwise.
func (c *Courier) Resolving(lookup func(host string) []netip.Addr) *Courier {
	cfg := c.guard.Config()
	cfg.Lookup = func(_ context.Context, host string) ([]netip.Addr, error) { return lookup(host), nil }
	c.guard = guard.New(cfg)
	return c
}

// Dialling makes a courier tell which addresses it dials.
func (c *Courier) Dialling(told func(address string)) *Courier {
	cfg := c.guard.Config()
	dial := cfg.Connect
	cfg.Connect = func(ctx context.Context, network, address string) (net.Conn, error) {
		told(address)
		return dial(ctx, network, address)
	}
	c.guard = guard.New(cfg)
	return c
}
