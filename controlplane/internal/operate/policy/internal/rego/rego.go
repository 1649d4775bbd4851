// Package rego evaluates one policy document in the language of Open Policy Agent,
// inside this process. A document is a pure function of its input: it reaches no
// network, no file and no clock, and draws no random number. What it may call is a
// list; whatever a newer library brings along is not on it until somebody adds it.
//
// An evaluation has a time limit. The library looks at it between two expressions,
// and not within a function; one that does not come back keeps its place among the
// evaluations, of which there are few, so a bad document cannot take all processors.
package rego

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// Package is the package that a document is written in, and Rule the one rule that is
// asked for: the set of reasons against the request.
const (
	Package = "gpuaas.operations"
	Rule    = "deny"
)

// What one evaluation may answer.
const (
	mostReasons = 20
	mostReason  = 500
)

// functions is what a document may call.
var functions = strings.Fields(`
	eq equal neq gt gte lt lte assign internal.member_2 internal.member_3 internal.template_string
	plus minus mul div rem abs round ceil floor count sum max min sort
	and or intersection union set_diff array.concat array.flatten array.slice array.reverse
	object.get object.keys object.remove object.filter object.union object.union_n object.subset json.filter json.remove
	contains startswith endswith lower upper split concat replace indexof substring sprintf format_int to_number
	trim trim_left trim_right trim_prefix trim_suffix trim_space strings.any_prefix_match strings.any_suffix_match
	strings.count strings.reverse regex.match semver.compare semver.is_valid numbers.range
	is_number is_string is_boolean is_array is_set is_object is_null type_name
	time.parse_rfc3339_ns time.parse_duration_ns time.date time.clock time.weekday
`)

// capabilities are those of the library, without every function that is not on the list.
func capabilities() *ast.Capabilities {
	all := ast.CapabilitiesForThisVersion()
	all.Builtins = slices.DeleteFunc(all.Builtins, func(b *ast.Builtin) bool {
		return !slices.Contains(functions, b.Name)
	})
	all.AllowNet = []string{}
	return all
}

// Problem is one thing that is wrong with a document, and in which line.
type Problem struct {
	Line    int // zero: the document as a whole
	Message string
}

// ProblemsError is everything that is wrong with a document.
type ProblemsError []Problem

// Error implements error.
func (p ProblemsError) Error() string {
	all := make([]string, len(p))
	for i, one := range p {
		all[i] = one.Message
		if one.Line > 0 {
			all[i] = fmt.Sprintf("line %d: %s", one.Line, one.Message)
		}
	}
	return strings.Join(all, "; ")
}

// Policy is a document that can be evaluated, by any number of callers at once.
type Policy struct {
	compiler *ast.Compiler
	query    ast.Body
}

// Compile reads a document. The schema says which names its input has, so that another
// one is refused; an error is of the type ProblemsError.
func Compile(source, schema string) (*Policy, error) {
	var names any
	if err := json.Unmarshal([]byte(schema), &names); err != nil {
		return nil, fmt.Errorf("decode the schema of the input: %w", err)
	}
	schemas := ast.NewSchemaSet()
	schemas.Put(ast.SchemaRootRef, names)
	module, err := ast.ParseModuleWithOpts("policy.rego", source, ast.ParserOptions{
		RegoVersion: ast.RegoV1, Capabilities: capabilities(),
	})
	if err != nil {
		return nil, problems(err)
	}
	if module == nil {
		return nil, ProblemsError{{Message: "it is empty"}}
	}
	path := ast.MustParseRef("data." + Package)
	if !module.Package.Path.Equal(path) {
		return nil, ProblemsError{{Line: module.Package.Loc().Row, Message: fmt.Sprintf("the package must be %s, not %s",
			Package, strings.TrimPrefix(module.Package.Path.String(), "data."))}}
	}
	asked := slices.ContainsFunc(module.Rules, func(r *ast.Rule) bool {
		return r.Head.Ref().String() == Rule && r.Head.RuleKind() == ast.MultiValue
	})
	if !asked {
		return nil, ProblemsError{{Message: fmt.Sprintf(
			"it has no rule that says why something is denied; write: %s contains \"why\" if { … }", Rule)}}
	}
	compiler := ast.NewCompiler().WithCapabilities(capabilities()).WithStrict(true).WithSchemas(schemas)
	compiler.Compile(map[string]*ast.Module{"policy.rego": module})
	if compiler.Failed() {
		return nil, problems(compiler.Errors)
	}
	query := ast.MustParseBody("reasons = data." + Package + "." + Rule)
	compiled, err := compiler.QueryCompiler().Compile(query)
	if err != nil {
		return nil, problems(err)
	}
	return &Policy{compiler: compiler, query: compiled}, nil
}

func problems(err error) ProblemsError {
	var many ast.Errors
	if !errors.As(err, &many) {
		return ProblemsError{{Message: err.Error()}}
	}
	out := make(ProblemsError, 0, len(many))
	for _, one := range many {
		p := Problem{Message: strings.TrimPrefix(one.Message, "rego_")}
		if one.Location != nil {
			p.Line = one.Location.Row
		}
		out = append(out, p)
	}
	return out
}

// ErrTime says that an evaluation took too long, and ErrBusy that too many of those
// that took too long have still not come back.
var (
	ErrTime = errors.New("it took longer than it may")
	ErrBusy = errors.New("too many evaluations are under way")
)

// places bounds how many evaluations are under way in this process.
var places = make(chan struct{}, 32)

// Evaluate answers the reasons against an input, sorted; none: nothing is against it.
// The input is what encoding/json makes of a document: maps, slices and scalars. It
// comes back after the time at the latest, also if the evaluation does not.
func (p *Policy) Evaluate(ctx context.Context, input any, most time.Duration) ([]string, error) {
	ctx, stop := context.WithTimeout(ctx, most)
	defer stop()
	value, err := ast.InterfaceToValue(input)
	if err != nil {
		return nil, fmt.Errorf("take over the input: %w", err)
	}
	select {
	case places <- struct{}{}:
	case <-ctx.Done():
		return nil, ErrBusy
	}
	type verdict struct {
		reasons []string
		err     error
	}
	done := make(chan verdict, 1)
	cancel := topdown.NewCancel()
	go func() {
		defer func() { <-places }()
		var v verdict
		defer func() {
			if broken := recover(); broken != nil {
				v = verdict{err: fmt.Errorf("the evaluation broke off: %v", broken)}
			}
			done <- v
		}()
		v.reasons, v.err = p.run(ctx, ast.NewTerm(value), cancel)
	}()
	select {
	case v := <-done:
		if ctx.Err() != nil && v.err != nil {
			return nil, late(ctx)
		}
		return v.reasons, v.err
	case <-ctx.Done():
		cancel.Cancel()
		return nil, late(ctx)
	}
}

// late is why an evaluation was given up.
func late(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ErrTime
	}
	return ctx.Err()
}

func (p *Policy) run(ctx context.Context, input *ast.Term, cancel topdown.Cancel) ([]string, error) {
	store := inmem.New()
	txn, err := store.NewTransaction(ctx)
	if err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	defer store.Abort(ctx, txn)
	results, err := topdown.NewQuery(p.query).WithCompiler(p.compiler).WithStore(store).WithTransaction(txn).
		WithInput(input).WithCancel(cancel).WithStrictBuiltinErrors(true).Run(ctx)
	if err != nil {
		return nil, fmt.Errorf("evaluate: %w", err)
	}
	if len(results) != 1 {
		return nil, fmt.Errorf("the rule %s has no value", Rule)
	}
	return reasons(results[0]["reasons"])
}

// reasons reads what the rule answers: a set of texts.
func reasons(term *ast.Term) ([]string, error) {
	if term == nil {
		return nil, fmt.Errorf("the rule %s has no value", Rule)
	}
	set, ok := term.Value.(ast.Set)
	if !ok {
		return nil, fmt.Errorf("the rule %s is no set of texts", Rule)
	}
	out := []string{}
	for _, one := range set.Slice() {
		text, ok := one.Value.(ast.String)
		if !ok || strings.TrimSpace(string(text)) == "" {
			return nil, fmt.Errorf("the rule %s holds %.100s, which is no text that says why", Rule, one.Value.String())
		}
		why := strings.ToValidUTF8(strings.ReplaceAll(string(text), "\x00", "\uFFFD"), "\uFFFD")
		if runes := []rune(why); len(runes) > mostReason {
			why = string(runes[:mostReason-1]) + "…"
		}
		out = append(out, why)
	}
	slices.Sort(out)
	if len(out) > mostReasons {
		out = append(out[:mostReasons:mostReasons], fmt.Sprintf("and %d more", len(out)-mostReasons))
	}
	return out, nil
}
