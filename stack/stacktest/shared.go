package stacktest

import (
	"context"
	"crypto/rand"
	"os"
	"sync"
	"testing"
	"time"

	"gpuaas/stack"
)

const startTimeout = 2 * time.Minute

// shared is the stack of this process, or the one that the environment names.
var shared struct {
	mu    sync.Mutex
	own   *stack.Stack
	given *stack.TestStack
}

// engine returns the shared stack with at least that engine running.
func engine(tb testing.TB, e stack.Engine) stack.TestStack {
	tb.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if path := os.Getenv(stack.TestStackVariable); path != "" {
		return givenStack(tb, path, e)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := ensureOwn(ctx, e); err != nil {
		tb.Fatalf("start %s for tests: %v", e, err)
	}
	return stack.TestStack{Endpoints: shared.own.Endpoints(), SuperuserURL: shared.own.SuperuserURL()}
}

func givenStack(tb testing.TB, path string, e stack.Engine) stack.TestStack {
	tb.Helper()
	if shared.given == nil {
		t, err := stack.ReadTestStack(path)
		if err != nil {
			tb.Fatalf("use the stack that %s names: %v", stack.TestStackVariable, err)
		}
		shared.given = &t
	}
	if !shared.given.Endpoints.Has(e) {
		tb.Fatalf("the stack that %s names runs without %s: start it with that engine", stack.TestStackVariable, e)
	}
	return *shared.given
}

func ensureOwn(ctx context.Context, e stack.Engine) error {
	if shared.own != nil {
		return shared.own.Ensure(ctx, e)
	}
	if err := stack.SweepThrowaways(ctx); err != nil {
		return err
	}
	s, err := stack.Start(ctx, stack.Options{
		State:     stack.ThrowawayFolder(""),
		Throwaway: true,
		Only:      []stack.Engine{e},
	})
	shared.own = s
	return err
}

// Start runs a private throwaway stack that ends with the test. Use it if a
// test kills engines; other tests share one.
func Start(tb testing.TB, o stack.Options) *stack.Stack {
	tb.Helper()
	if o.State == "" {
		o.State = stack.ThrowawayFolder("-" + rand.Text())
		tb.Cleanup(func() {
			if err := os.RemoveAll(o.State); err != nil {
				tb.Errorf("remove the folder of the private stack: %v", err)
			}
		})
	}
	o.Throwaway = true
	ctx, cancel := context.WithTimeout(tb.Context(), startTimeout)
	defer cancel()
	s, err := stack.Start(ctx, o)
	if err != nil {
		tb.Fatalf("start a private stack: %v", err)
	}
	tb.Cleanup(func() {
		patience, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := s.Stop(patience); err != nil {
			tb.Errorf("stop the private stack: %v", err)
		}
	})
	return s
}
