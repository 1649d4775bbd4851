// Package durabletest runs workflows in Temporal's test environment, set up as
// the product's own workers are.
package durabletest

import (
	"log/slog"
	"testing"
	"time"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"gpuaas/controlplane/internal/engine/durable"
)

// New makes an environment in which time is skipped and activities are real.
func New(tb testing.TB, register func(worker.Registry)) *testsuite.TestWorkflowEnvironment {
	tb.Helper()
	quiet := slog.New(slog.DiscardHandler)
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(quiet))
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute) // activities are real, and a busy machine is slow
	options := durable.WorkerOptions(quiet, time.Second)
	options.DeadlockDetectionTimeout = time.Minute // a second is less than a very busy machine may pause a test
	env.SetWorkerOptions(options)
	register(env)
	return env
}
