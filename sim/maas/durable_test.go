package maas_test

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gpuaas/sim/maas"
	"gpuaas/sim/maas/region"
	"gpuaas/sim/maas/simclock"
)

func TestARegionOutlivesItsProcess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	begin := func() *client {
		clock := simclock.NewManual(time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC))
		r, err := maas.Start(maas.Options{Clock: clock, Seed: 3, Fleet: gpus(3, "ready"), State: file})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
		return &client{t, r, clock}
	}
	c := begin()
	ids, token := c.region.SystemIDs(), c.region.Token
	c.ok("POST", "/maas/?op=set_config", url.Values{"name": {"upstream_dns"}, "value": {""}})
	c.ok("POST", "/maas/?op=set_config", url.Values{"name": {"hardware_sync_interval"}, "value": {"5m"}})
	c.op(ids[0], "deploy", url.Values{"enable_hw_sync": {"true"}})
	c.clock.Advance(time.Minute)
	address := c.expect(ids[0], region.Deployed).IPAddresses[0]
	c.op(ids[1], "deploy", nil)
	c.clock.Advance(0)
	if err := c.region.Close(); err != nil {
		t.Fatal(err)
	}
	c = begin()
	if c.region.Token != token || strings.Join(c.region.SystemIDs(), " ") != strings.Join(ids, " ") {
		t.Fatal("another region came back")
	}
	m := c.expect(ids[0], region.Deployed)
	if m.IPAddresses[0] != address || *m.SyncInterval != 300 {
		t.Errorf("came back as %+v", m)
	}
	c.clock.Advance(time.Minute)
	if other := c.expect(ids[1], region.Deployed); other.IPAddresses[0] == address {
		t.Error("two machines have one address")
	}
	if a := c.ok("GET", "/machines/"+ids[0]+"/?op=get_token", nil); a.body == "null" {
		t.Error("the machine lost its token")
	}
}

func TestABadStateFileIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(file, []byte("not a state"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := maas.Start(maas.Options{State: file}); err == nil || !strings.Contains(err.Error(), "read state file") {
		t.Errorf("got %v", err)
	}
}

func TestTheStateFileIsWrittenWhileItRuns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	c := start(t, maas.Options{State: file, Fleet: gpus(1, "ready")})
	written := func() bool { _, err := os.Stat(file); return err == nil }
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !written() {
		<-tick.C
		c.clock.Advance(time.Second)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v %v", info.Mode(), err)
	}
}

func TestACarefulRegionKeepsWhatManyWereToldAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	c := start(t, maas.Options{State: file, Careful: true, SaveEvery: time.Hour, Fleet: gpus(20, "ready")})
	ids := c.region.SystemIDs()
	var told sync.WaitGroup
	for _, id := range ids {
		told.Go(func() { c.op(id, "deploy", nil) })
	}
	told.Wait()
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(copied, kept, 0o600); err != nil {
		t.Fatal(err)
	}
	after := start(t, maas.Options{State: copied, Fleet: gpus(20, "ready")})
	for _, id := range ids {
		after.expect(id, region.Deploying)
	}
}
