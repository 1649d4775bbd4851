package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	temporalNamespace  = "gpuaas"
	temporalRetention  = 30 * 24 * time.Hour
	temporalShards     = 4  // cannot change once the databases exist
	temporalMaxConns   = 12 // per service and database; eight pools in all
	temporalDatabase   = "temporal"
	visibilityDatabase = "temporal_visibility"
)

// searchAttributes are how operators and the console find workflows.
var searchAttributes = []string{"site_id", "hostname", "status", "current_stage", "batch_id"}

// temporal is the server from gpuaas-servers on databases of the private
// PostgreSQL.
type temporal struct {
	nursery  *nursery
	program  string
	postgres *postgres
	certs    certificates
	config   temporalConfig
}

// temporalConfig is read by gpuaas-servers; see stack/servers/temporald.
type temporalConfig struct {
	FrontendPort  int              `json:"frontend_port"`
	HistoryPort   int              `json:"history_port"`
	MatchingPort  int              `json:"matching_port"`
	WorkerPort    int              `json:"worker_port"`
	HistoryShards int              `json:"history_shards"`
	TLS           temporalTLS      `json:"tls"`
	Postgres      temporalPostgres `json:"postgres"`
}

type temporalTLS struct {
	CAFile   string `json:"ca_file"`
	CertFile string `json:"cert_file"`
	KeyFile  string `json:"key_file"`
}

type temporalPostgres struct {
	Address            string `json:"address"`
	User               string `json:"user"`
	Password           string `json:"password"`
	Database           string `json:"database"`
	VisibilityDatabase string `json:"visibility_database"`
	MaxConnections     int    `json:"max_connections"`
}

func newTemporal(n *nursery, ports *portBook, servers string, p *postgres) (*temporal, error) {
	path, err := findServers(servers)
	if err != nil {
		return nil, err
	}
	certs := certificates{n.folder.path("temporal", "tls")}
	if err := certs.ensure(time.Now()); err != nil {
		return nil, err
	}
	t := &temporal{nursery: n, program: path, postgres: p, certs: certs, config: temporalConfig{
		HistoryShards: temporalShards,
		TLS:           temporalTLS{CAFile: certs.ca(), CertFile: certs.server(), KeyFile: certs.serverKey()},
		Postgres: temporalPostgres{
			Address:            p.address(),
			User:               temporalRole,
			Password:           p.passwords[temporalRole],
			Database:           temporalDatabase,
			VisibilityDatabase: visibilityDatabase,
			MaxConnections:     temporalMaxConns,
		},
	}}
	for _, port := range []struct {
		name  string
		usual int
		to    *int
	}{
		{"temporal", 7233, &t.config.FrontendPort},
		{"temporal-history", 7234, &t.config.HistoryPort},
		{"temporal-matching", 7235, &t.config.MatchingPort},
		{"temporal-worker", 7239, &t.config.WorkerPort},
	} {
		if *port.to, err = ports.take(port.name, port.usual); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *temporal) address() string { return hostPort(t.config.FrontendPort) }

func (t *temporal) describe(e *Endpoints) {
	e.TemporalAddress, e.TemporalNamespace = t.address(), temporalNamespace
	e.TemporalCAFile, e.TemporalCertFile, e.TemporalKeyFile = t.certs.ca(), t.certs.client(), t.certs.clientKey()
}

func (t *temporal) launch(ctx context.Context, say func(string)) (instance, error) {
	home := t.nursery.folder.path("temporal")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	first := t.nursery.folder.unfinished(Temporal)
	if err := t.ensureDatabases(ctx, first, say); err != nil {
		return nil, err
	}
	file := t.nursery.folder.path("temporal", "config.json")
	if err := writeJSON(file, t.config); err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	server, err := t.nursery.spawn(program{
		engine: Temporal, path: t.program, args: []string{"temporal", "--config", file},
		dir: home, stop: syscall.SIGTERM,
	})
	if err != nil {
		return nil, err
	}
	if err := t.setUp(ctx, server, first); err != nil {
		server.stop(ctx)
		return nil, err
	}
	return server, nil
}

// ensureDatabases leaves either two databases that a server has used before or
// two empty ones: Temporal's own schema tool cannot resume a first set-up that
// was cut short.
func (t *temporal) ensureDatabases(ctx context.Context, first mark, say func(string)) error {
	conn, err := t.postgres.connect(ctx, superuserDatabase)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := t.postgres.ensureLogin(ctx, conn, temporalRole); err != nil {
		return err
	}
	databases := []string{temporalDatabase, visibilityDatabase}
	if first.present() {
		for _, name := range databases {
			if _, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)"); err != nil {
				return fmt.Errorf("drop unfinished database %s: %w", name, err)
			}
		}
	}
	var absent []string
	for _, name := range databases {
		exists, err := databaseExists(ctx, conn, name)
		if err != nil {
			return err
		}
		if !exists {
			absent = append(absent, name)
		}
	}
	if len(absent) == len(databases) { // never if there is data that a failure would then drop
		if err := first.set(); err != nil {
			return fmt.Errorf("mark unfinished set-up: %w", err)
		}
	}
	for _, name := range absent {
		say("making database " + name)
		if err := createDatabase(ctx, conn, name, temporalRole); err != nil {
			return err
		}
		if err := reserveDatabase(ctx, conn, name, temporalRole); err != nil {
			return err
		}
	}
	return nil
}

// setUp waits for the frontend and makes the namespace. It makes the client
// only when the port is open: a refused connection would make gRPC wait a
// second.
func (t *temporal) setUp(ctx context.Context, server *process, first mark) error {
	open := func(ctx context.Context) error { return listening(ctx, t.address()) }
	if err := server.answers(ctx, open); err != nil {
		return err
	}
	trust, err := ClientTLS(t.certs.ca(), t.certs.client(), t.certs.clientKey())
	if err != nil {
		return err
	}
	c, err := client.NewLazyClient(client.Options{
		HostPort: t.address(), Namespace: temporalNamespace, Logger: silent{},
		ConnectionOptions: client.ConnectionOptions{TLS: trust},
	})
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	defer c.Close()
	healthy := func(ctx context.Context) error {
		_, err := c.CheckHealth(ctx, &client.CheckHealthRequest{})
		return err
	}
	if err := server.answers(ctx, healthy); err != nil {
		return err
	}
	usable, err := MakeNamespace(ctx, c, temporalNamespace)
	if err != nil {
		return err
	}
	if err := server.answers(ctx, usable); err != nil {
		return err
	}
	return first.clear()
}

// MakeNamespace makes a namespace with the product's search attributes, if it is
// not there yet. The caches of the server learn of it a moment later: usable
// returns no error from then on. It registers without looking first: otherwise
// the server would remember for a while that the namespace is unknown.
func MakeNamespace(
	ctx context.Context, c client.Client, name string,
) (usable func(context.Context) error, err error) {
	_, err = c.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace:                        name,
		Description:                      "gpuaas control plane",
		WorkflowExecutionRetentionPeriod: durationpb.New(temporalRetention),
	})
	var exists *serviceerror.NamespaceAlreadyExists
	if err != nil && !errors.As(err, &exists) {
		return nil, fmt.Errorf("make namespace %s: %w", name, err)
	}
	absent, err := absentAttributes(ctx, c, name)
	if err != nil {
		return nil, err
	}
	if len(absent) > 0 {
		_, err = c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
			Namespace: name, SearchAttributes: absent,
		})
		if err != nil {
			return nil, fmt.Errorf("add search attributes: %w", err)
		}
	}
	return func(ctx context.Context) error {
		_, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: name, PageSize: 1, Query: attributeQuery(),
		})
		return err
	}, nil
}

func absentAttributes(
	ctx context.Context, c client.Client, namespace string,
) (map[string]enumspb.IndexedValueType, error) {
	known, err := c.OperatorService().ListSearchAttributes(ctx,
		&operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return nil, fmt.Errorf("list search attributes: %w", err)
	}
	absent := map[string]enumspb.IndexedValueType{}
	for _, name := range searchAttributes {
		if _, ok := known.GetCustomAttributes()[name]; !ok {
			absent[name] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
		}
	}
	return absent, nil
}

// attributeQuery mentions every search attribute once.
func attributeQuery() string {
	return strings.Join(searchAttributes, ` = "none" AND `) + ` = "none"`
}

// silent keeps the set-up client from writing to the launcher's terminal;
// errors are returned.
type silent struct{}

var _ log.Logger = silent{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}
