package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oapi-codegen/runtime/types"

	"gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/region"
)

// run is a case that is being tried.
type run struct {
	Case
	world  *World
	number int
	rng    *rand.Rand
	wish   wish

	hostname, bmc string
	site, profile types.UUID
	tokenKey      string
	job, node     types.UUID
	doing         Family     // the family of the job
	skuID         string     // the SKU of the machine
	guest         string     // the account of the tenant on the node
	brought       types.UUID // the job that made the node of a decommission
	rental        rental     // of a run about an allocation
	// The machine and its PXE interface before they were disturbed.
	laidOut, linked string

	before, after action
	elsewhere     map[string]action // what happens when other stages begin
	mend          func(ctx context.Context) error
	reached       chan struct{} // Takeover: closed when the stage is about to act
	letGo         chan struct{} // Takeover: closed when it may act

	mu        sync.Mutex
	epoch     int64
	met       map[string]int
	mended    bool
	rules     []int        // rules that are or were in force
	struck    map[int]bool // rules that have struck
	gone      int          // deployments of machines that MAAS has forgotten
	mark      int          // newest event at the last action of an operator; 0: none since
	unchanged string       // what must not change meanwhile
	actions   int
	// distrusted says that an operator has quarantined the node.
	distrusted bool
	problems   []string // what went wrong with the case itself
	broken     []string // rules that did not hold
}

func (w *World) newRun(seed uint64, number int, c Case) *run {
	h := fnv.New64a()
	_, _ = h.Write([]byte(c.Name())) // a hash takes everything
	r := &run{
		Case: c, world: w, number: number, skuID: sku, rng: rand.New(rand.NewPCG(seed, h.Sum64())), //nolint:gosec // a simulation must repeat itself by its seed
		elsewhere: map[string]action{}, met: map[string]int{}, struck: map[int]bool{},
		mend: func(context.Context) error { return nil },
	}
	if c.wish != nil {
		c.wish(&r.wish)
	}
	r.hostname, r.bmc = w.machine(r.wish.unknown)
	return r
}

func (r *run) coin() bool { return r.rng.IntN(2) == 0 }

// trouble records that the case could not be carried out as intended.
func (r *run) trouble(err error) {
	if err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problems = append(r.problems, err.Error())
}

func (r *run) violate(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = append(r.broken, fmt.Sprintf(format, args...))
}

func (r *run) isMended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mended
}

// until makes the stage fail each time until an operator has fixed it.
func (r *run) until(mishap string) {
	r.before = func(context.Context, int) string {
		if r.isMended() {
			return mishapNone
		}
		return mishap
	}
}

// first does something when the stage begins for the first time.
func (r *run) first(do func(ctx context.Context) error) {
	r.before = func(ctx context.Context, n int) string {
		if n == 1 {
			r.trouble(do(ctx))
		}
		return mishapNone
	}
}

// at does something when another stage begins for the first time.
func (r *run) at(stage string, do func(ctx context.Context) error) {
	r.elsewhere[stage] = func(ctx context.Context, n int) string {
		if n == 1 {
			r.trouble(do(ctx))
		}
		return mishapNone
	}
}

// takeOver holds the stage just before it acts, until an operator has taken the
// job away from it. Then the stage goes on and must have no effect.
func (r *run) takeOver() {
	r.reached, r.letGo = make(chan struct{}), make(chan struct{})
	r.before = func(_ context.Context, n int) string {
		if n == 1 {
			close(r.reached)
			<-r.letGo // ignores the context: it acts as a worker that was cut off
		}
		return mishapNone
	}
}

// rule makes requests about the machine, or phases of its work, go wrong.
func (r *run) rule(rule fault.Rule) error {
	rule.Machine = r.hostname
	if r.wish.unknown {
		rule.Machine = r.bmc
	}
	return r.ruleOfAll(rule)
}

// ruleOfAll makes requests go wrong that are about no machine.
func (r *run) ruleOfAll(rule fault.Rule) error {
	id, err := r.world.Lab.Faults.Add(rule)
	if err != nil {
		return fmt.Errorf("add fault: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rules = append(r.rules, id)
	return nil
}

// lift ends the rules, and records which ones have struck.
func (r *run) lift() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rule := range r.world.Lab.Faults.Rules() {
		for _, id := range r.rules {
			if rule.ID == id && rule.Struck > 0 {
				r.struck[id] = true
			}
		}
	}
	for _, id := range r.rules {
		r.world.Lab.Faults.Remove(id)
	}
}

// unstruckNow counts rules that have not struck yet.
func (r *run) unstruckNow() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, rule := range r.world.Lab.Faults.Rules() {
		if slices.Contains(r.rules, rule.ID) && rule.Struck == 0 {
			n++
		}
	}
	return n
}

// unstruck counts rules that never struck: with them the case proves nothing.
func (r *run) unstruck() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.rules) - len(r.struck)
}

var errUnknown = errors.New("MAAS does not know the machine")

// id returns the present system id of the machine.
func (r *run) id() (string, error) {
	for _, b := range r.world.Lab.Overview() {
		if b.Hostname == r.hostname || b.BMC == r.bmc {
			return b.SystemID, nil
		}
	}
	return "", fmt.Errorf("find %s: %w", r.hostname, errUnknown)
}

func (r *run) status() string {
	id, err := r.id()
	if err != nil {
		return "absent"
	}
	b, _ := r.world.Lab.Brief(id)
	return b.Status
}

// becomes waits until MAAS shows the machine in one of these statuses.
func (r *run) becomes(ctx context.Context, statuses ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		now := r.status()
		for _, s := range statuses {
			if now == s {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait until %s is %s: it is %s", r.hostname, strings.Join(statuses, " or "), now)
		}
	}
}

// happen acts as somebody else who does something to the machine.
func (r *run) happen(what string) error {
	if what == "delete" || what == "recreate" {
		r.gone += r.deployments()
	}
	id, err := r.id()
	if err != nil {
		return err
	}
	return r.world.Lab.Happen(id, what)
}

// free acts as an operator who releases a machine that somebody else had taken.
func (r *run) free(ctx context.Context) error {
	id, err := r.id()
	if err != nil {
		return err
	}
	if r.status() == "Ready" || r.status() == "New" {
		return nil
	}
	if err := r.becomes(ctx, "Deployed", "Allocated", "Failed deployment"); err != nil {
		return err
	}
	if _, err := r.world.Lab.Release(ctx, admin, id, url.Values{"comment": {"given back by an operator"}}); err != nil {
		return fmt.Errorf("release %s: %w", r.hostname, err)
	}
	return r.becomes(ctx, "Ready", "New")
}

// document returns the machine as MAAS would answer, with changes.
func (r *run) document(change map[string]any) (string, error) {
	id, err := r.id()
	if err != nil {
		return "", err
	}
	doc, err := r.world.Lab.Machine(admin, id)
	if err != nil {
		return "", fmt.Errorf("read machine: %w", err)
	}
	return changed(doc, change)
}

func changed(doc any, change map[string]any) (string, error) {
	text, err := json.Marshal(doc)
	if err != nil {
		return "", fmt.Errorf("write document: %w", err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return "", fmt.Errorf("read document: %w", err)
	}
	for k, v := range change {
		fields[k] = v
	}
	if text, err = json.Marshal(fields); err != nil {
		return "", fmt.Errorf("write document: %w", err)
	}
	return string(text), nil
}

// events returns MAAS's events of the machine, the newest first.
func (r *run) events() []region.EventDoc {
	id, err := r.id()
	if err != nil {
		return nil
	}
	page, err := r.world.Lab.Events(admin, url.Values{"id": {id}, "level": {"DEBUG"}, "limit": {"1000"}})
	if err != nil {
		r.trouble(err)
		return nil
	}
	return page.Events
}

const deployRequest = "User starting deployment"

// deployments counts the deployments that MAAS accepted from this job for the
// machine under its present id.
func (r *run) deployments() int {
	n := 0
	for _, e := range r.events() {
		if e.Type == deployRequest && strings.Contains(e.Description, r.job.String()) {
			n++
		}
	}
	return n
}
