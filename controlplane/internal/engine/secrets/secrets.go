// Package secrets is the only way to the secrets engine (OpenBao or Vault),
// which is the only place that keeps secrets. Everything else keeps paths.
package secrets

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/openbao/openbao/api/v2"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
)

// Config says how to reach the engine and as whom. Credentials are files, so
// they can be replaced while the product runs and never appear on a command
// line.
type Config struct {
	Address      string
	CAFile       string
	RoleIDFile   string
	SecretIDFile string
	KVMount      string
}

// Engine is a client that signs in and stays signed in.
type Engine struct {
	cfg    Config
	client *api.Client
	now    func() time.Time

	mu        sync.Mutex
	signedIn  bool
	refreshAt time.Time
}

// Open prepares a client without connecting.
func Open(cfg Config) (*Engine, error) {
	ac := api.DefaultConfig()
	if ac.Error != nil {
		return nil, fmt.Errorf("prepare secrets client: %w", ac.Error)
	}
	ac.Address = cfg.Address
	ac.MaxRetries = 0 // the workflow that wants the secret repeats the call
	ac.Timeout = 10 * time.Second
	if cfg.CAFile != "" {
		if err := ac.ConfigureTLS(&api.TLSConfig{CACert: cfg.CAFile}); err != nil {
			return nil, fmt.Errorf("read CA file of the secrets engine: %w", err)
		}
	}
	client, err := api.NewClient(ac)
	if err != nil {
		return nil, fmt.Errorf("prepare secrets client: %w", err)
	}
	client.ClearToken() // the library would take one from the environment
	return &Engine{cfg: cfg, client: client, now: time.Now}, nil
}

// ErrNotFound says that there is no secret at a path.
var ErrNotFound = fault.New(fault.NotFound, "secret_not_found", "there is no secret at this path")

const codeRefused = "secrets_refused"

// Put stores a secret and replaces what the path held.
func (e *Engine) Put(ctx context.Context, path string, values map[string]redact.Secret) error {
	plain := make(map[string]any, len(values))
	for k, v := range values {
		plain[k] = v.Reveal()
	}
	return e.do(ctx, "write secret "+path, func() error {
		_, err := e.client.KVv2(e.cfg.KVMount).Put(ctx, path, plain)
		return err
	})
}

// Get reads a secret.
func (e *Engine) Get(ctx context.Context, path string) (map[string]redact.Secret, error) {
	var out map[string]redact.Secret
	err := e.do(ctx, "read secret "+path, func() error {
		kv, err := e.client.KVv2(e.cfg.KVMount).Get(ctx, path)
		if err != nil {
			return err
		}
		if kv.Data == nil { // deleted; its metadata is still there
			return api.ErrSecretNotFound
		}
		out = make(map[string]redact.Secret, len(kv.Data))
		for k, v := range kv.Data {
			s, ok := v.(string)
			if !ok {
				return fault.New(fault.Internal, "secret_malformed", "field %s of secret %s is not a string", k, path)
			}
			out[k] = redact.New(s)
		}
		return nil
	})
	return out, err
}

// Delete removes a secret with all its versions.
func (e *Engine) Delete(ctx context.Context, path string) error {
	return e.do(ctx, "delete secret "+path, func() error {
		return e.client.KVv2(e.cfg.KVMount).DeleteMetadata(ctx, path)
	})
}

// Check asks whether the engine is up, unsealed and accepts our sign-in.
func (e *Engine) Check(ctx context.Context) error {
	return e.do(ctx, "look up own token", func() error {
		_, err := e.client.Auth().Token().LookupSelfWithContext(ctx)
		return err
	})
}

// do makes a call with the present token. If the engine no longer accepts the
// token (it expired early, or the engine restarted), do signs in and repeats
// the call once.
func (e *Engine) do(ctx context.Context, what string, call func() error) error {
	if err := e.signIn(ctx, false); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	err := call()
	if refused(err) {
		if err := e.signIn(ctx, true); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		err = call()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, e.classify(err))
	}
	return nil
}

func (e *Engine) signIn(ctx context.Context, again bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.signedIn && !again && e.now().Before(e.refreshAt) {
		return nil
	}
	roleID, err := credential(e.cfg.RoleIDFile)
	if err != nil {
		return err
	}
	secretID, err := credential(e.cfg.SecretIDFile)
	if err != nil {
		return err
	}
	answer, err := e.client.Logical().WriteWithContext(ctx, "auth/approle/login",
		map[string]any{"role_id": roleID.Reveal(), "secret_id": secretID.Reveal()})
	if err != nil {
		return e.classify(err)
	}
	if answer == nil || answer.Auth == nil {
		return fault.New(fault.Internal, "secrets_login_malformed", "the secrets engine answered the sign-in without a token")
	}
	e.client.SetToken(answer.Auth.ClientToken)
	e.signedIn = true
	e.refreshAt = e.now().Add(time.Duration(answer.Auth.LeaseDuration) * time.Second * 2 / 3)
	return nil
}

func credential(file string) (redact.Secret, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return redact.Secret{}, fault.Wrap(err, fault.Unavailable, "secrets_credentials_unreadable",
			"a credential file of the secrets engine cannot be read").
			WithRemedy("check role_id_file and secret_id_file of this role below secrets")
	}
	return redact.New(strings.TrimSpace(string(b))), nil
}

func refused(err error) bool {
	var re *api.ResponseError
	return errors.As(err, &re) && re.StatusCode == http.StatusForbidden
}

// classify keeps the engine's own texts out of the fault, because an answer may
// quote the request. Storing and deleting are safe to repeat, so no failure
// here is ambiguous.
func (e *Engine) classify(err error) error {
	if _, ok := fault.As(err); ok {
		return err
	}
	if errors.Is(err, api.ErrSecretNotFound) {
		return ErrNotFound
	}
	var re *api.ResponseError
	if errors.As(err, &re) {
		switch re.StatusCode {
		case http.StatusNotFound:
			return ErrNotFound
		case http.StatusForbidden, http.StatusBadRequest:
			// Nothing was accepted, and it works once an operator has corrected
			// the AppRole or its policy: unavailable, not a defect.
			return fault.New(fault.Unavailable, codeRefused, "the secrets engine refused the request with status %d",
				re.StatusCode).
				WithRemedy("check the AppRole of this role and its policy against those in deploy/openbao")
		}
		return unavailable(fmt.Errorf("status %d", re.StatusCode), e.cfg.Address)
	}
	return unavailable(err, e.cfg.Address)
}

func unavailable(cause error, address string) error {
	return fault.Wrap(cause, fault.Unavailable, "secrets_unavailable",
		"the secrets engine at %s cannot be reached or is sealed", address).
		WithRemedy("check that OpenBao or Vault is running and unsealed")
}
