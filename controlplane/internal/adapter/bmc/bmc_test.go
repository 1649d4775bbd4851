package bmc_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gpuaas/controlplane/internal/adapter/bmc"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/sim/maas/ipmi"
	"gpuaas/testkit"
)

const (
	address  = "10.128.0.1"
	user     = "root"
	password = "canary-calvin"
)

// The test binary is also the program that ipmi_sim asks for the power of a
// server. It records the requests, because a server that was cycled is on as
// before.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "chassis" {
		err := note(os.Args[2:])
		if err == nil {
			err = ipmi.Chassis(os.Args[2:], os.Stdout)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			syscall.Exit(1)
		}
		syscall.Exit(0) // os.Exit takes a second under the race detector
	}
	os.Exit(m.Run())
}

func note(args []string) error {
	f, err := os.OpenFile(filepath.Join(args[0], "asked"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, strings.Join(args[1:], " "))
	return errors.Join(err, f.Close())
}

// server starts a server with a BMC; asked reads what its BMC did.
func server(t *testing.T, on bool) (b *bmc.IPMI, asked func() []string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	bmcs, err := ipmi.Start(t.Context(), ipmi.Options{
		Machines: []ipmi.Machine{{Address: address, User: user, Pass: password, On: on}}, Dir: dir,
		Chassis: []string{self, "chassis"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bmcs.Stop)
	return &bmc.IPMI{Find: bmcs.Endpoint}, func() []string {
		text, err := os.ReadFile(filepath.Join(dir, "chassis-0", "asked"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		var sets []string
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "set ") {
				sets = append(sets, line)
			}
		}
		return sets
	}
}

func TestAServerIsMadeToBootFromTheNetwork(t *testing.T) {
	for name, c := range map[string]struct {
		on   bool
		want []string
	}{
		"off": {false, []string{"set boot pxe", "set power 1"}},
		"on":  {true, []string{"set boot pxe", "set power 0", "set power 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			b, asked := server(t, c.on)
			if err := b.PXECycle(t.Context(), address, user, redact.New(password)); err != nil {
				t.Fatal(err)
			}
			// A cycle leaves the server off for a moment.
			testkit.Succeeds(t, "the BMC", testkit.Patience, func() error {
				if did := asked(); !slices.Equal(did, c.want) {
					return fmt.Errorf("it did %q, want %q", did, c.want)
				}
				return nil
			})
		})
	}
}

func TestFailuresAreToldApartAndTellNoSecret(t *testing.T) {
	b, asked := server(t, false)
	silent, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := silent.LocalAddr().String()
	if err := silent.Close(); err != nil { // nobody listens there now
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		bmc        *bmc.IPMI
		user, pass string
		kind       fault.Kind
		code       string
	}{
		"wrong password": {b, user, "canary-wrong", fault.Forbidden, bmc.CodeRefused},
		"unknown user":   {b, "nobody", password, fault.Forbidden, bmc.CodeRefused},
		"too long":       {b, strings.Repeat("root", 10), password, fault.Invalid, bmc.CodeRefused},
		"no way":         {b, user, password, fault.Unavailable, bmc.CodeUnreachable},
		"nobody there": {
			&bmc.IPMI{Find: func(string) string { return gone }}, user, password, fault.Unavailable,
			bmc.CodeUnreachable,
		},
	} {
		t.Run(name, func(t *testing.T) {
			at := address
			if name == "no way" {
				at = "10.128.0.99"
			}
			err := c.bmc.PXECycle(t.Context(), at, c.user, redact.New(c.pass))
			if fault.KindOf(err) != c.kind || fault.CodeOf(err) != c.code {
				t.Errorf("fails with %v, want %s %s", err, c.kind, c.code)
			}
			if f, ok := fault.As(err); ok && f.Remedy == "" {
				t.Errorf("%v says nothing about what to do", err)
			}
			if text := fmt.Sprintf("%+v", err); strings.Contains(text, "canary") {
				t.Errorf("a secret is told: %s", text)
			}
		})
	}
	if got := asked(); len(got) > 0 {
		t.Errorf("the server was touched: %q", got)
	}
}

func TestACallerWhoGivesUpIsNotKept(t *testing.T) {
	b, _ := server(t, false)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.PXECycle(ctx, address, user, redact.New(password)); !errors.Is(err, context.Canceled) {
		t.Errorf("answer is %v", err)
	}
}
