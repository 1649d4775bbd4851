package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
)

// guard runs before the handler of an operation. Nothing passes without a
// decision, and the input is not even read before it.
func (a *API) guard(op Operation) func(huma.Context, func(huma.Context)) {
	return func(hctx huma.Context, next func(huma.Context)) {
		r, w := humachi.Unwrap(hctx)
		serve := func(w http.ResponseWriter, r *http.Request) {
			next(humachi.NewContext(hctx.Operation(), r, w))
		}
		exchangeFrom(r.Context()).operation = op.ID
		ctx, err := a.admit(r, op)
		if err != nil {
			endSession(w, r, err)
			a.fail(w, r, err)
			return
		}
		r = r.WithContext(ctx)
		if op.Stream && r.ContentLength != 0 {
			a.fail(w, r, fault.New(fault.Invalid, codeInvalidRequest, "a stream takes no body"))
			return
		}
		if op.Stream {
			serve(w, r)
			return
		}
		ctx, cancel := context.WithTimeout(ctx, a.cfg.Limits.RequestTimeout)
		defer cancel()
		r = r.WithContext(ctx)
		body, err := a.readBody(w, r, op)
		if err != nil {
			a.fail(w, r, err)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		key, err := requestKey(r, op)
		if err != nil {
			a.fail(w, r, err)
			return
		}
		if key == "" {
			serve(w, r)
			return
		}
		a.once(w, r, op, key, body, serve)
	}
}

// admit decides whether a request may proceed, and as whom.
func (a *API) admit(r *http.Request, op Operation) (context.Context, error) {
	if err := a.cfg.Gate(); err != nil {
		return nil, err
	}
	principal, err := a.identify(r, op)
	if err != nil {
		return nil, err
	}
	ctx := auth.With(r.Context(), principal)
	exchangeFrom(ctx).principal = principal.ID
	if principal.Kind != auth.KindAnonymous {
		if err := a.callers.take(ctx, principal.ID); err != nil {
			return nil, err
		}
	}
	if err := a.readableURL(r.URL); err != nil {
		return nil, err
	}
	return ctx, a.decide(r.WithContext(ctx), op, principal)
}

// identify finds out who is calling. A caller without a recognised token is
// counted by address before the token is looked up.
func (a *API) identify(r *http.Request, op Operation) (*auth.Principal, error) {
	ctx := r.Context()
	from := AddressKey(ClientAddr(ctx))
	if op.Access.scope == ScopePublic {
		if err := a.strangers.take(from); err != nil {
			return nil, err
		}
		return auth.Anonymous(), a.mayOpenSession(r, op)
	}
	token, err := a.credential(r, op)
	if err != nil {
		return nil, cmp.Or(a.strangers.take(from), err)
	}
	if a.cfg.Auth == nil {
		return nil, fault.New(fault.Unavailable, "authentication_unavailable", "tokens cannot be checked here")
	}
	known := a.familiar.knows(token)
	if !known {
		if err := a.strangers.take(from); err != nil {
			return nil, err
		}
	}
	principal, err := a.cfg.Auth.Authenticate(ctx, token)
	refused := fault.KindOf(err) == fault.Unauthenticated && err != nil
	switch {
	case refused && known:
		err = cmp.Or(a.strangers.take(from), err)
	case !refused && !known:
		a.strangers.give(from)
	}
	if err == nil && !known || refused {
		a.familiar.note(token, !refused)
	}
	return principal, err
}

// credential returns the token of a request: from its header, otherwise from
// the cookie of a browser, if the page is ours.
func (a *API) credential(r *http.Request, op Operation) (redact.Secret, error) {
	header := r.Header.Get("Authorization")
	if header == "" {
		if token := offeredToken(r); op.Stream && !token.IsZero() {
			return token, nil
		}
		if token, ok := sessionOf(r); ok {
			exchangeFrom(r.Context()).session = true
			return token, a.ownOrigin(r, op)
		}
	}
	scheme, token, _ := strings.Cut(header, " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return redact.Secret{}, fault.New(fault.Unauthenticated, "token_missing", "this operation needs a bearer token").
			WithRemedy("send Authorization: Bearer with a token; gpuaas login gets one")
	}
	return redact.New(token), nil
}

// notFound is the one answer for what does not exist and for what the caller
// must not know of. It does not say which of the two it is.
func notFound() *fault.Error {
	return fault.New(fault.NotFound, codeNotFound, "it does not exist, or you have no access to it").
		WithRemedy("check the id, and that you are a member of the tenant or project")
}

func (a *API) decide(r *http.Request, op Operation, principal *auth.Principal) error {
	var target auth.Target
	decision := auth.Denied
	switch op.Access.scope {
	case ScopePublic, ScopeAuthenticated:
		return nil
	case ScopeAnywhere:
		decision = principal.DecideAnywhere(op.Access.permission)
	case ScopePlatform:
		decision = principal.Decide(op.Access.permission, target)
	case ScopeTenant, ScopeProject:
		var err error
		target, err = a.target(r, op)
		exchangeFrom(r.Context()).target = target
		switch {
		case err == nil:
			decision = principal.Decide(op.Access.permission, target)
		case fault.KindOf(err) == fault.NotFound:
			decision = auth.Hidden
		default:
			return err
		}
	}
	if decision == auth.Allowed {
		return a.enabled(r, op, principal, target)
	}
	return a.refuse(r, op, target, decision)
}

// enabled refuses what makes something new for a tenant that is disabled. Operators
// may go on: they look after it.
func (a *API) enabled(r *http.Request, op Operation, principal *auth.Principal, target auth.Target) error {
	if target.Org.IsZero() || principal.Platform != "" || !op.Mutates() || op.Method == http.MethodDelete ||
		op.WhileDisabled || a.cfg.Projects == nil {
		return nil
	}
	return a.cfg.Projects.TenantEnabled(r.Context(), target.Org)
}

func (a *API) target(r *http.Request, op Operation) (auth.Target, error) {
	if op.Access.scope == ScopeTenant {
		org, err := pathID[id.Org](r, tenantParam)
		return auth.Target{Org: org}, err
	}
	project, err := pathID[id.Project](r, projectParam)
	if err != nil {
		return auth.Target{}, err
	}
	if a.cfg.Projects == nil {
		return auth.Target{}, fault.New(fault.Unavailable, "projects_unavailable", "projects cannot be looked up here")
	}
	org, err := a.cfg.Projects.ProjectOrg(r.Context(), project)
	return auth.Target{Org: org, Project: project}, err
}

func pathID[T any, P interface {
	*T
	UnmarshalText([]byte) error
}](r *http.Request, param string) (T, error) {
	var v T
	if err := P(&v).UnmarshalText([]byte(r.PathValue(param))); err != nil {
		return v, invalidField("path."+param, err.Error())
	}
	return v, nil
}

func invalidField(field, message string) *fault.Error {
	return fault.New(fault.Invalid, codeValidation, "the request has fields that cannot be accepted").
		WithFields(fault.Field{Path: field, Message: message})
}

// refuse audits the attempt. If that fails, the attempt is refused all the
// same.
func (a *API) refuse(r *http.Request, op Operation, target auth.Target, decision auth.Decision) error {
	refusal := fault.New(fault.Forbidden, "insufficient_permissions", "this needs the permission %s",
		op.Access.permission).
		WithRemedy("ask an administrator for a role that includes %s, or use a token whose scopes do", op.Access.permission)
	reason := "insufficient permissions"
	if decision == auth.Hidden {
		refusal, reason = notFound(), "no role on the target"
	}
	a.denied(r.Context(), op, target, reason)
	return refusal
}

// refused audits an attempt that a command refused: something else than the permission
// was missing, such as that the thing is one's own.
func (a *API) refused(ctx context.Context, op Operation, why error) {
	if fault.KindOf(why) != fault.Forbidden || auth.From(ctx).Kind == auth.KindAnonymous {
		return
	}
	a.denied(ctx, op, exchangeFrom(ctx).target, fault.CodeOf(why))
}

func (a *API) denied(ctx context.Context, op Operation, target auth.Target, reason string) {
	if a.cfg.Denials == nil {
		a.cfg.Logger.WarnContext(ctx, "denied attempt", "operation", op.ID, "reason", reason)
		return
	}
	if err := a.cfg.Denials.RecordDenial(ctx, Denial{
		OperationID: op.ID, Method: op.Method, Path: op.Path,
		Permission: op.Access.permission, Target: target, Reason: reason,
	}); err != nil {
		a.cfg.Logger.ErrorContext(ctx, "denied attempt could not be audited", "operation", op.ID, "error", err)
	}
}

// readableURL refuses characters that the database could not store later.
func (a *API) readableURL(u *url.URL) error {
	if !isText(u.Path) {
		return fault.New(fault.Invalid, codeInvalidRequest, "the path is not text in UTF-8")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return fault.New(fault.Invalid, codeInvalidRequest, "the query cannot be read")
	}
	for name, values := range query {
		if !isText(name) {
			return fault.New(fault.Invalid, codeInvalidRequest, "the query has a name that is not text in UTF-8")
		}
		for _, v := range values {
			if !isText(v) {
				return invalidField("query."+name, "not text in UTF-8")
			}
			if v == "" && a.ids["query "+name] { // an empty id is an error, not a missing filter
				return invalidField("query."+name, "must be an id, or be left out")
			}
		}
	}
	return nil
}

func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// readBody reads the body of a request that changes something.
func (a *API) readBody(w http.ResponseWriter, r *http.Request, op Operation) ([]byte, error) {
	if !op.Mutates() || r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	return ReadBody(w, r, a.cfg.Limits.MaxBodyBytes)
}

// ReadBody reads a JSON body up to a size, under the read deadline of the
// connection. It removes the deadline when the whole body has come.
func ReadBody(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if err == nil { // otherwise the deadline still holds for the rest of the body
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	}
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, fault.New(fault.Invalid, codeBodyTooLarge, "the body is larger than %d bytes", tooLarge.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fault.New(fault.Invalid, codeBodyTimeout, "the body did not arrive in time")
	case err != nil:
		return nil, fault.Wrap(err, fault.Invalid, codeInvalidRequest, "the body could not be read to its end")
	}
	if len(body) == 0 {
		return body, nil
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, mediaTypeRefused()
	}
	if !utf8.Valid(body) {
		return nil, fault.New(fault.Invalid, codeInvalidRequest, "the body is not text in UTF-8")
	}
	if hasEscapedNUL(body) {
		return nil, invalidField("body", "a string holds the character U+0000")
	}
	return body, nil
}

func mediaTypeRefused() *fault.Error {
	return fault.New(fault.Invalid, codeMediaType, "the body must be JSON").
		WithRemedy("send Content-Type: application/json")
}

// hasEscapedNUL finds NUL, the one character that JSON can carry and PostgreSQL
// cannot store. It does not refuse text that is not JSON; later code does.
func hasEscapedNUL(raw []byte) bool {
	if !bytes.Contains(raw, []byte(`\u0000`)) {
		return false
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	for {
		token, err := dec.Token()
		if err != nil {
			return false
		}
		if s, ok := token.(string); ok && strings.ContainsRune(s, 0) {
			return true
		}
	}
}
