package bmc_test

import (
	"net"
	"slices"
	"sync"
	"testing"

	"gpuaas/controlplane/internal/adapter/bmc"
	"gpuaas/controlplane/internal/base/redact"
)

// The algorithms that an Open Session Request proposes for authentication, as
// IPMI 2.0 numbers them: those of cipher suites 3 and 17.
const sha1, sha256 = 1, 3

// overheard relays datagrams to a BMC, and notes what is proposed to it.
func overheard(t *testing.T, to string) (at string, proposed func() []byte) {
	t.Helper()
	front, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	back, err := (&net.Dialer{}).DialContext(t.Context(), "udp4", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = front.Close(), back.Close() })
	var mu sync.Mutex
	var seen []byte
	var caller net.Addr
	go func() {
		for b := make([]byte, 2048); ; {
			n, from, err := front.ReadFrom(b)
			if err != nil {
				return
			}
			mu.Lock()
			caller = from
			if n > 28 && b[5] == 0x10 { // an Open Session Request
				seen = append(seen, b[28])
			}
			mu.Unlock()
			_, _ = back.Write(b[:n])
		}
	}()
	go func() {
		for b := make([]byte, 2048); ; {
			n, err := back.Read(b)
			if err != nil {
				return
			}
			mu.Lock()
			to := caller
			mu.Unlock()
			_, _ = front.WriteTo(b[:n], to)
		}
	}()
	return front.LocalAddr().String(), func() []byte {
		mu.Lock()
		defer mu.Unlock()
		return slices.Compact(slices.Clone(seen))
	}
}

// The stronger suite is proposed first, and a BMC that does not have it is
// reached by the other.
func TestCipherSuitesAreNegotiated(t *testing.T) {
	b, asked := server(t, false)
	at, proposed := overheard(t, b.Find(address))
	through := &bmc.IPMI{Find: func(string) string { return at }}
	if err := through.PXECycle(t.Context(), address, user, redact.New(password)); err != nil {
		t.Fatal(err)
	}
	if got := proposed(); !slices.Equal(got, []byte{sha256, sha1}) {
		t.Errorf("proposed %v, want SHA-256, then SHA-1", got)
	}
	if did := asked(); !slices.Contains(did, "set boot pxe") {
		t.Errorf("it did %q", did)
	}
}
