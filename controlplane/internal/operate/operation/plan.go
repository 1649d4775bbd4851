package operation

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/operate/definition"
	"gpuaas/controlplane/internal/operate/policy"
)

// place is a node that a run may be about, as it is known at the moment.
type place struct {
	Node        id.Node
	Hostname    string
	Status      node.Status
	Schedulable bool
	HoldReason  string
	HeldBy      string
	Facts       map[string]string
	StepKinds   []string
	Allocation  id.Allocation // that claims it; zero: nobody has it
	Project     id.Project    // of that
	Group       id.AllocationGroup
	TenantBy    string // who asked for that
	InUse       bool   // that is active, and its release was not asked for
	TenantRoot  bool   // that was rented with root access
	// UserAccessOnly says that its kind of machine is rented without root access.
	UserAccessOnly bool
}

// Plan is what a request would do.
type Plan struct {
	Version  definition.Version
	Inputs   json.RawMessage
	Policy   policy.Effective
	Verdict  policy.Verdict // of the policy document; zero: none counts
	Kind     definition.TargetKind
	Targets  []PlannedTarget
	Limits   FixedLimits
	Narrowed []string // how the policy narrows the request, as sentences
	AsRoot   bool     // a project has nodes changed as root
	Hash     string   // empty: nothing would be done on any node
}

// PlannedTarget is a node that a request means.
type PlannedTarget struct {
	Node       id.Node
	Hostname   string
	Allocation id.Allocation
	// Troubles say why nothing would be done there; none: it would.
	Troubles []Trouble
	// Steps is the digest of what the node would be told: inputs and facts of the node
	// are filled in there.
	Steps string
}

// fits reports whether work would be done on a target.
func (t PlannedTarget) fits() bool { return len(t.Troubles) == 0 }

// fitting counts the targets on which work would be done.
func (p Plan) fitting() (n int) {
	for _, t := range p.Targets {
		if t.fits() {
			n++
		}
	}
	return n
}

// Says tells a plan in sentences.
func (p Plan) Says() []string {
	n := p.fitting()
	says := []string{fmt.Sprintf("%s: %s on %d of %s", p.Version.Ref(), several(len(p.Version.Steps), "step"), n,
		several(len(p.Targets), "node"))}
	if p.Limits.Ramp && n > 1 {
		says = append(says, fmt.Sprintf("1, 2, 4 … nodes at a time, at most %d", p.Limits.MaxConcurrency))
	} else {
		says = append(says, fmt.Sprintf("at most %s at a time", several(p.Limits.MaxConcurrency, "node")))
	}
	pauses := "it pauses when a node has failed"
	if p.Limits.MaxFailures > 0 {
		pauses = fmt.Sprintf("it pauses when more than %s failed", several(p.Limits.MaxFailures, "node"))
	}
	says = append(says, pauses, fmt.Sprintf("a node has %s for all steps", p.Limits.Timeout))
	if role := p.Version.Approval; role != definition.NoApproval {
		says = append(says, fmt.Sprintf("somebody else with the role %s must approve it", role))
	}
	if p.AsRoot && n > 0 {
		says = append(says, "these nodes are reinstalled when they are released, because the run changes them as root; "+
			"one that was added by hand is held back until an operator has reinstalled it")
	}
	if p.Verdict.Document != "" {
		says = append(says, fmt.Sprintf("policy document %s of the platform has nothing against it", p.Verdict.Document))
	}
	return append(says, p.Narrowed...)
}

// unfit says why a definition cannot, or must not, be carried out on a node.
func (p place) unfit(d definition.Definition, owner Owner) []Trouble {
	var out []Trouble
	add := func(code, class, remedy, format string, args ...any) {
		out = append(out, Trouble{Code: code, Class: class, Message: fmt.Sprintf(format, args...), Remedy: remedy})
	}
	if !p.Status.Is(node.Steady) {
		add("node_not_in_service", agentwire.FailureTransient, "choose another node, or wait until it is in service",
			"the node is %s", p.Status)
	}
	if p.HeldBy != "" {
		add("node_held", agentwire.FailureTransient, "wait until that has ended", "%s has the node", p.HeldBy)
	}
	for _, why := range lacking(d, p.StepKinds) {
		add("agent_lacks_step_kind", agentwire.FailureCapability, "update the agent of the node", "%s", why)
	}
	for _, lack := range d.Fits(p.Facts) {
		add("node_lacks_capability", agentwire.FailureCapability, "choose a node that has it", "%s", lack)
	}
	rented := !p.Allocation.IsZero()
	switch {
	case !owner.platform() && d.Safety.Rented == definition.RentedNone:
		add("operation_not_for_tenants", agentwire.FailurePolicy, "ask an operator of the platform to run it",
			"%s is only for nodes that nobody has", d.Ref())
	case !owner.platform() && (!p.InUse || p.Project != owner.Project):
		add("allocation_ended", agentwire.FailurePolicy, "choose a node that the project has",
			"the project does not have the node any more")
	case owner.platform() && rented && (d.Safety.Rented != definition.RentedAny || d.Safety.IdleOnly):
		add("node_rented", agentwire.FailurePolicy, "wait until the tenant has left, or announce maintenance",
			"a tenant has the node")
	}
	if d.Safety.AfterDrain && p.Schedulable {
		add("node_not_drained", agentwire.FailurePolicy, "take it out of scheduling first: gpuaas node hold "+p.Hostname,
			"the node is still in scheduling")
	}
	return out
}

// lacking says which kinds of steps an agent does not know.
func lacking(d definition.Definition, known []string) []string {
	if len(known) == 0 {
		return []string{"its agent carries out no operations"}
	}
	var missing []string
	for _, s := range d.Steps {
		if !slices.Contains(known, s.Kind) && !slices.Contains(missing, s.Kind) {
			missing = append(missing, s.Kind)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return []string{"its agent cannot do " + strings.Join(missing, ", ")}
}

// target is what a definition may know of a node.
func (p place) target(owner Owner) definition.Target {
	t := definition.Target{NodeID: p.Node.String(), NodeName: p.Hostname, Facts: p.Facts}
	if !owner.platform() {
		t.AllocationID, t.ProjectID = p.Allocation.String(), owner.Project.String()
	}
	return t
}

// resumed orders the steps of a target that goes on at one of them: what is done comes
// before the first to do, and what every resume does again comes first of these. A step
// that is done is told to the node for its output only; one that uses a step which comes
// after it now would be refused there, so it is left out where nobody wants its output,
// and has other parameters of its kind where somebody does. Nobody carries it out.
func resumed(all []agentwire.OperationStep, begin int) (ordered []agentwire.OperationStep, first int) {
	var done, again []agentwire.OperationStep
	later := map[string]bool{}
	for _, s := range all[:begin] {
		if s.Repeat {
			again, later[s.ID] = append(again, s), true
		} else {
			done = append(done, s)
		}
	}
	todo := slices.Concat(again, all[begin:])
	wanted := map[string]bool{}
	for _, s := range todo {
		for _, id := range uses(s) {
			wanted[id] = true
		}
	}
	for _, s := range done {
		if slices.ContainsFunc(uses(s), func(id string) bool { return later[id] }) {
			kind, _ := agentwire.LookupStep(s.Kind)
			if !wanted[s.ID] || len(kind.Sound) == 0 {
				later[s.ID] = true // what used it is done, and is left out as well
				continue
			}
			s.With = json.RawMessage(kind.Sound[0])
		}
		ordered = append(ordered, s)
	}
	return slices.Concat(ordered, todo), len(ordered)
}

// uses are the steps that the parameters of a step refer to.
func uses(s agentwire.OperationStep) []string {
	kind, known := agentwire.LookupStep(s.Kind)
	if !known {
		return nil
	}
	_, placed, err := kind.Decode(s.With)
	if err != nil {
		return nil
	}
	var out []string
	for _, r := range placed {
		if r.Root == agentwire.RootSteps && len(r.Reference.Path) > 0 {
			out = append(out, r.Reference.Path[0])
		}
	}
	return out
}

// looked is a node of a plan, with why nothing would be done there.
func (p place) looked(d definition.Definition, inputs json.RawMessage, owner Owner) PlannedTarget {
	t := PlannedTarget{Node: p.Node, Hostname: p.Hostname, Troubles: p.unfit(d, owner)}
	if !owner.platform() {
		t.Allocation = p.Allocation
	}
	if len(t.Troubles) > 0 {
		return t
	}
	steps, err := d.Resolve(inputs, p.target(owner))
	var raw []byte
	if err == nil {
		raw, err = json.Marshal(steps)
	}
	if err != nil {
		t.Troubles = append(t.Troubles, troubleOf(err, agentwire.FailurePermanent))
		return t
	}
	t.Steps = hashOf(raw)
	return t
}

// troubleOf tells an error as trouble of a target.
func troubleOf(err error, class string) Trouble {
	t := Trouble{Code: fault.CodeOf(err), Class: class, Message: "the control plane could not go on; see the worker's log"}
	if f, ok := fault.As(err); ok {
		t.Message, t.Remedy = f.Message, f.Remedy
	}
	return t
}

// impact is what the strongest step of a definition does to its node.
func impact(d definition.Definition) agentwire.Impact {
	order := []agentwire.Impact{
		agentwire.ImpactNone, agentwire.ImpactRead, agentwire.ImpactMutate, agentwire.ImpactDisrupt,
	}
	most := 0
	for _, s := range d.Steps {
		kind, _ := agentwire.LookupStep(s.Kind)
		most = max(most, slices.Index(order, kind.Impact))
	}
	return order[most]
}

// impactOf is what a kind of step does to its node.
func impactOf(kind string) agentwire.Impact {
	k, _ := agentwire.LookupStep(kind)
	return k.Impact
}

// needs is how long the steps of a definition may take together, with all their
// attempts.
func needs(d definition.Definition) int64 {
	var seconds int64
	for _, s := range d.Steps {
		tries, backoff := 1, 0
		if s.Retry != nil {
			tries, backoff = s.Retry.Attempts, s.Retry.BackoffSeconds
		}
		seconds += int64(tries*s.TimeoutSeconds + (tries-1)*backoff)
	}
	return seconds
}

// The least and the most that a node has for all steps.
const (
	leastTimeout = 60
	mostTimeout  = 23 * 60 * 60
)

// limited are the limits of a run after the policy has narrowed them, and how it did.
func limited(l Limits, d definition.Definition, e policy.Effective, targets int) (FixedLimits, []string) {
	var says []string
	asked := int64(l.concurrency(targets))
	concurrency := e.Concurrency(asked)
	if concurrency < asked {
		says = append(says, fmt.Sprintf("the policy allows %s at a time, not %d", several(concurrency, "node"), asked))
	}
	seconds := min(max(needs(d), leastTimeout), mostTimeout)
	if d.MaxDurationSeconds > 0 {
		seconds = min(seconds, int64(d.MaxDurationSeconds))
	}
	if allowed := e.Timeout(seconds); allowed < seconds {
		says = append(says, fmt.Sprintf("the policy gives a node %s, not %s", time.Duration(allowed)*time.Second,
			time.Duration(seconds)*time.Second))
		seconds = allowed
	}
	return FixedLimits{
		MaxConcurrency: int32(concurrency), MaxFailures: l.failures(targets), Ramp: !l.NoRamp, //nolint:gosec // at most 1000
		Timeout: time.Duration(seconds) * time.Second,
	}, says
}

// within lowers limits to what a policy allows by now. They are never raised.
func (l FixedLimits) within(e policy.Effective) FixedLimits {
	l.MaxConcurrency = int32(e.Concurrency(int64(l.MaxConcurrency))) //nolint:gosec // at most what it was
	l.Timeout = time.Duration(e.Timeout(int64(l.Timeout/time.Second))) * time.Second
	return l
}

// fingerprint is the hash of everything that a plan promises. Two requests that mean
// the same, at times when the nodes are the same, have the same.
func (p Plan) fingerprint(owner Owner, onlyPlan bool) (string, error) {
	type target struct {
		Node, Allocation, Steps string
		Codes                   []string
	}
	said := struct {
		Definition, Digest, Org, Project, Kind string
		OnlyPlan                               bool
		Inputs                                 json.RawMessage
		Targets                                []target
		Concurrency, Failures, Seconds         int64
		Ramp                                   bool
	}{
		Definition: p.Version.Ref().String(), Digest: p.Version.Digest, Org: owner.Org.String(),
		Project: owner.Project.String(), Kind: string(p.Kind), OnlyPlan: onlyPlan, Inputs: p.Inputs,
		Concurrency: int64(p.Limits.MaxConcurrency), Failures: int64(p.Limits.MaxFailures),
		Seconds: int64(p.Limits.Timeout / time.Second), Ramp: p.Limits.Ramp,
	}
	for _, t := range p.Targets {
		one := target{Node: t.Node.String(), Allocation: t.Allocation.String(), Steps: t.Steps}
		for _, why := range t.Troubles {
			one.Codes = append(one.Codes, why.Code)
		}
		said.Targets = append(said.Targets, one)
	}
	raw, err := json.Marshal(said)
	if err != nil {
		return "", fmt.Errorf("encode plan: %w", err)
	}
	return hashOf(raw), nil
}

func hashOf(raw []byte) string {
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}
