package policy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/operate/policy/internal/rego"
)

// Document is a policy of the platform that decides about requests after the chain has
// allowed them. It can only deny.
type Document struct {
	Title string `json:"title"`
	// Rego is the policy itself, in the language of Open Policy Agent.
	Rego     string    `json:"rego"`
	Examples []Example `json:"examples"`
}

// Example is a request with what the document must say of it.
type Example struct {
	Name    string  `json:"name"`
	Request Request `json:"request"`
	// Chain is what the chain of policies has settled; nothing is settled without it.
	Chain  Values `json:"chain"`
	Denied bool   `json:"denied"`
	// Because must be part of one of the reasons; empty: any will do.
	Because string `json:"because,omitempty"`
}

// Trial is what a document says of an example.
type Trial struct {
	Name    string
	Passed  bool
	Denied  bool
	Reasons []string
	Message string // why it did not pass
}

// complete fills in what an example may leave out: the document is kept with what it was
// tried on.
func (e Example) complete() Example {
	r := &e.Request
	for _, of := range []struct {
		to    *string
		value string
	}{
		{&r.Operation, r.Type + "@v1"},
		{&r.Risk, "low"},
		{&r.Impact, "read"},
		{&r.TargetKind, targetKinds[0]},
		{&r.Caller, "somebody"},
	} {
		if *of.to == "" {
			*of.to = of.value
		}
	}
	r.Targets, r.Concurrency = max(r.Targets, 1), max(r.Concurrency, 1)
	if r.At.IsZero() {
		r.At = aMonday
	}
	return e
}

// aMonday is when an example happens that does not say when.
var aMonday = time.Date(2026, time.January, 5, 12, 0, 0, 0, time.UTC)

// Bounds of a document.
const (
	mostRego     = 64 << 10
	mostExamples = 100
	mostTitle    = 200
)

// evaluationTime is how long a document may take over one request.
const evaluationTime = 2 * time.Second

// DocumentVersion is a document that is kept.
type DocumentVersion struct {
	Number int64
	Document
	Digest    string
	CreatedAt time.Time
	CreatedBy string
	Active    *Activation // nil: another one counts, or none
}

// Name is how people call a version.
func (v DocumentVersion) Name() string { return documentName(v.Number) }

func documentName(number int64) string { return "v" + strconv.FormatInt(number, 10) }

var documentForm = regexp.MustCompile(`^v[1-9][0-9]{0,8}$`)

// documentNumber is the number of a version; zero: the text is no name of one.
func documentNumber(name string) int64 {
	if !documentForm.MatchString(name) {
		return 0
	}
	n, err := strconv.ParseInt(name[1:], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Activation says since when a document counts.
type Activation struct {
	Version int64
	Title   string
	Digest  string
	Reason  string
	At      time.Time
	By      string
}

// Verdict is what a further decision said of a request.
type Verdict struct {
	// Document is the version that decided; empty: none counts.
	Document string `json:"document"`
	Digest   string `json:"digest"`
	// Input is the digest of what it was asked.
	Input string    `json:"input_digest"`
	At    time.Time `json:"at"`
	// Denied are the reasons against the request.
	Denied []string `json:"denied,omitempty"`
	// Undecided is why it could not decide.
	Undecided string `json:"undecided,omitempty"`
}

// Same reports whether two verdicts say the same by the same document.
func (v Verdict) Same(other Verdict) bool {
	return v.Document == other.Document && v.Digest == other.Digest && v.Undecided == other.Undecided &&
		slices.Equal(v.Denied, other.Denied)
}

// input is what a document is asked. Every name is always there: what is undefined in a
// policy makes its rule say nothing.
type input struct {
	Request asked   `json:"request"`
	Policy  settled `json:"policy"`
}

type asked struct {
	Operation   string     `json:"operation"`
	Type        string     `json:"type"`
	Risk        string     `json:"risk"`
	Impact      string     `json:"impact"`
	OrgID       string     `json:"org_id"`
	ProjectID   string     `json:"project_id"`
	Caller      string     `json:"caller"`
	TargetKind  string     `json:"target_kind"`
	Targets     int        `json:"targets"`
	Concurrency int        `json:"concurrency"`
	OnlyPlan    bool       `json:"only_plan"`
	At          string     `json:"at"`
	Artifacts   []artifact `json:"artifacts"`
}

type artifact struct {
	Source string `json:"source"`
	Bytes  int64  `json:"bytes"`
	Signed bool   `json:"signed"`
}

type settled struct {
	Enabled          bool      `json:"enabled"`
	HardDenied       bool      `json:"hard_denied"`
	MaxConcurrency   int64     `json:"max_concurrency"`
	TimeoutSeconds   int64     `json:"timeout_seconds"`
	ArtifactSources  *[]string `json:"allowed_artifact_sources"`
	TargetKinds      *[]string `json:"allowed_target_kinds"`
	RequireSignature bool      `json:"require_signature_verification"`
	MaxArtifactSize  int64     `json:"max_artifact_size_bytes"`
}

// inputSchema says what a document can refer to, so that a misspelled name is refused
// and not merely undefined.
const inputSchema = `{"type":"object","additionalProperties":false,"properties":{
"request":{"type":"object","additionalProperties":false,"properties":{
"operation":{"type":"string"},"type":{"type":"string"},"risk":{"type":"string"},"impact":{"type":"string"},
"org_id":{"type":"string"},"project_id":{"type":"string"},"caller":{"type":"string"},"target_kind":{"type":"string"},
"targets":{"type":"number"},"concurrency":{"type":"number"},"only_plan":{"type":"boolean"},"at":{"type":"string"},
"artifacts":{"type":"array","items":{"type":"object","additionalProperties":false,"properties":{
"source":{"type":"string"},"bytes":{"type":"number"},"signed":{"type":"boolean"}}}}}},
"policy":{"type":"object","additionalProperties":false,"properties":{
"enabled":{"type":"boolean"},"hard_denied":{"type":"boolean"},"max_concurrency":{"type":"number"},
"timeout_seconds":{"type":"number"},"allowed_artifact_sources":{"type":["array","null"],"items":{"type":"string"}},
"allowed_target_kinds":{"type":["array","null"],"items":{"type":"string"}},
"require_signature_verification":{"type":"boolean"},"max_artifact_size_bytes":{"type":"number"}}}}}`

// asInput is a request with what the chain says of it, as a document sees it, and the
// digest of that.
func asInput(r Request, e Effective) (value any, digest string, err error) {
	in := input{
		Request: asked{
			Operation: r.Operation, Type: r.Type, Risk: r.Risk, Impact: r.Impact, OrgID: r.OrgID, ProjectID: r.ProjectID,
			Caller: r.Caller, TargetKind: r.TargetKind, Targets: r.Targets, Concurrency: r.Concurrency, OnlyPlan: r.OnlyPlan,
			At: r.At.UTC().Format(time.RFC3339), Artifacts: []artifact{},
		},
		Policy: settled{
			Enabled: e.Enabled, HardDenied: e.HardDenied, MaxConcurrency: e.MaxConcurrency, TimeoutSeconds: e.TimeoutSeconds,
			ArtifactSources: list(e.ArtifactSources), TargetKinds: list(e.TargetKinds), RequireSignature: e.RequireSignature,
			MaxArtifactSize: e.MaxArtifactSize,
		},
	}
	for _, a := range r.Artifacts {
		in.Request.Artifacts = append(in.Request.Artifacts, artifact{a.Source, a.Bytes, a.Signed})
	}
	raw, err := json.Marshal(in)
	if err != nil {
		return nil, "", fmt.Errorf("encode request: %w", err)
	}
	if err := json.Unmarshal(raw, &value); err != nil {
		return nil, "", fmt.Errorf("decode request: %w", err)
	}
	return value, digestOf(raw), nil
}

func digestOf(raw []byte) string {
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// compile reads a document, and refuses one that cannot be one.
func (d Document) compile() (*rego.Policy, error) {
	var bad []fault.Field
	refuse := func(path, format string, args ...any) {
		bad = append(bad, fault.Field{Path: path, Message: fmt.Sprintf(format, args...)})
	}
	if strings.TrimSpace(d.Title) == "" || len(d.Title) > mostTitle {
		refuse("body.title", "must say what it is for, in at most %d characters", mostTitle)
	}
	if len(d.Rego) > mostRego {
		refuse("body.rego", "has %d bytes, more than %d", len(d.Rego), mostRego)
	}
	d.checkExamples(refuse)
	p, err := rego.Compile(d.Rego, inputSchema)
	var problems rego.ProblemsError
	if errors.As(err, &problems) {
		for _, one := range problems {
			path := "body.rego"
			if one.Line > 0 {
				path += ":" + strconv.Itoa(one.Line)
			}
			refuse(path, "%s", one.Message)
		}
	} else if err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	if len(bad) > 0 {
		return nil, fault.New(fault.Invalid, "operation_policy_document_invalid",
			"the policy document cannot be accepted: %s: %s", bad[0].Path, bad[0].Message).WithFields(bad...).
			WithRemedy("fix what is named and try it: gpuaas operation policy document try -f FILE")
	}
	return p, nil
}

func (d Document) checkExamples(refuse func(path, format string, args ...any)) {
	denied, allowed := false, false
	names := map[string]bool{}
	for i, e := range d.Examples {
		path := "body.examples." + strconv.Itoa(i)
		denied, allowed = denied || e.Denied, allowed || !e.Denied
		switch {
		case strings.TrimSpace(e.Name) == "" || len(e.Name) > mostTitle:
			refuse(path+".name", "must have 1 to %d characters", mostTitle)
		case names[e.Name]:
			refuse(path+".name", "%q occurs twice", e.Name)
		case e.Because != "" && !e.Denied:
			refuse(path+".because", "is for an example that is denied")
		}
		names[e.Name] = true
		if f, wrong := fault.As(e.Chain.check(Global)); wrong {
			for _, field := range f.Fields {
				refuse(path+".chain"+strings.TrimPrefix(field.Path, "body"), "%s", field.Message)
			}
		}
	}
	switch {
	case len(d.Examples) > mostExamples:
		refuse("body.examples", "are %d, more than %d", len(d.Examples), mostExamples)
	case !denied || !allowed:
		refuse("body.examples", "must hold at least one request that is denied and one that is not")
	}
}

// decide asks a document about a request.
func decide(ctx context.Context, p *rego.Policy, r Request, e Effective, most time.Duration) (Verdict, error) {
	value, digest, err := asInput(r, e)
	if err != nil {
		return Verdict{}, err
	}
	v := Verdict{Input: digest, At: r.At}
	switch v.Denied, err = p.Evaluate(ctx, value, most); {
	case errors.Is(err, rego.ErrTime):
		v.Undecided = fmt.Sprintf("it took longer than %s", most)
	case err != nil:
		v.Undecided = err.Error()
	}
	return v, nil
}

// try asks a document about its examples.
func (d Document) try(ctx context.Context, p *rego.Policy, most time.Duration) ([]Trial, error) {
	out := make([]Trial, len(d.Examples))
	for i, e := range d.Examples {
		v, err := decide(ctx, p, e.Request, Resolve(e.Request.Type, []Level{{
			Scope: Global, Type: AllTypes, Values: e.Chain,
		}}), most)
		if err != nil {
			return nil, err
		}
		out[i] = e.judge(v)
	}
	return out, nil
}

func (e Example) judge(v Verdict) Trial {
	t := Trial{Name: e.Name, Denied: len(v.Denied) > 0, Reasons: v.Denied}
	switch {
	case v.Undecided != "":
		t.Message = "it could not decide: " + v.Undecided
	case e.Denied && !t.Denied:
		t.Message = "it must be denied, and is not"
	case !e.Denied && t.Denied:
		t.Message = "it must not be denied, and is: " + strings.Join(v.Denied, "; ")
	case e.Because != "" && !strings.Contains(strings.Join(v.Denied, "\n"), e.Because):
		t.Message = fmt.Sprintf("no reason says %q, but: %s", e.Because, strings.Join(v.Denied, "; "))
	default:
		t.Passed = true
	}
	return t
}
