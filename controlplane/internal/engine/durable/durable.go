// Package durable is the only way to Temporal: the client, the worker, the
// delivery of workflow starts that transactions recorded, and the translation
// between faults and what a workflow history may hold.
package durable

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/opentelemetry"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"gpuaas/controlplane/internal/base/fault"
)

// TaskQueue is the queue that all workers of the product serve.
const TaskQueue = "gpuaas"

// Config says how to reach Temporal.
type Config struct {
	Address    string
	Namespace  string
	CAFile     string
	CertFile   string
	KeyFile    string
	ServerName string
}

// TLS says whether the connection is encrypted and the server verified.
func (c Config) TLS() bool { return c.CAFile != "" || c.CertFile != "" || c.ServerName != "" }

// Client starts, signals and cancels workflows.
type Client struct {
	temporal  client.Client
	cfg       Config
	logger    *slog.Logger
	marked    atomic.Bool // Temporal knows our marks
	schedules keeper
}

// Open prepares a client without connecting.
func Open(cfg Config, logger *slog.Logger) (*Client, error) {
	tracing, err := opentelemetry.NewTracingInterceptor(opentelemetry.TracerOptions{})
	if err != nil {
		return nil, fmt.Errorf("prepare workflow tracing: %w", err)
	}
	conn, err := connection(cfg)
	if err != nil {
		return nil, err
	}
	c, err := client.NewLazyClient(client.Options{
		HostPort: cfg.Address, Namespace: cfg.Namespace, ConnectionOptions: conn,
		Logger: log.NewStructuredLogger(logger),
		MetricsHandler: opentelemetry.NewMetricsHandler(
			opentelemetry.MetricsHandlerOptions{Meter: otel.Meter("temporal")}),
		Interceptors:       []interceptor.ClientInterceptor{tracing},
		ContextPropagators: []workflow.ContextPropagator{correlation{}},
	})
	if err != nil {
		return nil, fmt.Errorf("prepare Temporal client: %w", err)
	}
	return &Client{temporal: c, cfg: cfg, logger: logger, schedules: keeper{clock: time.Now, kept: map[string]kept{}}}, nil
}

func connection(cfg Config) (client.ConnectionOptions, error) {
	var opts client.ConnectionOptions
	if !cfg.TLS() {
		return opts, nil
	}
	opts.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: cfg.ServerName}
	if cfg.CAFile != "" {
		pem, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return opts, fmt.Errorf("read CA file of Temporal: %w", err)
		}
		opts.TLS.RootCAs = x509.NewCertPool()
		if !opts.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return opts, fmt.Errorf("read CA file of Temporal: no certificate in %s", cfg.CAFile)
		}
	}
	if cfg.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(cfg.CertFile, cfg.KeyFile)
		if err != nil {
			return opts, fmt.Errorf("read client certificate for Temporal: %w", err)
		}
		opts.TLS.Certificates = []tls.Certificate{pair}
	}
	return opts, nil
}

// Close ends the connection.
func (c *Client) Close() { c.temporal.Close() }

// Check asks Temporal whether our namespace is there.
func (c *Client) Check(ctx context.Context) error {
	_, err := c.temporal.WorkflowService().DescribeNamespace(ctx,
		&workflowservice.DescribeNamespaceRequest{Namespace: c.cfg.Namespace})
	return c.classify(err)
}

// cancel asks a workflow to stop. It is no error if the workflow has ended: the
// row of its owner says how it ended.
func (c *Client) cancel(ctx context.Context, workflowID string) error {
	err := c.temporal.CancelWorkflow(ctx, workflowID, "")
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return nil
	}
	return c.classify(err)
}

func (c *Client) classify(err error) error {
	if err == nil {
		return nil
	}
	var missing *serviceerror.NamespaceNotFound
	if errors.As(err, &missing) {
		return fault.Wrap(err, fault.Unavailable, "temporal_namespace_missing", "Temporal has no namespace %s",
			c.cfg.Namespace).
			WithRemedy("create it with: temporal operator namespace create --namespace %s", c.cfg.Namespace)
	}
	return fault.Wrap(err, fault.Unavailable, "temporal_unavailable", "Temporal at %s cannot be reached", c.cfg.Address).
		WithRemedy("check that Temporal is running and reachable; the request can be repeated")
}

// WorkerOptions are the options of every worker, in production and in tests.
func WorkerOptions(logger *slog.Logger, stopTimeout time.Duration) worker.Options {
	return worker.Options{
		WorkerStopTimeout: stopTimeout,
		// An activity learns that it must stop when it sends a heartbeat, so
		// this is how long an operator may have to wait for a stage to stop.
		MaxHeartbeatThrottleInterval: 5 * time.Second,
		Interceptors:                 []interceptor.WorkerInterceptor{&faultInterceptor{logger: logger}},
	}
}

// Registration adds a slice's workflows and activities to a worker.
type Registration func(worker.Registry)

// RunWorker serves workflows and activities until the context ends, then lets
// running ones finish. If Temporal is not there yet, it waits.
func (c *Client) RunWorker(ctx context.Context, stopTimeout time.Duration, slices ...Registration) error {
	for wait := time.Second; ; wait = min(2*wait, 15*time.Second) {
		w := worker.New(c.temporal, TaskQueue, WorkerOptions(c.logger, stopTimeout))
		for _, register := range slices {
			register(w)
		}
		err := w.Start()
		if err == nil {
			<-ctx.Done()
			w.Stop()
			return nil
		}
		c.logger.WarnContext(ctx, "worker cannot start yet", "error", err, "retry_in", wait)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}
