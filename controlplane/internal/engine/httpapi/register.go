package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

const bearerScheme = "bearer"

// Operation describes one operation of the API.
type Operation struct {
	ID          string // stable, kebab-case: part of the contract and of every log line
	Method      string
	Path        string
	Summary     string
	Description string
	Tag         string
	Access      Access
	Status      int // on success; default: 200 with a body, 204 without
	// Accepted is a value of the type that the answer has instead, with status 202,
	// where the request was only recorded; nil: there is no such answer. Branched
	// answers so.
	Accepted any
	// SecretResponse keeps the answer out of the store of repeated requests.
	SecretResponse bool
	// SecretRequest keeps even a hash of the body out of the store, because a
	// password can be guessed from a hash. Then the key alone identifies the
	// request.
	SecretRequest bool
	// OnToken marks an operation on the token of the request itself. With
	// another token it is another request, even if the key is the same.
	OnToken bool
	// OpensSession marks an operation that answers with a session cookie. Pages
	// of other origins cannot call it.
	OpensSession bool
	// AnyQuery accepts query parameters that are not declared, for callers that
	// cannot avoid sending them, such as the redirect of an identity provider.
	AnyQuery bool
	// WhileDisabled marks an operation that people of a tenant may use while it is
	// disabled, although it changes something. They may always delete.
	WhileDisabled bool
	// Stream marks a feed of server-sent events; RegisterStream sets it.
	Stream bool
}

// Mutates reports whether the operation can change anything.
func (o Operation) Mutates() bool {
	switch o.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return true
	}
	return false
}

func (o Operation) idempotent() bool { return o.Mutates() && o.Access.scope != ScopePublic }

// Register adds an operation. It panics on a defect of the program: no access,
// no id, the same id twice, an update without IfMatch, or a body whose type has
// no name, because the contract needs a stable one.
func Register[I, O any](a *API, op Operation, handler func(context.Context, *I) (*O, error)) {
	input, output := reflect.TypeFor[I](), reflect.TypeFor[O]()
	if op.Method == http.MethodPatch && !embeds[IfMatch](input) {
		panic(fmt.Sprintf("httpapi: operation %q: an update must embed IfMatch", op.ID))
	}
	if namelessBody(input) || namelessBody(output) {
		panic(fmt.Sprintf("httpapi: operation %q: the type of a body needs a name", op.ID))
	}
	described := a.describe(op, input)
	a.nameIDs(input, output)
	if op.Accepted != nil {
		a.nameIDs(reflect.TypeOf(op.Accepted))
	}
	huma.Register(a.huma, described, func(ctx context.Context, in *I) (*O, error) {
		out, err := handler(ctx, in)
		if err != nil {
			a.refused(ctx, op, err)
			return nil, a.problem(ctx, err)
		}
		return out, nil
	})
	a.finish(op)
}

func (a *API) describe(op Operation, input reflect.Type) huma.Operation {
	if err := a.refuseOperation(op); err != nil {
		panic(fmt.Sprintf("httpapi: operation %q: %v", op.ID, err))
	}
	a.known[op.ID] = true
	a.operations = append(a.operations, op)
	described := huma.Operation{
		OperationID:                  op.ID,
		Method:                       op.Method,
		Path:                         op.Path,
		Summary:                      op.Summary,
		Description:                  op.Description,
		Tags:                         []string{op.Tag},
		DefaultStatus:                op.Status,
		MaxBodyBytes:                 -1, // the frame reads the body itself, within the limit
		BodyReadTimeout:              -1,
		RejectUnknownQueryParameters: !op.AnyQuery,
		Errors:                       possibleErrors(op, input),
		Extensions:                   map[string]any{"x-gpuaas-access": string(op.Access.scope)},
		Middlewares:                  huma.Middlewares{a.guard(op)},
	}
	if op.Access.permission != "" {
		described.Extensions["x-gpuaas-permission"] = string(op.Access.permission)
	}
	if op.Access.scope != ScopePublic {
		described.Security = []map[string][]string{{bearerScheme: {}}}
	}
	if op.SecretResponse {
		described.Extensions["x-gpuaas-secret-response"] = true
	}
	if op.idempotent() {
		described.Parameters = append(described.Parameters, keyParameter())
	}
	return described
}

func (a *API) refuseOperation(op Operation) error {
	switch {
	case op.ID == "":
		return fmt.Errorf("no id (%s %s)", op.Method, op.Path)
	case a.known[op.ID]:
		return errors.New("registered twice")
	case op.Summary == "":
		return errors.New("no summary")
	case op.Tag == "":
		return errors.New("no tag")
	case op.Method == "" || !strings.HasPrefix(op.Path, "/"):
		return errors.New("no method or path")
	}
	for _, other := range a.operations {
		if other.Method == op.Method && other.Path == op.Path {
			return fmt.Errorf("same method and path as %s", other.ID)
		}
	}
	return op.Access.check(op.Path)
}

// finish adds to the contract what the framework must not check itself, because
// a missing If-Match has its own status.
func (a *API) finish(op Operation) {
	item := a.OpenAPI().Paths[op.Path]
	described := map[string]*huma.Operation{
		http.MethodGet: item.Get, http.MethodPut: item.Put, http.MethodPost: item.Post,
		http.MethodPatch: item.Patch, http.MethodDelete: item.Delete,
	}[op.Method]
	if op.Accepted != nil {
		described.Responses[strconv.Itoa(http.StatusAccepted)] = &huma.Response{
			Description: http.StatusText(http.StatusAccepted),
			Content: map[string]*huma.MediaType{"application/json": {
				Schema: a.OpenAPI().Components.Schemas.Schema(reflect.TypeOf(op.Accepted), true, ""),
			}},
		}
	}
	declared := map[string]bool{}
	for _, p := range described.Parameters {
		declared[p.In+" "+p.Name] = true
		if p.In == "header" && p.Name == "If-Match" {
			p.Required = true
		}
		if p.Schema != nil && p.Schema.Format == "uuid" { // also if the input takes the id as text
			refuseNil(p.Schema)
			a.ids[p.In+" "+p.Name] = true
		}
	}
	for _, part := range strings.Split(op.Path, "/") {
		name, isParam := strings.CutPrefix(strings.TrimSuffix(part, "}"), "{")
		if isParam && !declared["path "+name] {
			// The framework does not read embedded structs that are not
			// exported.
			panic(fmt.Sprintf("httpapi: operation %s: input has no path parameter %s", op.ID, name))
		}
	}
}

func possibleErrors(op Operation, input reflect.Type) []int {
	out := []int{
		http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusUnprocessableEntity,
		http.StatusBadRequest,
	}
	known := op.Access.scope != ScopePublic || op.OpensSession
	if known {
		out = append(out, http.StatusUnauthorized)
	}
	if op.Access.permission != "" || known && op.Mutates() { // a page of another origin may have sent it
		out = append(out, http.StatusForbidden)
	}
	if strings.Contains(op.Path, "{") {
		out = append(out, http.StatusNotFound)
	}
	if op.Mutates() {
		out = append(out, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	if embeds[IfMatch](input) {
		out = append(out, http.StatusPreconditionFailed, http.StatusPreconditionRequired)
	}
	if !op.Stream {
		out = append(out, http.StatusGatewayTimeout)
	}
	slices.Sort(out)
	return out
}

// embeds reports whether a struct embeds a type at any depth.
func embeds[T any](t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous && (f.Type == reflect.TypeFor[T]() || embeds[T](f.Type)) {
			return true
		}
	}
	return false
}

func namelessBody(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	body, ok := t.FieldByName("Body")
	if !ok {
		return false
	}
	bt := body.Type
	for bt.Kind() == reflect.Pointer {
		bt = bt.Elem()
	}
	return bt.Kind() == reflect.Struct && bt.Name() == ""
}
