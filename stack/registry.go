package stack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"syscall"

	"golang.org/x/crypto/bcrypt"
)

const (
	registryUser         = "gpuaas"
	registryPasswordFile = "registry-password"
	registrySecretFile   = "registry-uploads"
)

// registry is the registry from gpuaas-registry. Only the control plane knows its
// password; everybody else comes through the control plane.
type registry struct {
	nursery  *nursery
	program  string
	port     int
	password string
}

func newRegistry(n *nursery, ports *portBook) (*registry, error) {
	path, err := registryProgram.find("")
	if err != nil {
		return nil, err
	}
	port, err := ports.take("registry", 5000)
	if err != nil {
		return nil, err
	}
	password, err := n.folder.secret(registryPasswordFile)
	if err != nil {
		return nil, err
	}
	return &registry{nursery: n, program: path, port: port, password: password}, nil
}

func (r *registry) address() string { return "http://" + hostPort(r.port) }

func (r *registry) describe(e *Endpoints) {
	e.RegistryURL, e.RegistryUser = r.address(), registryUser
	e.RegistryFolder = r.nursery.folder.path("registry", "data")
	e.RegistryPasswordFile = r.nursery.folder.secretFile(registryPasswordFile)
}

func (r *registry) launch(ctx context.Context, _ func(string)) (instance, error) {
	file, err := r.configure()
	if err != nil {
		return nil, err
	}
	server, err := r.nursery.spawn(program{
		engine: Registry, path: r.program, args: []string{"--config", file},
		dir: r.nursery.folder.path("registry"), stop: syscall.SIGTERM,
	})
	if err != nil {
		return nil, err
	}
	if err := server.answers(ctx, r.ask); err != nil {
		server.stop(ctx)
		return nil, err
	}
	return server, nil
}

// configure writes the configuration of Distribution, which is YAML, and so may be JSON.
func (r *registry) configure() (string, error) {
	type object = map[string]any
	f := r.nursery.folder
	if err := os.MkdirAll(f.path("registry", "data"), 0o700); err != nil {
		return "", fmt.Errorf("make folder: %w", err)
	}
	uploads, err := f.secret(registrySecretFile)
	if err != nil {
		return "", err
	}
	// The password is random and long: a costly hash would only make each request slow.
	hash, err := bcrypt.GenerateFromPassword([]byte(r.password), bcrypt.MinCost)
	if err != nil {
		return "", fmt.Errorf("hash password: %w", err)
	}
	passwords, file := f.path("registry", "passwords"), f.path("registry", "config.json")
	return file, errors.Join(
		writeFile(passwords, fmt.Appendf(nil, "%s:%s\n", registryUser, hash)),
		writeJSON(file, object{
			"version": "0.1",
			"log":     object{"level": "warn", "accesslog": object{"disabled": true}},
			"storage": object{
				"filesystem": object{"rootdirectory": f.path("registry", "data")},
				"redirect":   object{"disable": true},
				"maintenance": object{"uploadpurging": object{
					"enabled": true, "age": "24h", "interval": "1h", "dryrun": false,
				}},
			},
			"http": object{
				"addr": hostPort(r.port), "relativeurls": true, "secret": uploads, "draintimeout": "5s",
			},
			"auth": object{"htpasswd": object{"realm": "gpuaas", "path": passwords}},
		}))
}

func (r *registry) ask(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.address()+"/v2/", nil)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	request.SetBasicAuth(registryUser, r.password)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("ask: %w", err)
	}
	if err := answer.Body.Close(); err != nil {
		return fmt.Errorf("ask: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("ask: it answers with status %d", answer.StatusCode)
	}
	return nil
}
