package certificate

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// ValidateStage is the stage that looks for what tenants left. Without it a
	// node that stays in the inventory gets a document only by an override.
	ValidateStage = "validate_clean_node"
	// RootTaint stands for a stage in the decision to accept an installation
	// that somebody had root on.
	RootTaint = "root_taint"

	modeSoftReset        = "soft_reset"
	modeReimage          = "reimage"
	modeFullDecommission = "full_decommission"
	modeRetire           = "retire"
)

var (
	digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	uuidForm   = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

	subjectKinds = []string{
		"disk", "gpu", "folder", "memory", "mounts", "accounts", "power", "agent", "secrets",
		"inventory",
	}
)

// FieldError says what is wrong with one field of a document or a file.
type FieldError struct {
	Path    string // JSON pointer; empty: the whole document
	Problem string
}

func (e *FieldError) Error() string {
	if e.Path == "" {
		return e.Problem
	}
	return e.Path + ": " + e.Problem
}

// FieldErrors holds everything that is wrong.
type FieldErrors []*FieldError

func (e FieldErrors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the single errors.
func (e FieldErrors) Unwrap() []error {
	out := make([]error, len(e))
	for i, one := range e {
		out[i] = one
	}
	return out
}

// check collects what is wrong below a place of the document.
type check struct {
	at  string
	bad *FieldErrors
}

func (c check) in(name string) check      { return check{c.at + "/" + name, c.bad} }
func (c check) nth(i int) check           { return c.in(strconv.Itoa(i)) }
func (c check) fail(problem string)       { *c.bad = append(*c.bad, &FieldError{c.at, problem}) }
func (c check) must(ok bool, rule string) { c.unless(ok, "%s", rule) }

func (c check) unless(ok bool, format string, args ...any) {
	if !ok {
		c.fail(fmt.Sprintf(format, args...))
	}
}

// text demands each of the named values.
func (c check) text(values map[string]string) {
	for _, name := range sortedNames(values) {
		c.in(name).must(strings.TrimSpace(values[name]) != "", "must not be empty")
	}
}

func sortedNames(values map[string]string) []string {
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (c check) time(t time.Time) { c.must(!t.IsZero(), "must be a time") }

func (c check) word(word string, allowed ...string) {
	c.unless(slices.Contains(allowed, word), "%q is none of: %s", word, strings.Join(allowed, ", "))
}

// Validate refuses a document that claims something without evidence, or that
// contradicts itself. The error is of type FieldErrors.
func (d *Document) Validate() error {
	var bad FieldErrors
	c := check{bad: &bad}
	c.in("format").word(d.Format, Format)
	c.in("id").must(uuidForm.MatchString(d.ID), "must be a UUID")
	c.text(map[string]string{"issuer": d.Issuer})
	c.in("issued_at").time(d.IssuedAt)
	d.checkPlace(c)
	n := c.in("node")
	n.in("id").must(uuidForm.MatchString(d.Node.ID), "must be a UUID")
	n.text(map[string]string{"hostname": d.Node.Hostname})
	d.checkOperation(c.in("operation"))
	for i := range d.Subjects {
		d.checkSubject(c.in("subjects").nth(i), &d.Subjects[i])
	}
	d.checkValidation(c)
	d.checkTestimony(c)
	d.checkConcessions(c)
	if len(bad) == 0 {
		return nil
	}
	return bad
}

// checkPlace checks the place in the chain of the node.
func (d *Document) checkPlace(c check) {
	c.in("seq").must(d.Seq > 0, "must be 1 or more")
	p := c.in("previous")
	p.in("seq").unless(d.Previous.Seq == d.Seq-1, "must be %d", d.Seq-1)
	if d.Seq == 1 {
		p.in("digest").must(d.Previous.Digest == "", "must be empty: nothing is before the first one")
		return
	}
	p.in("digest").must(digestForm.MatchString(d.Previous.Digest), "must be the digest of the one before it")
}

func (d *Document) checkOperation(c check) {
	o := d.Operation
	c.in("decommission_id").must(uuidForm.MatchString(o.DecommissionID), "must be a UUID")
	c.in("mode").word(o.Mode, modeSoftReset, modeReimage, modeFullDecommission, modeRetire)
	kind := Certificate
	if o.Mode == modeSoftReset {
		kind = HandoverReceipt
	}
	check{"/kind", c.bad}.unless(d.Kind == kind, "must be %s after %s", kind, o.Mode)
	c.text(map[string]string{"reason": o.Reason, "requested_by": o.RequestedBy})
	c.in("requested_at").time(o.RequestedAt)
	c.in("started_at").time(o.StartedAt)
	c.in("ended_at").must(!o.EndedAt.Before(o.StartedAt), "must not be before started_at")
	for i, a := range o.Actors {
		c.in("actors").nth(i).text(map[string]string{"name": a.Name, "did": a.Did})
	}
}

func (d *Document) checkSubject(c check, s *Subject) {
	c.in("kind").word(s.Kind, subjectKinds...)
	c.text(map[string]string{"identifier": s.Identifier})
	c.in("observed_by").word(string(s.ObservedBy), string(Agent), string(ControlPlane))
	c.in("outcome").word(string(s.Outcome), string(Sanitized), string(Done), string(Failed), string(Refused))
	c.in("level").word(string(s.Level), string(None), string(Clear), string(Purge))
	c.in("covered_bytes").must(s.CoveredBytes >= 0 && s.CoveredBytes <= s.TotalBytes, "must be 0 to total_bytes")
	c.in("verification/result").word(string(s.Verification.Result), string(Passed), string(NotPassed),
		string(NotVerifiable))
	c.in("outcome").must((s.Outcome == Sanitized) == (s.Level != None), "is sanitized exactly when a level is claimed")
	checkEvidence(c.in("evidence"), s.Evidence)
	c.in("level").must(s.NotIndependent == "" || s.Level == None, "nothing that is not independent claims a level")
	if s.Level != None {
		d.checkClaim(c, s)
	}
}

// checkClaim checks a subject that is claimed to be sanitized.
func (d *Document) checkClaim(c check, s *Subject) {
	c.text(map[string]string{"method": s.Method, "tool": s.Tool})
	c.in("started_at").time(s.StartedAt)
	c.in("ended_at").must(!s.EndedAt.IsZero() && !s.EndedAt.Before(s.StartedAt), "must not be before started_at")
	c.in("covered_bytes").must(s.CoveredBytes > 0, "a level needs coverage")
	named := slices.ContainsFunc(d.NotCovered, func(g Gap) bool { return g.Subject == s.Identifier })
	c.in("covered_bytes").must(s.CoveredBytes == s.TotalBytes || named, "what is not covered must be named in not_covered")
	v, r := s.Verification, c.in("verification")
	r.text(map[string]string{"how": v.How})
	r.in("result").must(v.Result == Passed, "a level needs a verification that passed")
	r.in("samples_unclean").must(v.SamplesUnclean == 0, "contradicts the level")
	r.in("canaries_found").must(v.CanariesFound == 0, "contradicts the level")
	r.in("bytes_read").must(v.BytesRead > 0, "a level needs a look at what is there afterwards")
}

func checkEvidence(c check, refs []Evidence) {
	c.must(len(refs) > 0, "a claim needs evidence")
	for i, e := range refs {
		n := c.nth(i)
		n.in("seq").must(e.Seq > 0, "must be 1 or more")
		n.in("digest").must(digestForm.MatchString(e.Digest), "must be a digest")
		n.text(map[string]string{"stage": e.Stage, "kind": e.Kind})
	}
}

func (d *Document) checkValidation(c check) {
	c = c.in("validation")
	overridden := slices.ContainsFunc(d.Overrides, func(o Override) bool { return o.Stage == ValidateStage })
	v := d.Validation
	if v == nil {
		c.must(d.Operation.Mode == modeFullDecommission || overridden,
			"must be there, or an override that says why it is not")
		return
	}
	c.in("at").time(v.At)
	c.in("observed_by").word(string(v.ObservedBy), string(Agent), string(ControlPlane))
	c.in("clean").must(v.Clean == (len(v.Findings) == 0), "is true exactly when there are no findings")
	c.in("clean").must(v.Clean || overridden, "must be true, or an override must say why it is not")
	c.in("looked").must(len(v.Looked) > 0, "must say what was looked at")
	for i, l := range v.Looked {
		c.in("looked").nth(i).text(map[string]string{"kind": l.Kind, "result": l.Result})
	}
	checkEvidence(c.in("evidence"), v.Evidence)
}

// checkTestimony checks who speaks for the node: a validation by an
// installation that somebody had root on is enough only if an operator says so.
func (d *Document) checkTestimony(c check) {
	if a := d.Access; a != nil {
		at := c.in("access")
		at.in("had").word(string(a.Had), string(NoAccess), string(UserAccess), string(RootAccess))
		at.in("cause").must((a.Had == RootAccess) == (a.Cause != ""), "says how root was had, and nothing else")
		at.in("at").must(a.Had == NoAccess || a.At != nil, "must say when")
	}
	accepted := slices.ContainsFunc(d.Overrides, func(o Override) bool { return o.Stage == RootTaint })
	named := slices.ContainsFunc(d.NotCovered, func(g Gap) bool { return strings.Contains(g.What, "somebody with root") })
	if d.Validation != nil {
		c.in("validation").in("not_independent").must(d.Validation.NotIndependent == "" || accepted || named,
			"needs an override of "+RootTaint+", or what root left named in not_covered")
	}
	if d.Installation != nil {
		leaves := d.Operation.Mode == modeFullDecommission
		c.in("installation").in("independent").must(d.Installation.Independent || leaves || accepted || named,
			"must be true, or what root left must be named in not_covered")
	}
}

// checkConcessions checks everything that was not done, or only reported.
func (d *Document) checkConcessions(c check) {
	for i, r := range d.Reported {
		at := c.in("reported").nth(i)
		at.text(map[string]string{"by": r.By, "statement": r.Statement})
		checkEvidence(at.in("evidence"), r.Evidence)
	}
	for i, g := range d.NotCovered {
		c.in("not_covered").nth(i).text(map[string]string{"what": g.What, "why": g.Why})
	}
	for i, w := range d.Downgrades {
		c.in("downgrades").nth(i).text(map[string]string{
			"subject": w.Subject, "requested": w.Requested, "achieved": w.Achieved, "why": w.Why, "decided_by": w.DecidedBy,
			"residual_risk": w.ResidualRisk,
		})
	}
	for i, o := range d.Overrides {
		c.in("overrides").nth(i).text(map[string]string{
			"stage": o.Stage, "by": o.By, "why": o.Why,
			"residual_risk": o.ResidualRisk,
		})
	}
}

// NoteShortfalls names in not_covered what a subject with a level did not
// cover, if nobody has said why yet.
func (d *Document) NoteShortfalls() {
	for _, s := range d.Subjects {
		named := slices.ContainsFunc(d.NotCovered, func(g Gap) bool { return g.Subject == s.Identifier })
		if s.Level == None || s.CoveredBytes >= s.TotalBytes || named {
			continue
		}
		d.NotCovered = append(d.NotCovered, Gap{
			Subject: s.Identifier, What: fmt.Sprintf("%d of %d bytes of %s %s", s.TotalBytes-s.CoveredBytes, s.TotalBytes,
				s.Kind, s.Identifier),
			Why: "the method did not reach them",
		})
	}
}
