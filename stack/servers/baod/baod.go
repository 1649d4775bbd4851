// Package baod serves an embedded OpenBao core over HTTP on loopback: KV v2,
// PKI and transit engines, AppRole login, files that survive a power cut. It
// starts sealed; the launcher initialises and unseals it through the same API
// that any OpenBao or Vault offers.
package baod

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	log "github.com/hashicorp/go-hclog"
	"github.com/openbao/openbao/command/server"
	baohttp "github.com/openbao/openbao/http"
	"github.com/openbao/openbao/internalshared/configutil"
	"github.com/openbao/openbao/vault"
	"gpuaas-servers/durablefile"
)

// Config is what the launcher writes for this server.
type Config struct {
	Address string `json:"address"` // host:port to listen on
	Storage string `json:"storage"` // folder of the encrypted store
}

// Serve runs the server until ctx ends.
func Serve(ctx context.Context, c Config) error {
	logger := log.New(&log.LoggerOptions{Level: log.Warn, Output: os.Stderr})
	core, err := newCore(c, logger)
	if err != nil {
		return fmt.Errorf("open OpenBao on %s: %w", c.Storage, err)
	}
	listener, err := net.Listen("tcp", c.Address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", c.Address, err)
	}
	api := &http.Server{Handler: handler(core, c.Address), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- api.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve %s: %w", c.Address, err)
	case <-ctx.Done():
	}
	return stop(api, core)
}

func newCore(c Config, logger log.Logger) (*vault.Core, error) {
	storage, err := durablefile.Open(c.Storage, logger)
	if err != nil {
		return nil, fmt.Errorf("open storage: %w", err)
	}
	return vault.NewCore(&vault.CoreConfig{
		Physical:           storage,
		StorageType:        "file",
		Logger:             logger,
		LogLevel:           "warn",
		BuiltinRegistry:    builtins{},
		LogicalBackends:    engines,
		CredentialBackends: logins,
		AuditBackends:      audits,
		RedirectAddr:       "http://" + c.Address,
		RawConfig:          &server.Config{SharedConfig: &configutil.SharedConfig{}},
	})
}

// handler must name a listener, because OpenBao dereferences it on every
// request.
func handler(core *vault.Core, address string) http.Handler {
	return baohttp.Handler.Handler(&vault.HandlerProperties{
		Core: core,
		ListenerConfig: &configutil.Listener{
			Type: "tcp", Address: address, TLSDisable: true, DisableUnauthedRekeyEndpoints: true,
		},
	})
}

// stop lets running requests finish, then seals. Sealing waits for storage
// writes, so the process ends with nothing half written.
func stop(api *http.Server, core *vault.Core) error {
	drain, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	err := api.Shutdown(drain)
	if errors.Is(err, context.DeadlineExceeded) {
		err = api.Close()
	}
	return errors.Join(err, core.ShutdownWait())
}
