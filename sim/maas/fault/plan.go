// Package fault decides what goes wrong in a simulated region: rules that
// strike requests, the BMC, or a phase of a machine's work, by machine,
// operation, count and chance. The same seed makes the same things go wrong.
package fault

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"sync"
	"time"

	"gpuaas/sim/maas/region"
)

// Kind is a way to go wrong.
type Kind string

// What can happen to a request.
const (
	ErrorBefore Kind = "error_before" // refused, nothing was done
	ErrorAfter  Kind = "error_after"  // done, but answered with an error
	Hang        Kind = "hang"         // never answered
	LostAnswer  Kind = "lost_answer"  // done, the connection breaks before the answer
	Drop        Kind = "drop"         // the connection breaks, nothing was done
	Slow        Kind = "slow"         // answered after a delay
	Lie         Kind = "lie"          // answered with other values
	Truncate    Kind = "truncate"     // the answer ends in its middle
	Ignored     Kind = "ignored"      // answered as if it was done, nothing was done; about a machine only
)

// What can happen to a machine.
const (
	BMCFailure        Kind = "bmc_failure"
	PhaseFails        Kind = "phase_fails"
	PhaseHangs        Kind = "phase_hangs"
	PhaseDrags        Kind = "phase_drags"
	FailCommissioning Kind = "commissioning_fails"
	FailTesting       Kind = "testing_fails"
	FailDeploy        Kind = "deploy_fails"
	FailErase         Kind = "erase_fails"
	HangErase         Kind = "erase_hangs"
	Datasource        Kind = "datasource_fails"
	NoToken           Kind = "token_never"
	NoSync            Kind = "sync_never"
	StuckOff          Kind = "release_sticks"
)

var requestKinds = []Kind{ErrorBefore, ErrorAfter, Hang, LostAnswer, Drop, Slow, Lie, Truncate, Ignored}

// shorthands are kinds that name their phase.
var shorthands = map[Kind]struct {
	kind  Kind
	phase string
}{
	FailCommissioning: {PhaseFails, region.PhaseScripts}, FailTesting: {PhaseFails, region.PhaseTests},
	FailDeploy: {PhaseFails, region.PhaseInstall},
	FailErase:  {PhaseFails, region.PhaseErase}, HangErase: {PhaseHangs, region.PhaseErase},
	Datasource: {PhaseHangs, region.PhaseDatasource}, NoToken: {PhaseFails, region.PhaseToken},
	NoSync: {PhaseFails, region.PhaseSync}, StuckOff: {PhaseHangs, region.PhasePowerOff},
}

// Rule is one thing that goes wrong.
type Rule struct {
	ID int `json:"id" yaml:"-"`
	// system id, host name or BMC address; * and ? match
	Machine string `json:"machine,omitempty" yaml:"machine"`
	// machines that match the pattern and are spared
	Except []string `json:"except,omitempty" yaml:"except"`
	// for example machine.deploy or machines.get; * matches
	Operation   string         `json:"operation,omitempty" yaml:"operation"`
	Fault       Kind           `json:"fault" yaml:"fault"`
	Phase       string         `json:"phase,omitempty" yaml:"phase"`
	Power       string         `json:"power,omitempty" yaml:"power"` // on, off or query; empty: each
	Status      int            `json:"status,omitempty" yaml:"status"`
	Text        string         `json:"text,omitempty" yaml:"text"`
	ContentType string         `json:"content_type,omitempty" yaml:"content_type"`
	RetryAfter  string         `json:"retry_after,omitempty" yaml:"retry_after"`
	Delay       Duration       `json:"delay,omitempty" yaml:"delay"`
	Set         map[string]any `json:"set,omitempty" yaml:"set"`
	Skip        int            `json:"skip,omitempty" yaml:"skip"`               // how many pass first
	Count       int            `json:"count,omitempty" yaml:"count"`             // how often it strikes; 0: always
	Probability float64        `json:"probability,omitempty" yaml:"probability"` // 0: always
	Struck      int            `json:"struck" yaml:"-"`
	passed      int
}

// Check says what is wrong with a rule, and completes it.
func (r *Rule) Check() error {
	if s, ok := shorthands[r.Fault]; ok {
		r.Fault = s.kind
		if r.Phase == "" {
			r.Phase = s.phase
		}
	}
	switch r.Fault {
	case PhaseFails, PhaseHangs, PhaseDrags:
		if !slices.Contains(region.Phases, r.Phase) {
			return fmt.Errorf("fault %s: phase %q is not one of %v", r.Fault, r.Phase, region.Phases)
		}
	case BMCFailure:
	default:
		if !slices.Contains(requestKinds, r.Fault) {
			return fmt.Errorf("fault %q is not known", r.Fault)
		}
	}
	if r.Probability < 0 || r.Probability > 1 || r.Count < 0 || r.Skip < 0 {
		return errors.New("probability lies within 0 and 1, count and skip are not negative")
	}
	for _, pattern := range []string{r.Machine, r.Operation} {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("pattern %q: %w", pattern, err)
		}
	}
	return nil
}

// Plan is the set of rules in force.
type Plan struct {
	mu    sync.Mutex
	rng   *rand.Rand
	rules []*Rule
	next  int
	asked uint64
}

// NewPlan makes a plan without rules.
func NewPlan(seed uint64) *Plan {
	return &Plan{rng: rand.New(rand.NewPCG(seed, 0x6661756c74))} //nolint:gosec // a simulation must repeat itself by its seed
}

// Add puts a rule into force and returns its number.
func (p *Plan) Add(r Rule) (int, error) {
	if err := r.Check(); err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next++
	r.ID, r.Struck, r.passed = p.next, 0, 0
	p.rules = append(p.rules, &r)
	return r.ID, nil
}

// Remove ends a rule and says whether there was one.
func (p *Plan) Remove(id int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := len(p.rules)
	p.rules = slices.DeleteFunc(p.rules, func(r *Rule) bool { return r.ID == id })
	return len(p.rules) < before
}

// Clear ends all rules.
func (p *Plan) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = nil
}

// Rules returns the rules in force, with how often each has struck.
func (p *Plan) Rules() []Rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]Rule, 0, len(p.rules))
	for _, r := range p.rules {
		list = append(list, *r)
	}
	return list
}

func fits(pattern string, values ...string) bool {
	if pattern == "" {
		return true
	}
	return slices.ContainsFunc(values, func(v string) bool {
		ok, err := path.Match(pattern, v)
		return v != "" && err == nil && ok
	})
}

// strike finds the first rule that applies.
func (p *Plan) strike(m region.Ref, operation string, hits func(*Rule) bool) *Rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.rules {
		if !hits(r) || !r.meets(m) || !fits(r.Operation, operation) {
			continue
		}
		if r.passed < r.Skip {
			r.passed++
			continue
		}
		if r.Probability > 0 && p.rng.Float64() >= r.Probability {
			continue
		}
		r.Struck++
		c := *r
		return &c
	}
	return nil
}

// Phase makes a machine fail, hang or be slow.
func (p *Plan) Phase(m region.Ref, phase string) region.Fate {
	r := p.strike(m, m.Operation, func(r *Rule) bool {
		return r.Phase == phase && slices.Contains([]Kind{PhaseFails, PhaseHangs, PhaseDrags}, r.Fault)
	})
	if r == nil {
		return region.Fate{}
	}
	return region.Fate{
		Fail: r.Fault == PhaseFails, Hang: r.Fault == PhaseHangs, Text: r.Text,
		Delay: time.Duration(r.Delay),
	}
}

// Power makes a BMC fail.
func (p *Plan) Power(m region.Ref, action string) error {
	r := p.strike(m, m.Operation, func(r *Rule) bool {
		return r.Fault == BMCFailure &&
			(r.Power == "" || r.Power == action)
	})
	if r == nil {
		return nil
	}
	text := r.Text
	if text == "" {
		text = "Connection timed out while performing power action"
	}
	if r.Status != 0 {
		return &region.RefusalError{Status: r.Status, Text: text}
	}
	return errors.New(text)
}

// Requests returns how many requests there were.
func (p *Plan) Requests() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// Request says what happens to a request.
func (p *Plan) Request(m region.Ref, operation string) Action {
	p.mu.Lock()
	p.asked++
	p.mu.Unlock()
	r := p.strike(m, operation, func(r *Rule) bool { return slices.Contains(requestKinds, r.Fault) })
	if r == nil {
		return Action{}
	}
	a := Action{
		Kind: r.Fault, Delay: time.Duration(r.Delay), Status: r.Status, Body: r.Text, ContentType: r.ContentType,
		RetryAfter: r.RetryAfter, set: r.Set, machine: m.SystemID,
	}
	if a.Status == 0 {
		a.Status = 500
	}
	if a.Body == "" {
		a.Body = "Simulated failure"
	}
	if a.ContentType == "" {
		a.ContentType = "text/plain; charset=utf-8"
	}
	return a
}
