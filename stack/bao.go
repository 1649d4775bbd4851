package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/openbao/openbao/api/v2"

	"gpuaas/deploy/openbao"
)

const (
	baoKeysFile     = "UNSEAL-EMBEDDED-USE-ONLY.json"
	baoRoleIDFile   = "bao-role-id"
	baoSecretIDFile = "bao-secret-id"
	baoKeysNotice   = "Whoever reads this file owns every secret of this stack. It lies beside the data so that the " +
		"embedded stack can start unattended. Do not copy it, do not use this arrangement for a secrets engine that serves " +
		"production: run your own OpenBao or Vault and name it in the configuration."
	baoKeysLostHelp = "restore that file from a backup, or delete the folder beside it to begin with an empty secrets " +
		"engine"
)

// bao is the OpenBao server from gpuaas-servers. The stack initialises, unseals
// and sets it up through the HTTP API that any OpenBao offers.
type bao struct {
	nursery *nursery
	program string
	port    int
}

// baoConfig is read by gpuaas-servers; see stack/servers/baod.
type baoConfig struct {
	Address string `json:"address"`
	Storage string `json:"storage"`
}

// baoKeys is the content of the unseal file.
type baoKeys struct {
	Notice    string `json:"NOTICE"`
	UnsealKey string `json:"unseal_key"`
	RootToken string `json:"root_token"`
}

func newBao(n *nursery, ports *portBook, servers string) (*bao, error) {
	path, err := findServers(servers)
	if err != nil {
		return nil, err
	}
	port, err := ports.take("bao", 8200)
	if err != nil {
		return nil, err
	}
	return &bao{nursery: n, program: path, port: port}, nil
}

func (b *bao) address() string  { return "http://" + hostPort(b.port) }
func (b *bao) storage() string  { return b.nursery.folder.path("bao", "data") }
func (b *bao) keysFile() string { return b.nursery.folder.path("bao", baoKeysFile) }

func (b *bao) describe(e *Endpoints) {
	e.SecretsAddress = b.address()
	e.SecretsRoleIDFile = b.nursery.folder.secretFile(baoRoleIDFile)
	e.SecretsSecretIDFile = b.nursery.folder.secretFile(baoSecretIDFile)
	for _, r := range openbao.Roles() {
		as := identityOf(r)
		*e.appRole(r) = AppRole{b.nursery.folder.secretFile(as.roleIDFile), b.nursery.folder.secretFile(as.secretIDFile)}
	}
}

func (b *bao) launch(ctx context.Context, say func(string)) (instance, error) {
	first := b.nursery.folder.unfinished(OpenBao)
	if err := b.ensureStorage(first); err != nil {
		return nil, err
	}
	file := b.nursery.folder.path("bao", "config.json")
	if err := writeJSON(file, baoConfig{Address: hostPort(b.port), Storage: b.storage()}); err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	server, err := b.nursery.spawn(program{
		engine: OpenBao, path: b.program, args: []string{"bao", "--config", file},
		dir: b.nursery.folder.path("bao"), stop: syscall.SIGTERM,
	})
	if err != nil {
		return nil, err
	}
	if err := b.setUp(ctx, server, first, say); err != nil {
		server.stop(ctx)
		return nil, err
	}
	return server, nil
}

// ensureStorage empties a store whose first set-up was cut short: its keys may
// never have reached the disk, and nobody has used it.
func (b *bao) ensureStorage(first mark) error {
	if err := os.MkdirAll(b.nursery.folder.path("bao"), 0o700); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	if first.present() {
		if err := errors.Join(os.RemoveAll(b.storage()), os.RemoveAll(b.keysFile())); err != nil {
			return fmt.Errorf("remove unfinished store: %w", err)
		}
	}
	if _, err := os.Stat(b.storage()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := first.set(); err != nil {
		return fmt.Errorf("mark unfinished set-up: %w", err)
	}
	return os.Mkdir(b.storage(), 0o700)
}

func (b *bao) setUp(ctx context.Context, server *process, first mark, say func(string)) error {
	c, err := b.client("")
	if err != nil {
		return err
	}
	var status *api.SealStatusResponse
	up := func(ctx context.Context) (err error) {
		status, err = c.Sys().SealStatusWithContext(ctx)
		return err
	}
	if err := server.answers(ctx, up); err != nil {
		return err
	}
	if !status.Initialized {
		say("initialising (first start)")
		if err := b.initialise(ctx, c); err != nil {
			return err
		}
	}
	keys, err := b.readKeys()
	if err != nil {
		return err
	}
	if _, err := c.Sys().UnsealWithContext(ctx, keys.UnsealKey); err != nil {
		return fmt.Errorf("unseal with the key from %s: %w", b.keysFile(), err)
	}
	c.SetToken(keys.RootToken)
	// OpenBao answers the unsealing before the mounts of the engine are loaded.
	ready := func(ctx context.Context) error {
		_, err := c.Sys().ListMountsWithContext(ctx)
		return err
	}
	if err := server.answers(ctx, ready); err != nil {
		return err
	}
	if err := b.ensureContents(ctx, c, say); err != nil {
		return err
	}
	return first.clear()
}

func (b *bao) initialise(ctx context.Context, c *api.Client) error {
	made, err := c.Sys().InitWithContext(ctx, &api.InitRequest{SecretShares: 1, SecretThreshold: 1})
	if err != nil {
		return fmt.Errorf("initialise: %w", err)
	}
	if len(made.KeysB64) != 1 {
		return fmt.Errorf("initialise: got %d unseal keys, want 1", len(made.KeysB64))
	}
	keys := baoKeys{Notice: baoKeysNotice, UnsealKey: made.KeysB64[0], RootToken: made.RootToken}
	if err := writeJSON(b.keysFile(), keys); err != nil {
		return fmt.Errorf("keep unseal key: %w", err)
	}
	return nil
}

func (b *bao) readKeys() (baoKeys, error) {
	var keys baoKeys
	content, err := os.ReadFile(b.keysFile())
	if err == nil {
		err = json.Unmarshal(content, &keys)
	}
	if err != nil {
		return baoKeys{}, fmt.Errorf("read unseal key: %w; %s", err, baoKeysLostHelp)
	}
	return keys, nil
}

// client ignores VAULT_* and BAO_* variables of the caller: they belong to
// another engine.
func (b *bao) client(token string) (*api.Client, error) {
	config := api.NewConfig()
	config.DisableEnvironment = true
	config.Address = b.address()
	config.MaxRetries = 0
	c, err := api.NewClient(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	c.SetToken(token)
	return c, nil
}
