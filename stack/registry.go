package stack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"syscall"
	"time"
)

const registrySecretFile = "registry-uploads"

// registry is the registry from gpuaas-registry. It lets in only the control plane, by the
// certificate of a CA of its own; everybody else comes through the control plane.
type registry struct {
	nursery *nursery
	program string
	port    int
	certs   certificates
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
	r := &registry{nursery: n, program: path, port: port, certs: certificates{n.folder.path("registry", "tls")}}
	return r, r.certs.ensure(time.Now())
}

func (r *registry) address() string { return "https://" + hostPort(r.port) }

func (r *registry) describe(e *Endpoints) {
	e.RegistryURL, e.RegistryFolder = r.address(), r.nursery.folder.path("registry", "data")
	e.RegistryCAFile, e.RegistryCertFile, e.RegistryKeyFile = r.certs.ca(), r.certs.client(), r.certs.clientKey()
}

func (r *registry) launch(ctx context.Context, _ func(string)) (instance, error) {
	file, err := r.configure()
	if err != nil {
		return nil, err
	}
	client, err := ClientTLS(r.certs.ca(), r.certs.client(), r.certs.clientKey())
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
	transport := &http.Transport{TLSClientConfig: client, DisableKeepAlives: true}
	if err := server.answers(ctx, func(ctx context.Context) error { return r.ask(ctx, transport) }); err != nil {
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
	file := f.path("registry", "config.json")
	return file, writeJSON(file, object{
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
			"tls": object{
				"certificate": r.certs.server(), "key": r.certs.serverKey(), "clientcas": []string{r.certs.ca()},
				"minimumtls": "tls1.3",
			},
		},
	})
}

func (r *registry) ask(ctx context.Context, as http.RoundTripper) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.address()+"/v2/", nil)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	answer, err := as.RoundTrip(request)
	if err != nil {
		return fmt.Errorf("ask: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("ask: it answers with status %d", answer.StatusCode)
	}
	return errors.Join(err, answer.Body.Close())
}
