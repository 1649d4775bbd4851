// Package temporald runs a whole Temporal server (frontend, history, matching
// and worker service) in this process, on PostgreSQL, all on loopback.
package temporald

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/temporal"
)

const (
	loopback    = "127.0.0.1"
	clusterName = "active"
)

// Config is what the launcher writes for this server. The databases exist and
// belong to the user; the server makes and upgrades their tables.
type Config struct {
	FrontendPort  int      `json:"frontend_port"`
	HistoryPort   int      `json:"history_port"`
	MatchingPort  int      `json:"matching_port"`
	WorkerPort    int      `json:"worker_port"`
	HistoryShards int32    `json:"history_shards"` // fixed for the life of the databases
	TLS           TLS      `json:"tls"`
	Postgres      Postgres `json:"postgres"`
}

// TLS is the certificate of all services, also as clients of each other, and
// the CA that must have signed the certificate of everybody who connects.
type TLS struct {
	CAFile   string `json:"ca_file"`
	CertFile string `json:"cert_file"`
	KeyFile  string `json:"key_file"`
}

// Postgres names the two databases of the server and who opens them.
type Postgres struct {
	Address            string `json:"address"`
	User               string `json:"user"`
	Password           string `json:"password"`
	Database           string `json:"database"`
	VisibilityDatabase string `json:"visibility_database"`
	MaxConnections     int    `json:"max_connections"` // per service and database
}

// stopLimit limits an orderly end. What the server still does then is repeated
// safely from PostgreSQL by the next one.
const stopLimit = 3 * time.Second

// Serve runs the server until ctx ends.
func Serve(ctx context.Context, c Config) error {
	if c.TLS.CAFile == "" || c.TLS.CertFile == "" || c.TLS.KeyFile == "" {
		return errors.New("start temporal: the configuration names no certificates, and without them every account of this " +
			"machine could give orders")
	}
	logger := log.NewZapLogger(log.BuildZapLogger(log.Config{Level: "warn", Format: "console"}))
	var server temporal.Server
	started := make(chan error, 1)
	go func() {
		var err error
		server, err = start(c, logger)
		started <- err
	}()
	select {
	case err := <-started:
		if err != nil {
			return err
		}
	case <-ctx.Done():
		return nil // half started: there is no orderly way to stop it
	}
	<-ctx.Done()
	return stop(server)
}

func stop(server temporal.Server) error {
	stopped := make(chan error, 1)
	go func() { stopped <- server.Stop() }()
	select {
	case err := <-stopped:
		if err != nil {
			return fmt.Errorf("stop temporal: %w", err)
		}
		return nil
	case <-time.After(stopLimit):
		return fmt.Errorf("stop temporal: not done after %v", stopLimit)
	}
}

func start(c Config, logger log.Logger) (temporal.Server, error) {
	if err := migrate(c.Postgres, logger); err != nil {
		return nil, err
	}
	server, err := temporal.NewServer(
		temporal.WithConfig(serverConfig(c)),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithLogger(logger),
		temporal.WithStaticHosts(staticHosts(c)),
	)
	if err != nil {
		return nil, fmt.Errorf("configure temporal: %w", err)
	}
	if err := server.Start(); err != nil {
		return nil, fmt.Errorf("start temporal: %w", err)
	}
	return server, nil
}

func (c Config) ports() map[primitives.ServiceName]int {
	return map[primitives.ServiceName]int{
		primitives.FrontendService: c.FrontendPort,
		primitives.HistoryService:  c.HistoryPort,
		primitives.MatchingService: c.MatchingPort,
		primitives.WorkerService:   c.WorkerPort,
	}
}

// staticHosts replaces gossip membership: one host needs none, and gossip on
// PostgreSQL breaks for ports above 32767 (the column is an int2).
func staticHosts(c Config) map[primitives.ServiceName]static.Hosts {
	hosts := map[primitives.ServiceName]static.Hosts{}
	for service, port := range c.ports() {
		hosts[service] = static.SingleLocalHost(hostPort(port))
	}
	return hosts
}

func serverConfig(c Config) *config.Config {
	frontend := hostPort(c.FrontendPort)
	services := map[string]config.Service{}
	for service, port := range c.ports() {
		services[string(service)] = config.Service{RPC: config.RPC{GRPCPort: port, BindOnLocalHost: true}}
	}
	const disabled = "disabled"
	return &config.Config{
		Global:      config.Global{TLS: mutualTLS(c.TLS)},
		Persistence: persistence(c),
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10,
			MasterClusterName:        clusterName,
			CurrentClusterName:       clusterName,
			ClusterInformation: map[string]cluster.ClusterInformation{
				clusterName: {Enabled: true, InitialFailoverVersion: 1, RPCAddress: frontend},
			},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		Archival: config.Archival{
			History:    config.HistoryArchival{State: disabled},
			Visibility: config.VisibilityArchival{State: disabled},
		},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: disabled},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: disabled},
		}},
		PublicClient: config.PublicClient{HostPort: frontend},
		Services:     services,
	}
}

// mutualTLS guards every port: that of clients and those between the services.
// Each refuses a caller without a certificate of our CA.
func mutualTLS(c TLS) config.RootTLS {
	client := config.ClientTLS{ServerName: loopback, RootCAFiles: []string{c.CAFile}}
	group := config.GroupTLS{
		Client: client,
		Server: config.ServerTLS{
			CertFile: c.CertFile, KeyFile: c.KeyFile, ClientCAFiles: []string{c.CAFile}, RequireClientAuth: true,
		},
	}
	return config.RootTLS{
		Internode: group, Frontend: group,
		SystemWorker: config.WorkerTLS{CertFile: c.CertFile, KeyFile: c.KeyFile, Client: client},
	}
}

func hostPort(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
