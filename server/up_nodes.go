package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"gpuaas/controlplane"
)

// nodePort is where nodes are awaited unless somebody else has the port.
const nodePort = "8443"

// awaitNodes opens the listener that nodes come to, and completes the settings
// with it: the address that nodes are told, and where the agent's programs are.
// named is what the operator chose; host is where nodes find this machine.
func (u *up) awaitNodes(ctx context.Context, named controlplane.NodesConfig, cfg *controlplane.NodesConfig,
	host string,
) (net.Listener, error) {
	if exe, err := os.Executable(); err == nil {
		folder := filepath.Join(filepath.Dir(exe), "agent")
		if info, err := os.Stat(filepath.Join(folder, u.version)); err == nil && info.IsDir() {
			cfg.AgentFolder, cfg.AgentVersion = folder, u.version
		}
	}
	l, err := u.listenForNodes(ctx, named.Listen)
	if err != nil {
		return nil, err
	}
	bound, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return nil, fmt.Errorf("read address of the node listener: %w", err)
	}
	if ip, err := netip.ParseAddr(bound); err == nil && !ip.IsUnspecified() {
		host = bound // nodes can come nowhere else
	}
	cfg.Listen, cfg.URL = l.Addr().String(), "https://"+net.JoinHostPort(host, port)
	cfg.TLS.Names = []string{"localhost", "127.0.0.1"}
	return l, nil
}

// listenForNodes takes the address that somebody chose, or the port of earlier
// starts: nodes that have enrolled know it. On the first start any free port
// will do when the usual one is taken.
func (u *up) listenForNodes(ctx context.Context, chosen string) (net.Listener, error) {
	var lc net.ListenConfig
	if chosen != "" {
		return lc.Listen(ctx, "tcp", chosen)
	}
	file := filepath.Join(u.state, "node-port")
	kept, err := os.ReadFile(file)
	switch {
	case err == nil:
		return lc.Listen(ctx, "tcp", net.JoinHostPort("", strings.TrimSpace(string(kept))))
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("read port of the node listener: %w", err)
	}
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort("", nodePort))
	if err != nil {
		if l, err = lc.Listen(ctx, "tcp", ":0"); err != nil {
			return nil, fmt.Errorf("listen for nodes: %w", err)
		}
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return nil, fmt.Errorf("read address of the node listener: %w", err)
	}
	return l, os.WriteFile(file, []byte(port+"\n"), 0o600)
}

// outwardAddress is the address that others reach this machine by: the one that
// traffic to the outside would leave from. Nothing is sent.
func outwardAddress(ctx context.Context) string {
	const nobody = "192.0.2.1:9" // reserved for documentation
	conn, err := (&net.Dialer{}).DialContext(ctx, "udp", nobody)
	if err != nil {
		return "127.0.0.1"
	}
	defer func() { _ = conn.Close() }()
	if a, ok := conn.LocalAddr().(*net.UDPAddr); ok {
		return a.IP.String()
	}
	return "127.0.0.1"
}
