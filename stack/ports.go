package stack

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
)

const loopback = "127.0.0.1"

// portBook chooses the ports of the engines and remembers them.
type portBook struct {
	record        *record
	avoidDefaults bool // throwaway stacks leave them to the real one

	mu   sync.Mutex
	held []net.Listener
}

// take chooses the default port if it is free, otherwise the one of the last
// run, otherwise any.
func (b *portBook) take(name string, usual int) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	candidates := []int{b.record.port(name)}
	if !b.avoidDefaults {
		candidates = []int{usual, b.record.port(name)}
	}
	for _, port := range candidates {
		if port != 0 && b.reserve(port) {
			return port, b.record.setPort(name, port)
		}
	}
	low, high := unassigned()
	for range 200 {
		if port := low + rand.IntN(high-low); b.reserve(port) { //nolint:gosec // a port is no secret
			return port, b.record.setPort(name, port)
		}
	}
	return 0, fmt.Errorf("find a free port for %s: 200 ports between %d and %d on %s are taken", name, low, high, loopback)
}

// reserve reserves a port against other launchers and checks that nobody
// listens on it. It uses an abstract socket, which vanishes with this process
// and, like a port, belongs to the network namespace.
func (b *portBook) reserve(port int) bool {
	name := &net.UnixAddr{Net: "unix", Name: "@gpuaas-port-" + strconv.Itoa(port)}
	hold, err := net.ListenUnix("unix", name)
	if err != nil {
		return false
	}
	if !free(port) {
		_ = hold.Close()
		return false
	}
	b.held = append(b.held, hold)
	return true
}

// free says whether nobody listens on a port. No process is started meanwhile:
// a child has a copy of the listener until it executes its program, and would
// keep the port busy for the engine that gets it.
func free(port int) bool {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	probe, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		return false
	}
	_ = probe.Close()
	return true
}

func (b *portBook) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, hold := range b.held {
		_ = hold.Close()
	}
	b.held = nil
}

// unassigned is the range below the one from which the kernel gives ports to
// outgoing connections. A port from that upper range could be taken while its
// engine is down for a moment, even by a client that tries to reconnect to it.
func unassigned() (low, high int) {
	low, high = 16000, 32768
	b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return low, high
	}
	var first int
	if _, err := fmt.Sscan(string(b), &first); err == nil && first > 4096 {
		low, high = first/2, first
	}
	return low, high
}

func hostPort(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }

// listening succeeds if somebody accepts connections there.
func listening(ctx context.Context, address string) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return c.Close()
}
