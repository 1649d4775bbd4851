package maas_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
	"time"

	"gpuaas/sim/maas"
	"gpuaas/sim/maas/region"
	"gpuaas/sim/maas/simclock"
)

// client speaks to a simulator as its administrator.
type client struct {
	t      *testing.T
	region *maas.Region
	clock  *simclock.Manual
}

func start(t *testing.T, o maas.Options) *client {
	t.Helper()
	clock := simclock.NewManual(time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC))
	o.Clock = clock
	return &client{t, maas.StartTest(t, o), clock}
}

func (c *client) call(method, path string, form url.Values) answer {
	c.t.Helper()
	return send(c.t, method, c.region.URL+"/api/2.0"+path, form, signature(c.region.Token, c.clock.Now(), ""))
}

func (c *client) ok(method, path string, form url.Values) answer {
	c.t.Helper()
	a := c.call(method, path, form)
	if a.status != http.StatusOK {
		c.t.Fatalf("%s %s: %d %s", method, path, a.status, a.body)
	}
	return a
}

func (c *client) op(id, name string, form url.Values) answer {
	c.t.Helper()
	return c.ok("POST", "/machines/"+id+"/?op="+name, form)
}

func (c *client) machine(id string) region.MachineDoc {
	c.t.Helper()
	var m region.MachineDoc
	if err := json.Unmarshal([]byte(c.ok("GET", "/machines/"+id+"/", nil).body), &m); err != nil {
		c.t.Fatal(err)
	}
	return m
}

func (c *client) events(id string) []string {
	c.t.Helper()
	var page region.EventPage
	if err := json.Unmarshal([]byte(c.ok("GET", "/events/?op=query&level=INFO&limit=1000&id="+id, nil).body),
		&page); err != nil {
		c.t.Fatal(err)
	}
	var said []string
	for n := len(page.Events) - 1; n >= 0; n-- {
		line := page.Events[n].Type
		if page.Events[n].Description != "" {
			line += ": " + page.Events[n].Description
		}
		said = append(said, line)
	}
	return said
}

func (c *client) expect(id string, want region.Status) region.MachineDoc {
	c.t.Helper()
	m := c.machine(id)
	if m.Status != want {
		c.t.Fatalf("machine is %s (%v), want %s; it said %v", m.Status, m.ErrorDescription, want, c.events(id))
	}
	return m
}
