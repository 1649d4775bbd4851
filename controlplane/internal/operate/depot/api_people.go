package depot

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/operate/artifact"
)

// Tokened makes the password of the usual clients the token of a request: they know no
// other way to give one. The name beside it can be any.
func Tokened(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Cookie") // pages have no business here
		if _, token, ok := r.BasicAuth(); ok {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		next.ServeHTTP(w, r)
	})
}

// ServePeople answers whoever the API has let in.
func (s *Service) ServePeople(w http.ResponseWriter, r *http.Request) {
	want, ok := parse(r.URL.Path)
	if !ok {
		refuse(w, fault.New(fault.NotFound, "not_found", "there is nothing at this path of the registry").
			WithRemedy("repositories are called TENANT/PROJECT/NAME"))
		return
	}
	if !want.allows(r.Method) {
		w.Header().Set("Allow", strings.Join(methods[want.object], ", "))
		refuse(w, fault.New(fault.Forbidden, "registry_method", "%s is not done with %s here", r.Method, want.object).
			WithRemedy("nothing is deleted from the registry: revoke or retire the artifact"))
		return
	}
	if want.object == base {
		w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("{}\n")) // a client that has gone needs no answer
		return
	}
	place, err := s.admit(r, want)
	if err != nil {
		refuse(w, err)
		return
	}
	leave, err := s.enter(auth.From(r.Context()).ID, transfersOfOne)
	if err != nil {
		refuse(w, err)
		return
	}
	defer leave()
	if want.writes(r.Method) {
		s.push(w, r, place, want)
		return
	}
	s.pass(w, plain(r), longestTransfer)
}

const (
	transfersOfOne  = 32 // at a time, of a person or a program
	longestTransfer = 12 * time.Hour
	manifestTime    = 5 * time.Minute
)

// plain makes of a request what it is by its path: the registry would read parameters out
// of a form, too.
func plain(r *http.Request) *http.Request {
	r = r.Clone(r.Context())
	q := r.URL.Query()
	q.Del("mount") // a blob of another repository is not brought here by its name
	q.Del("from")
	r.URL.RawQuery = q.Encode()
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || !strings.HasSuffix(kind, "json") {
		r.Header.Set("Content-Type", "application/octet-stream")
	}
	return r
}

// push passes on what changes the registry. A manifest is kept and recorded even if whoever
// sent it does not wait for the answer.
func (s *Service) push(w http.ResponseWriter, r *http.Request, place artifact.Owner, want request) {
	if err := s.room(); err != nil {
		refuse(w, err)
		return
	}
	r = plain(r)
	if want.object != manifests {
		s.pass(w, r, longestTransfer)
		return
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(stall)) // a recorder has none
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPushed))
	if err != nil {
		refuse(w, fault.Wrap(err, fault.Invalid, "registry_manifest_unreadable",
			"the manifest did not come as a whole, or has more than %d bytes", maxPushed))
		return
	}
	r = r.WithContext(context.WithoutCancel(r.Context()))
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	answer := &watched{ResponseWriter: w}
	s.pass(answer, r, manifestTime)
	if answer.status == http.StatusCreated {
		s.notePush(r.Context(), place, want, answer.Header().Get("Docker-Content-Digest"))
	}
}

// maxPushed is how large a manifest may be that is pushed.
const maxPushed = 4 << 20

// admit decides whether a caller may do with a repository what it wants.
func (s *Service) admit(r *http.Request, want request) (artifact.Owner, error) {
	ctx := r.Context()
	place, err := s.cfg.Places.Place(ctx, want.repository)
	if err != nil && fault.KindOf(err) != fault.NotFound {
		return place, err
	}
	who, permission, on := auth.From(ctx), auth.ArtifactRead, target(place)
	decision := auth.Hidden
	if want.writes(r.Method) {
		permission = auth.ArtifactManage
	}
	switch {
	case err != nil:
	case on == auth.Target{} && permission == auth.ArtifactRead: // the platform's are for all
		decision = who.DecideAnywhere(permission)
	default:
		decision = who.Decide(permission, on)
	}
	if decision == auth.Allowed {
		if permission == auth.ArtifactManage && !place.Org.IsZero() && who.Platform == "" {
			return place, s.cfg.Tenants.TenantEnabled(ctx, place.Org)
		}
		return place, nil
	}
	s.noteDenial(ctx, r.Method, want, on, permission)
	if decision == auth.Hidden {
		return place, fault.New(fault.NotFound, "registry_repository_unknown", "the repository %s does not exist, or you "+
			"have no access to it", want.repository).
			WithRemedy("write it as TENANT/PROJECT/NAME; see your projects: gpuaas project list")
	}
	return place, fault.New(fault.Forbidden, "insufficient_permissions", "this needs the permission %s", permission).
		WithRemedy("ask an administrator of the project for a role that includes %s, or use a token whose scopes do", permission)
}

func (s *Service) noteDenial(ctx context.Context, method string, want request, on auth.Target, p auth.Permission) {
	err := audit.Denials{DB: s.cfg.DB}.RecordDenial(ctx, httpapi.Denial{
		OperationID: "registry", Method: method, Path: "/v2/" + want.repository, Permission: p, Target: on,
		Reason: "insufficient permissions",
	})
	if err != nil {
		s.cfg.Logger.ErrorContext(ctx, "denied attempt could not be audited", "operation", "registry", "error", err)
	}
}

func (s *Service) notePush(ctx context.Context, place artifact.Owner, want request, digest string) {
	err := s.cfg.DB.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return audit.Record(ctx, tx, audit.Entry{
			Action: "registry.push", TargetKind: "repository", TargetID: want.repository, Org: place.Org,
			Project: place.Project, Result: audit.Success,
			Metadata: map[string]any{"reference": want.reference, "digest": digest},
		})
	})
	if err != nil {
		s.cfg.Logger.ErrorContext(ctx, "a push could not be audited", "repository", want.repository, "digest", digest,
			"error", err)
	}
}

// watched remembers the status of an answer.
type watched struct {
	http.ResponseWriter

	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *watched) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// refuse answers as clients of registries expect: they show the message to their user.
func refuse(w http.ResponseWriter, err error) {
	f, ok := fault.As(err)
	if !ok {
		f, _ = fault.As(unavailable(err))
	}
	code, status := "UNKNOWN", http.StatusInternalServerError
	switch f.Kind {
	case fault.Unauthenticated:
		code, status = "UNAUTHORIZED", http.StatusUnauthorized
		w.Header().Set("Www-Authenticate", `Basic realm="gpuaas", charset="UTF-8"`)
	case fault.Forbidden:
		code, status = "DENIED", http.StatusForbidden
	case fault.NotFound:
		code, status = "NAME_UNKNOWN", http.StatusNotFound
	case fault.Invalid, fault.Conflict, fault.Stale:
		code, status = "UNSUPPORTED", http.StatusBadRequest
	case fault.RateLimited:
		code, status = "TOOMANYREQUESTS", http.StatusTooManyRequests
	case fault.Unavailable:
		code, status = "UNAVAILABLE", http.StatusServiceUnavailable
	case fault.Ambiguous, fault.Internal:
	}
	message := f.Message
	if f.Remedy != "" {
		message += ": " + f.Remedy
	}
	body, err := json.Marshal(map[string]any{"errors": []any{map[string]any{
		"code": code, "message": message, "detail": map[string]string{"code": f.Code},
	}}})
	if err != nil { // cannot fail: strings only
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // a client that has gone needs no answer
}

// Refuse answers a request that the API did not let in.
func (s *Service) Refuse(w http.ResponseWriter, _ *http.Request, err error) { refuse(w, err) }
