package definition

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"gpuaas/contract/agentwire"
)

// Bounds of a definition.
const (
	maxSteps    = agentwire.MaxOperationSteps
	maxDuration = 24 * 60 * 60
	maxTimeout  = agentwire.MaxStepTimeout
	maxAttempts = agentwire.MaxStepAttempt
	maxBackoff  = agentwire.MaxBackoff
)

var (
	factForm   = regexp.MustCompile(`^[a-z][a-z0-9_]{0,40}(?:\.[a-z][a-z0-9_]{0,40}){0,4}$`)
	repository = regexp.MustCompile(`^[a-z0-9.-]+(?::[0-9]{1,5})?(?:/[a-z0-9._/-]+)?$`)
)

// approvers are the roles that an approval may ask for.
var approvers = []string{NoApproval, "project_admin", "tenant_admin", "operator", "platform_admin"}

// Lint checks a definition as a whole and names the place of every problem.
func Lint(d Definition) Problems {
	var p Problems
	lintNames(d, &p)
	root := lintSchema(d.Inputs, &p)
	lintSafety(d, &p)
	lintRequires(d, &p)
	lintCommands(d, &p)
	lintSteps(d, root, &p)
	return p
}

func lintNames(d Definition, p *Problems) {
	if !typeForm.MatchString(d.Type) {
		p.add("type", "must be two to five lower-case words with dots between them, such as node.health.check")
	}
	if !versionForm.MatchString(d.Version) {
		p.add("version", "must be v and a number, such as v1")
	}
	lintText(p, "title", d.Title, 120, true)
	lintText(p, "description", d.Description, 4000, false)
	lintText(p, "risk_text", d.RiskText, 500, true)
	lintWord(p, "backend", d.Backend, []Backend{NodeAgent, K8sAdapter, SlurmAdapter, RayAdapter})
	lintWord(p, "risk", d.Risk, []Risk{Low, Medium, High})
	lintWord(p, "approval", d.Approval, approvers)
	if d.MaxDurationSeconds < 1 || d.MaxDurationSeconds > maxDuration {
		p.add("max_duration_seconds", "must be between 1 and %d", maxDuration)
	}
}

func lintText(p *Problems, at, text string, most int, must bool) {
	switch {
	case must && strings.TrimSpace(text) == "":
		p.add(at, "must be there, in words for people")
	case len(text) > most:
		p.add(at, "must have %d bytes at most", most)
	case strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' }):
		p.add(at, "must not hold control characters")
	}
}

func lintWord[W ~string](p *Problems, at string, word W, words []W) {
	if !slices.Contains(words, word) {
		all := make([]string, len(words))
		for i, w := range words {
			all[i] = string(w)
		}
		p.add(at, "must be one of %s", strings.Join(all, ", "))
	}
}

func lintSafety(d Definition, p *Problems) {
	lintWord(p, "safety.rented", d.Safety.Rented, []Rented{RentedNone, RentedProject, RentedAny})
	if len(d.Targets) == 0 {
		p.add("targets", "must name what it can be run on: node, allocation or group")
	}
	for i, t := range d.Targets {
		lintWord(p, "targets."+strconv.Itoa(i), t, []TargetKind{TargetNode, TargetAllocation, TargetGroup})
		if slices.Contains(d.Targets[:i], t) {
			p.add("targets."+strconv.Itoa(i), "%s is there twice", t)
		}
	}
	rented := d.Safety.Rented != RentedNone
	switch {
	case d.Safety.IdleOnly && rented:
		p.add("safety.rented", "must be none where idle_only is true: whoever rents a node has it in use")
	case d.Safety.AfterDrain && rented:
		p.add("safety.rented", "must be none where after_drain is true: a node is drained when nobody has it")
	case slices.Contains(d.Targets, TargetAllocation) && !rented:
		p.add("safety.rented", "must be project or any: an allocation is a target, and its node is rented")
	case d.Safety.Rented == RentedAny && d.Impact() > Read:
		p.add("safety.rented", "any is only for what changes nothing; %s does", d.mutator())
	}
	if d.Artifacts == nil {
		return
	}
	if id := d.unsignable(); d.Artifacts.SignatureRequired && id != "" {
		p.add("artifacts.signature_required", "the step %s fetches a file, and a file has no signature", id)
	}
	if len(d.Artifacts.Repositories) == 0 || len(d.Artifacts.Repositories) > 64 {
		p.add("artifacts.repositories", "must name 1 to 64 prefixes that artifacts may come from")
	}
	for i, r := range d.Artifacts.Repositories {
		if len(r) > 200 || !repository.MatchString(r) {
			p.add("artifacts.repositories."+strconv.Itoa(i), "must be a host and a path, such as registry.example/team")
		}
	}
}

// mutator is the first step that changes its node.
func (d Definition) mutator() string {
	for _, s := range d.Steps {
		if impactOf(s.Kind) > Read {
			return "the step " + s.ID
		}
	}
	return "a step"
}

// lintCommands checks the profiles of commands. A profile is fixed: nothing in it is
// filled in.
func lintCommands(d Definition, p *Problems) {
	seen := map[string]bool{}
	for i, c := range d.Commands {
		at := "commands." + strconv.Itoa(i)
		var found agentwire.StepProblems
		c.Validate(at, &found)
		for _, f := range found {
			p.add(f.Path, "%s", f.Message)
		}
		if raw, err := json.Marshal(c); err != nil || strings.Contains(string(raw), "${") {
			p.add(at, "must not hold references: only the arguments that it declares are filled in")
		}
		if seen[c.ID] {
			p.add(at+".id", "there is another command %q", c.ID)
		}
		seen[c.ID] = true
		if !slices.ContainsFunc(d.Steps, func(s Step) bool { return s.uses(c.ID) }) {
			p.add(at, "no step uses the command %q", c.ID)
		}
	}
}

func lintRequires(d Definition, p *Problems) {
	for _, name := range sortedNames(d.Requires) {
		at := "requires." + name
		if !factForm.MatchString(name) {
			p.add(at, "is no name of a fact, such as gpu.vendor")
		}
		if n := len(d.Requires[name]); n == 0 || n > 64 {
			p.add(at, "must be a value, or a list of 1 to 64")
		}
		for _, v := range d.Requires[name] {
			lintText(p, at, v, 200, true)
		}
	}
}

func lintSteps(d Definition, root *node, p *Problems) {
	if len(d.Steps) == 0 || len(d.Steps) > maxSteps {
		p.add("steps", "there must be between 1 and %d steps", maxSteps)
	}
	l := stepLint{d: d, root: root, problems: p, before: map[string]agentwire.StepKind{}, used: map[string]bool{}}
	for i, s := range d.Steps {
		l.step("steps."+strconv.Itoa(i), s)
	}
	if root == nil {
		return
	}
	for _, name := range sortedNames(root.Properties) {
		if !l.used[name] {
			p.add("inputs.properties."+name, "no step refers to this input")
		}
	}
}

// stepLint is where the lint of steps has come to.
type stepLint struct {
	d        Definition
	root     *node
	problems *Problems
	before   map[string]agentwire.StepKind // kinds of the steps before, by id
	used     map[string]bool               // inputs that something refers to
}

func (l *stepLint) step(at string, s Step) {
	p := l.problems
	if !agentwire.ValidStepID(s.ID) {
		p.add(at+".id", "must be %s", agentwire.StepIDForm)
	}
	if _, twice := l.before[s.ID]; twice {
		p.add(at+".id", "there is another step %q", s.ID)
	}
	lintText(p, at+".title", s.Title, 200, false)
	lintWord(p, at+".on_failure", s.OnFailure, []OnFailure{Stop, Continue})
	if s.TimeoutSeconds < 1 || s.TimeoutSeconds > maxTimeout {
		p.add(at+".timeout_seconds", "must be between 1 and %d", maxTimeout)
	} else if s.TimeoutSeconds > l.d.MaxDurationSeconds {
		p.add(at+".timeout_seconds", "must not be above max_duration_seconds, %d", l.d.MaxDurationSeconds)
	}
	l.retry(at+".retry", s.Retry)
	kind, known := agentwire.LookupStep(s.Kind)
	l.before[s.ID] = kind
	if !known {
		p.add(at+".kind", "there is no kind of step %q; there are %s", s.Kind, strings.Join(kindNames(), ", "))
		return
	}
	with, err := l.d.expanded(s)
	if err != nil {
		p.add(at+".with", "%v", err)
		return
	}
	_, placed, err := kind.Decode(with)
	var wrong agentwire.StepProblems
	if errors.As(err, &wrong) {
		for _, found := range wrong {
			p.add(below(at+".with", found.Path), "%s", found.Message)
		}
	} else if err != nil {
		p.add(at+".with", "%v", err)
	}
	delete(l.before, s.ID) // a step does not refer to itself
	for _, r := range placed {
		if kind.MayFetch() && agentwire.DecidesFetch(r.Path) && r.Root != agentwire.RootInputs {
			p.add(below(at+".with", r.Path), "%s: what is fetched must be known before the run, so that policies can decide: "+
				"only inputs may stand here", r.Reference)
		}
		l.reference(below(at+".with", r.Path), r)
	}
	l.before[s.ID] = kind
}

func (l *stepLint) retry(at string, r *Retry) {
	if r == nil {
		return
	}
	if r.Attempts < 1 || r.Attempts > maxAttempts {
		l.problems.add(at+".attempts", "must be between 1 and %d", maxAttempts)
	}
	if r.BackoffSeconds < 0 || r.BackoffSeconds > maxBackoff {
		l.problems.add(at+".backoff_seconds", "must be between 0 and %d", maxBackoff)
	}
	for i, class := range r.Classes {
		if class != transient {
			l.problems.add(at+".classes."+strconv.Itoa(i), "must be transient: nothing else may be repeated without looking")
		}
	}
}

// reference checks that what a reference names exists, has a value, and is of the
// type that its place wants.
func (l *stepLint) reference(at string, r agentwire.Placed) {
	switch r.Root {
	case agentwire.RootInputs:
		l.input(at, r)
	case agentwire.RootTarget:
		l.target(at, r)
	default:
		l.result(at, r)
	}
}

func (l *stepLint) input(at string, r agentwire.Placed) {
	l.used[r.Reference.Path[0]] = true
	if l.root == nil {
		return
	}
	schema, sure := l.root.at(r.Reference.Path)
	switch {
	case schema == nil:
		l.problems.add(at, "%s refers to an input that the schema does not have", r.Reference)
		return
	case !sure && r.Default == nil:
		l.problems.add(at, "%s may have no value: make it required, or give the reference a default as in ${inputs.port|8080}", r.Reference)
	}
	l.fits(at, r, schema.kindOf())
	if r.Default != nil {
		l.fits(at, r, kindOfJSON(r.Default))
	}
}

func (l *stepLint) target(at string, r agentwire.Placed) {
	fact := ""
	if r.Reference.Path[0] == "facts" {
		fact = strings.Join(r.Reference.Path[1:], ".")
	}
	allocated := len(l.d.Targets) == 1 && l.d.Targets[0] == TargetAllocation
	name := r.Reference.Path[0]
	switch {
	case fact != "":
		if _, required := l.d.Requires[fact]; !required && r.Default == nil {
			l.problems.add(at, "%s: a node may not report this fact; name it in requires, or give the reference a default", r.Reference)
		}
	case len(r.Reference.Path) != 1 || !slices.Contains(targetNames, name):
		l.problems.add(at, "%s refers to nothing; there are target.facts.NAME and target.%s", r.Reference,
			strings.Join(targetNames, ", target."))
		return
	case (name == "allocation_id" || name == "project_id") && !allocated && r.Default == nil:
		l.problems.add(at, "%s has a value only where allocations are the only targets: give the reference a default", r.Reference)
	}
	l.fits(at, r, "string")
	if r.Default != nil {
		l.fits(at, r, kindOfJSON(r.Default))
	}
}

func (l *stepLint) result(at string, r agentwire.Placed) {
	kind, known := l.before[r.Reference.Path[0]]
	if !known {
		l.problems.add(at, "%s refers to a step that does not come before this one", r.Reference)
		return
	}
	if kind.Kind == "" {
		return // its kind is unknown, which was said
	}
	gives, known := kind.OutputField(r.Reference.Path[1:])
	if !known {
		l.problems.add(at, "%s: a step of the kind %s gives no such result", r.Reference, kind.Kind)
		return
	}
	if (gives == "secret") != (r.Wants == "secret") {
		l.problems.add(at, "%s: a secret goes only into a field that is made for secrets, and such a field takes nothing else: "+
			"it must not travel as an argument or a text", r.Reference)
		return
	}
	l.fits(at, r, gives)
}

// fits checks that a value of a type may stand where the reference stands. What is
// not known is checked when the run is made.
func (l *stepLint) fits(at string, r agentwire.Placed, gives string) {
	if r.Wants == "secret" && gives != "secret" {
		l.problems.add(at, "%s: a secret comes from a step of the kind credential.mint, never from here", r.Reference)
		return
	}
	if gives != "" && gives != "any" && r.Wants != "any" && r.Wants != "" && gives != r.Wants {
		l.problems.add(at, "%s is of the type %s, and %s is wanted here", r.Reference, gives, r.Wants)
	}
}

func kindOfJSON(raw json.RawMessage) string {
	switch {
	case len(raw) == 0 || raw[0] == 'n':
		return ""
	case raw[0] == '"':
		return "string"
	case raw[0] == 't', raw[0] == 'f':
		return "boolean"
	default:
		return "integer"
	}
}
