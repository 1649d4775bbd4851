package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi/internal/httpapidb"
	"gpuaas/controlplane/internal/engine/postgres"
)

const (
	keyHeader      = "Idempotency-Key"
	keyHeaderAlias = "X-Idempotency-Key"
	replayedHeader = "Idempotency-Replayed"
	maxKeyLength   = 128
	leaseMargin    = 15 * time.Second // longer than it takes to store an answer
	keysKeptFor    = 24 * time.Hour
)

// The headers that are replayed besides status and body.
var replayedHeaders = []string{"Content-Type", "ETag", "Location"}

// idempotency remembers which requests took effect and how they were answered.
type idempotency struct {
	db    *postgres.DB
	lease time.Duration
}

func newIdempotency(cfg Config) *idempotency {
	return &idempotency{db: cfg.DB, lease: cfg.Limits.RequestTimeout + leaseMargin}
}

// claim is the right to carry out a request. It lasts until the lease ends or a
// later attempt takes over.
type claim struct {
	caller, key string
	attempt     int32
}

func keyParameter() *huma.Param {
	longest := maxKeyLength
	return &huma.Param{
		Name: keyHeader, In: "header",
		Description: "Makes repeating the request safe: with the same key and the same request the first answer is given " +
			"again " +
			"(" + replayedHeader + ": true), and nothing happens twice. Kept for 24 hours. " + keyHeaderAlias +
			" is accepted too.",
		Schema: &huma.Schema{Type: huma.TypeString, MaxLength: &longest, Pattern: "^[!-~]+$"},
	}
}

// requestKey returns the key of a request. It is empty if the request has none
// or needs none. Keys of anonymous callers are ignored, because these callers
// cannot be told apart.
func requestKey(r *http.Request, op Operation) (string, error) {
	if !op.idempotent() {
		return "", nil
	}
	name, key := keyHeader, r.Header.Get(keyHeader)
	if key == "" {
		name, key = keyHeaderAlias, r.Header.Get(keyHeaderAlias)
	}
	if len(key) > maxKeyLength || bytes.ContainsFunc([]byte(key), func(c rune) bool { return c < '!' || c > '~' }) {
		return "", invalidField("header."+name, fmt.Sprintf("must be at most %d visible ASCII characters", maxKeyLength))
	}
	return key, nil
}

// hashed returns what tells requests of an operation apart besides their URL.
func (o Operation) hashed(principal *auth.Principal, body []byte) []byte {
	switch {
	case o.SecretRequest:
		return nil
	case o.OnToken:
		return append([]byte(principal.Token.String()), body...)
	}
	return body
}

// requestHash tells requests apart. It writes the length before each part, so
// that no two different requests give the same bytes.
func requestHash(r *http.Request, body []byte) []byte {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(r.Method), []byte(r.URL.EscapedPath()), []byte(r.URL.RawQuery), body} {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		_, _ = h.Write(size[:]) // a hash never fails
		_, _ = h.Write(part)
	}
	return h.Sum(nil)
}

// once carries out a request that has a key, unless that was done before.
func (a *API) once(w http.ResponseWriter, r *http.Request, op Operation, key string, body []byte,
	serve http.HandlerFunc,
) {
	ctx := r.Context()
	principal := auth.From(ctx)
	c := claim{caller: string(principal.Kind) + ":" + principal.ID, key: key}
	earlier, err := a.idempotency.begin(ctx, &c, requestHash(r, op.hashed(principal, body)))
	if err != nil {
		a.fail(w, r, err)
		return
	}
	if earlier != nil {
		earlier.replay(w)
		return
	}
	answer := &answer{header: http.Header{}}
	kept := false
	defer func() {
		if !kept { // also if the handler panicked
			a.idempotency.release(ctx, a, c)
		}
	}()
	serve(answer, r.WithContext(postgres.WithCommitHook(ctx, a.idempotency.markEffect(c))))
	if answer.worthKeeping() {
		kept = a.idempotency.keep(ctx, a, c, op, answer)
	}
	answer.send(w)
}

// begin claims the key, or returns the answer that an earlier request with it
// got.
func (i *idempotency) begin(ctx context.Context, c *claim, hash []byte) (*answer, error) {
	if i.db == nil {
		return nil, fault.New(fault.Unavailable, "idempotency_unavailable", "%s cannot be honoured here", keyHeader)
	}
	q := httpapidb.New(i.db)
	// The row can vanish between the two queries, when its holder releases it.
	for range 3 {
		attempt, err := q.ClaimKey(ctx, httpapidb.ClaimKeyParams{
			Caller: c.caller, Key: c.key, RequestHash: hash, LeaseSeconds: i.lease.Seconds(),
		})
		if err == nil {
			c.attempt = attempt
			return nil, nil //nolint:nilnil // no earlier answer, no failure: go ahead
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return nil, fmt.Errorf("claim idempotency key: %w", err)
		}
		state, err := q.KeyState(ctx, httpapidb.KeyStateParams{Caller: c.caller, Key: c.key})
		if errors.Is(err, pgx.ErrNoRows) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read idempotency key: %w", err)
		}
		return earlierAnswer(state, hash)
	}
	return nil, inProgress()
}

func inProgress() error {
	return &retryLaterError{after: time.Second, fault: fault.New(fault.Conflict, "idempotency_in_progress",
		"the first request with this %s is still being carried out", keyHeader).
		WithRemedy("repeat the same request in a moment")}
}

func earlierAnswer(state httpapidb.KeyStateRow, hash []byte) (*answer, error) {
	switch {
	case !bytes.Equal(state.RequestHash, hash):
		return nil, fault.New(fault.Conflict, "idempotency_key_reused", "this %s was used for a different request",
			keyHeader).
			WithRemedy("use a new key for a new request")
	case state.Status == nil && state.Locked:
		return nil, inProgress()
	case state.Status == nil && state.EffectCommitted:
		return nil, fault.New(fault.Conflict, "idempotency_outcome_unknown",
			"the first request with this %s took effect, but its answer was lost", keyHeader).
			WithRemedy("read the resource to see what it did; do not repeat it with another key before that")
	case state.Status == nil:
		return nil, inProgress() // its lease ended between the two queries
	case state.BodyWithheld:
		return nil, fault.New(fault.Conflict, "idempotency_response_withheld",
			"the request was carried out; its answer held a secret that is shown once and never stored").
			WithRemedy("if the secret was lost, revoke what was made and make it again with a new key")
	}
	earlier := &answer{status: int(*state.Status), header: http.Header{}}
	if err := json.Unmarshal(state.Headers, &earlier.header); err != nil {
		return nil, fmt.Errorf("read stored answer: %w", err)
	}
	_, _ = earlier.body.Write(state.Body) // a buffer never fails
	return earlier, nil
}

// markEffect runs in every transaction of the request. Once one commits, it is
// known that something happened, whatever becomes of the answer. If a
// repetition took over after the lease ended, markEffect stops this request.
func (i *idempotency) markEffect(c claim) postgres.TxFunc {
	return func(ctx context.Context, tx pgx.Tx) error {
		n, err := httpapidb.New(tx).MarkEffect(ctx,
			httpapidb.MarkEffectParams{Caller: c.caller, Key: c.key, Attempt: c.attempt})
		if err != nil {
			return fmt.Errorf("mark effect of request: %w", err)
		}
		if n == 0 {
			return fault.New(fault.Conflict, "idempotency_overtaken", "a repetition of this request took its place").
				WithRemedy("repeat the same request")
		}
		return nil
	}
}

// keep stores an answer, even if the caller has gone: the caller will repeat
// the request.
func (i *idempotency) keep(ctx context.Context, a *API, c claim, op Operation, answer *answer) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseMargin/2)
	defer cancel()
	headers := http.Header{}
	for _, name := range replayedHeaders {
		if v := answer.header.Values(name); len(v) > 0 {
			headers[http.CanonicalHeaderKey(name)] = v
		}
	}
	raw, err := json.Marshal(headers)
	if err != nil { // cannot fail: a map of strings
		panic(err)
	}
	status := int32(answer.status) //nolint:gosec // three digits
	params := httpapidb.StoreAnswerParams{
		Caller: c.caller, Key: c.key, Attempt: c.attempt, Status: &status, Headers: raw, Body: answer.body.Bytes(),
	}
	if op.SecretResponse && answer.status < http.StatusMultipleChoices {
		params.Body, params.BodyWithheld = nil, true
	}
	if _, err := httpapidb.New(i.db).StoreAnswer(ctx, params); err != nil {
		a.cfg.Logger.ErrorContext(ctx, "answer could not be stored under its Idempotency-Key", "operation", op.ID, "error",
			err)
		return false
	}
	return true
}

// release lets a later request with the key try again. If this one had an
// effect, the key stays and says so.
func (i *idempotency) release(ctx context.Context, a *API, c claim) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseMargin/2)
	defer cancel()
	q := httpapidb.New(i.db)
	n, err := q.ReleaseKey(ctx, httpapidb.ReleaseKeyParams{Caller: c.caller, Key: c.key, Attempt: c.attempt})
	if err == nil && n == 0 {
		_, err = q.UnlockKey(ctx, httpapidb.UnlockKeyParams{Caller: c.caller, Key: c.key, Attempt: c.attempt})
	}
	if err != nil { // the lease ends by itself
		a.cfg.Logger.ErrorContext(ctx, "Idempotency-Key could not be released", "error", err)
	}
}

func (i *idempotency) sweep(ctx context.Context) (int64, error) {
	if i.db == nil {
		return 0, nil
	}
	n, err := httpapidb.New(i.db).SweepKeys(ctx, keysKeptFor.Seconds())
	if err != nil {
		return 0, fmt.Errorf("sweep idempotency keys: %w", err)
	}
	return n, nil
}

// answer holds a response back until it is stored.
type answer struct {
	status int
	header http.Header
	body   bytes.Buffer
}

// Header returns the headers of the answer.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader sets the status.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// Write adds to the body.
func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(b)
}

// worthKeeping excludes answers that say nothing about the request itself.
func (a *answer) worthKeeping() bool {
	switch a.status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		return false
	}
	return a.status < http.StatusInternalServerError
}

func (a *answer) replay(w http.ResponseWriter) {
	a.header.Set(replayedHeader, "true")
	a.send(w)
}

func (a *answer) send(w http.ResponseWriter) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	if a.status == 0 {
		a.status = http.StatusOK
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes()) // a caller that has gone will ask again
}
