// Package conformance checks a MAAS region, real or simulated, against what the
// client of package maas relies on. It needs only an address and an API key of
// an administrator. It creates its own machine, which nobody can power on,
// takes it through the statuses that need no hardware, and deletes it. Given a
// Ready machine to use, it deploys and releases that one too.
package conformance

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
)

// Config names the region.
type Config struct {
	URL     string
	Token   redact.Secret
	CA      []byte
	Machine string        // system id of a Ready machine that may be installed; empty: skip that part
	Image   string        // the image to install on it
	Timeout time.Duration // for each wait; 0: 45 minutes
}

// FromEnv reads GPUAAS_MAAS_URL and GPUAAS_MAAS_TOKEN, and GPUAAS_MAAS_CA (a
// file), GPUAAS_MAAS_MACHINE and GPUAAS_MAAS_IMAGE if they are set.
func FromEnv() (cfg Config, ok bool, err error) {
	cfg = Config{
		URL: os.Getenv("GPUAAS_MAAS_URL"), Token: redact.New(os.Getenv("GPUAAS_MAAS_TOKEN")),
		Machine: os.Getenv("GPUAAS_MAAS_MACHINE"), Image: os.Getenv("GPUAAS_MAAS_IMAGE"),
	}
	if path := os.Getenv("GPUAAS_MAAS_CA"); path != "" {
		if cfg.CA, err = os.ReadFile(path); err != nil { //nolint:gosec // the path is the operator's
			return cfg, false, fmt.Errorf("read CA of MAAS: %w", err)
		}
	}
	return cfg, cfg.URL != "" && !cfg.Token.IsZero(), nil
}

// Run runs the suite.
func Run(t *testing.T, cfg Config) {
	t.Helper()
	if cfg.Timeout == 0 {
		cfg.Timeout = 45 * time.Minute
	}
	c := open(t, cfg)
	t.Run("region", func(t *testing.T) { checkRegion(t, c) })
	t.Run("keys", func(t *testing.T) { checkKeys(t, cfg) })
	t.Run("settings", func(t *testing.T) { checkSettings(t, c) })
	t.Run("filters", func(t *testing.T) { checkFilters(t, c) })
	t.Run("events", func(t *testing.T) { checkEvents(t, c) })
	t.Run("machine", func(t *testing.T) { checkMachine(t, c) })
	if cfg.Machine != "" {
		t.Run("deployment", func(t *testing.T) { checkDeployment(t, c, cfg) })
	}
}

func open(t *testing.T, cfg Config) *maas.Client {
	t.Helper()
	c, err := maas.New(maas.Config{
		URL: cfg.URL, Token: cfg.Token, CA: cfg.CA,
		Loopback: func(netip.AddrPort) bool { return true }, // whoever runs this names the region
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// expect compares the code of a failure; an empty code means success.
func expect(t *testing.T, what string, err error, codes ...string) {
	t.Helper()
	got := ""
	if err != nil {
		got = fault.CodeOf(err)
	}
	if !slices.Contains(codes, got) {
		t.Errorf("%s: %v, want %s", what, err, strings.Join(codes, " or "))
	}
}

func checkRegion(t *testing.T, c *maas.Client) {
	ctx := t.Context()
	v, err := c.Version(ctx)
	expect(t, "version", err, "")
	if len(v.Capabilities) == 0 {
		t.Error("no capabilities")
	}
	who, err := c.WhoAmI(ctx)
	expect(t, "whoami", err, "")
	if !who.Admin {
		t.Errorf("%s is not an administrator", who.Username)
	}
	racks, err := c.RackControllers(ctx)
	expect(t, "rack controllers", err, "")
	for _, r := range racks {
		if r.SystemID == "" || len(r.Services) == 0 {
			t.Errorf("rack controller %+v", r)
		}
	}
	_, err = c.Images(ctx)
	expect(t, "images", err, "")
	_, err = c.Subnets(ctx)
	expect(t, "subnets", err, "")
	fabrics, err := c.Fabrics(ctx)
	expect(t, "fabrics", err, "")
	for _, f := range fabrics[:min(len(fabrics), 1)] {
		_, err = c.VLANs(ctx, f.ID)
		expect(t, "VLANs", err, "")
	}
	if skew, known := c.Skew(); !known || skew.Abs() > 5*time.Minute {
		t.Errorf("skew %v, known %v", skew, known)
	}
}

func checkKeys(t *testing.T, cfg Config) {
	parts := strings.Split(cfg.Token.Reveal(), ":")
	if len(parts) != 3 {
		t.Fatal("the token is not of three parts")
	}
	for i, name := range []string{"consumer", "token", "secret"} {
		wrong := slices.Clone(parts)
		wrong[i] = strings.Repeat("x", len(parts[i]))
		bad := cfg
		bad.Token = redact.New(strings.Join(wrong, ":"))
		c := open(t, bad)
		_, err := c.WhoAmI(t.Context())
		expect(t, "wrong "+name, err, maas.CodeTokenInvalid)
		_, err = c.Machines(t.Context(), maas.Filter{Hostnames: []string{"gpuaas-nobody"}})
		expect(t, "list with wrong "+name, err, maas.CodeTokenInvalid)
		if err != nil && (strings.Contains(err.Error(), parts[2]) || strings.Contains(err.Error(), parts[1])) {
			t.Errorf("the failure shows the key")
		}
		_, err = c.Version(t.Context())
		expect(t, "version needs no key", err, "", maas.CodeTokenInvalid)
	}
}

func checkSettings(t *testing.T, c *maas.Client) {
	ctx := t.Context()
	const name = "hardware_sync_interval"
	interval, err := c.Setting(ctx, name)
	expect(t, "read", err, "")
	expect(t, "write", c.SetSetting(ctx, name, interval), "")
	expect(t, "write nonsense", c.SetSetting(ctx, name, "banana"), maas.CodeFieldErrors)
	expect(t, "write unknown", c.SetSetting(ctx, "gpuaas_nope", "x"), maas.CodeFieldErrors)
	_, err = c.Setting(ctx, "gpuaas_nope")
	expect(t, "read unknown", err, maas.CodeFieldErrors)
	_, err = c.Setting(ctx, "upstream_dns")
	expect(t, "read one that may be null", err, "")
	if after, err := c.Setting(ctx, name); err != nil || after != interval {
		t.Errorf("%s = %q, %v", name, after, err)
	}
}

func checkFilters(t *testing.T, c *maas.Client) {
	ctx := t.Context()
	nobody := []string{"gpuaas-nobody"} // keeps the listings small
	for _, status := range maas.Statuses {
		list, err := c.Machines(ctx, maas.Filter{Hostnames: nobody, Status: []maas.Status{status}})
		expect(t, "status "+string(status), err, "")
		if len(list) != 0 {
			t.Errorf("%d machines named nobody", len(list))
		}
	}
	for what, f := range map[string]maas.Filter{
		"bad MAC": {MACs: []string{"zz"}}, "unknown zone": {Zones: nobody}, "unknown pool": {Pools: nobody},
		"unknown status": {Status: []maas.Status{"Ready"}},
	} {
		_, err := c.Machines(ctx, f)
		expect(t, what, err, maas.CodeFieldErrors)
	}
	list, err := c.Machines(ctx, maas.Filter{IDs: []string{"zzzzzz"}, NotStatus: []maas.Status{maas.StatusDeployed}})
	expect(t, "unknown id", err, "")
	if len(list) != 0 {
		t.Error("a machine of an unknown id")
	}
	_, err = c.Machine(ctx, "zzzzzz")
	expect(t, "read of an unknown id", err, maas.CodeNotFound)
}

func checkEvents(t *testing.T, c *maas.Client) {
	ctx := t.Context()
	newest, err := c.Events(ctx, maas.EventQuery{Level: maas.LevelDebug, Limit: 5})
	expect(t, "newest", err, "")
	if !slices.IsSortedFunc(newest, func(a, b maas.Event) int { return int(a.ID - b.ID) }) {
		t.Error("events out of order")
	}
	empty, err := c.Events(ctx, maas.EventQuery{After: 1 << 40})
	expect(t, "after the end", err, "")
	if len(empty) != 0 {
		t.Errorf("%d events after the end", len(empty))
	}
}

func scratch() (hostname, mac string) {
	b := make([]byte, 3)
	_, _ = rand.Read(b)
	return "gpuaas-conformance-" + hex.EncodeToString(b), fmt.Sprintf("52:54:00:%02x:%02x:%02x", b[0], b[1], b[2])
}

func cleanUp(t *testing.T, c *maas.Client, id string) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := c.Delete(ctx, id); err != nil && fault.KindOf(err) != fault.NotFound {
			t.Errorf("clean up: %v", err)
		}
	})
}
