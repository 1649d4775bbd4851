package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"gpuaas/contract/apiclient"
	"gpuaas/testkit"
)

// TestRentingOutlivesEverythingThatIsKilled kills processes while a tenant rents nodes,
// again while it gives them back, and again while operations run on them: worker,
// PostgreSQL, Temporal, API and agents around eight nodes; make soak kills everything
// around fifty nodes and a hundred operations. Every request reaches its end without an
// operator, none counts twice, every second is charged once, and nothing is left on any
// node.
func TestRentingOutlivesEverythingThatIsKilled(t *testing.T) {
	t.Parallel()
	n := 8
	rounds, seed := soak(t, "GPUAAS_SOAK_ROUNDS", 1), soak(t, "GPUAAS_SOAK_SEED", 0)
	if rounds > 1 {
		n = 50
	}
	w := openKillable(t, n)
	look, batch := w.brings(t)
	w.awaitAll(t, look, func() string { return w.explained(t, "onboarding", "onboarding_id", "--batch", batch) })
	victims := w.victims(t)
	creating, releasing := []victim{victims[0], victims[5]}, []victim{victims[2], victims[7]}
	operations, operating := n, []victim{victims[3], victims[0], victims[7]}
	if rounds > 1 {
		order := rand.New(rand.NewPCG(seed, 1))
		operations, operating = 2*n, slices.Clone(victims)
		creating, releasing = slices.Clone(victims), victims
		for _, all := range [][]victim{creating, releasing, operating} {
			order.Shuffle(len(all), func(a, b int) { all[a], all[b] = all[b], all[a] })
		}
	}
	w.rents(t, n, creating, releasing)
	w.operates(t, operations, operating)
}

// rents lets a tenant rent n nodes and give them back, while processes are killed.
func (w *killable) rents(t *testing.T, n int, creating, releasing []victim) {
	t.Helper()
	member := w.api.newTenant(t, "storm")
	payer := member.pays(t, w.api, "storm", "1000.00")
	made := make([]rental, n)
	for i := range made {
		strike(t, creating, i, n)
		var m struct{ Allocations []rental }
		w.insist(t, &member, member.path, map[string]any{"sku": labSKU}, fmt.Sprintf("storm-%d", i), &m)
		made[i] = m.Allocations[0]
	}
	w.all(t, &member, made, "active")
	for i, a := range made {
		strike(t, releasing, i, n)
		w.insist(t, &member, member.path+"/"+a.AllocationID+"/release", map[string]any{}, "", nil)
	}
	w.all(t, &member, made, "released")
	payer.admin, payer.tenant = w.api, member
	for i, a := range made {
		made[i] = member.get(t, a.AllocationID)
	}
	if left := payer.settled(t); left != -payer.owed(t, made...) {
		t.Errorf("%d are left, the formula says %d", left, -payer.owed(t, made...))
	}
	succeed(t, w.api.cli(t), "billing", "check", "--tenant", payer.slug)
	if rows := all[rental](t, member.plane, member.path); len(rows) != n {
		t.Errorf("%d allocations for %d requests", len(rows), n)
	}
	w.nothingLeft(t, &member)
}

// strike kills its part of the victims before the i-th of n requests.
func strike(t *testing.T, victims []victim, i, n int) {
	t.Helper()
	for k, v := range victims {
		if i == (k+1)*n/(len(victims)+1) {
			t.Logf("killing %s", v.name)
			v.kill()
		}
	}
}

// insist repeats a request until it is answered well, as a client would whose server
// is being killed.
func (w *killable) insist(t *testing.T, m *tenant, path string, body any, key string, into any) {
	t.Helper()
	testkit.Succeeds(t, "answer of "+path, 3*time.Minute, func() error {
		m.url = w.api.url // it is another one after its death
		var headers []header
		if key != "" {
			headers = append(headers, header{"Idempotency-Key", key})
		}
		a, err := m.call(t.Context(), http.MethodPost, path, body, headers...)
		if err == nil && a.status >= http.StatusMultipleChoices {
			err = fmt.Errorf("answered %s", a)
		}
		if err != nil || into == nil {
			return err
		}
		return json.Unmarshal(a.body, into)
	})
}

// all waits until all allocations have a status.
func (w *killable) all(t *testing.T, m *tenant, made []rental, status string) {
	t.Helper()
	for _, a := range made {
		testkit.Succeeds(t, "allocation to be "+status, 4*time.Minute, func() error {
			m.url = w.api.url
			answer, err := m.call(t.Context(), http.MethodGet, m.path+"/"+a.AllocationID, nil)
			var now rental
			if err == nil {
				err = readJSON(answer, &now)
			}
			if err == nil && now.Status != status {
				err = fmt.Errorf("it is %s: %s%s%s", now.Status, now.WaitingFor, now.FailureReason, now.ReleaseFailed)
			}
			return err
		})
	}
}

// ofTenant finds accounts that allocations made.
var ofTenant = regexp.MustCompile(`(?m)^.*:allocation [0-9a-f-]+:.*$`)

// nothingLeft checks that every node can be let again and holds no account.
func (w *killable) nothingLeft(t *testing.T, m *tenant) {
	t.Helper()
	testkit.Succeeds(t, "every node to be free", 3*time.Minute, func() error {
		a, err := m.call(t.Context(), http.MethodPost, m.path+"/explain", map[string]any{"sku": labSKU})
		var now apiclient.AllocationCapacity
		if err == nil {
			err = readJSON(a, &now)
		}
		if err == nil && (now.Free == 0 || now.Free != now.Nodes) {
			err = fmt.Errorf("%d of %d are: %+v", now.Free, now.Nodes, now.Filters)
		}
		return err
	})
	files, err := filepath.Glob(filepath.Join(w.state, "rack-process", "machines", "*", "root", "etc", "passwd"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d machines, %v", len(files), err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if left := ofTenant.Find(content); left != nil {
			t.Errorf("%s has the account %s", file, left)
		}
	}
}
