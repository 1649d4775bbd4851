package fault_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"gpuaas/controlplane/internal/base/fault"
)

func TestKindSurvivesWrapping(t *testing.T) {
	for _, kind := range fault.Kinds {
		err := fmt.Errorf("read node n1: %w", fault.New(kind, "some_code", "something"))
		if got := fault.KindOf(err); got != kind {
			t.Errorf("KindOf(wrapped %s) = %s", kind, got)
		}
		if got := fault.CodeOf(err); got != "some_code" {
			t.Errorf("CodeOf = %s", got)
		}
	}
}

func TestUnclassifiedErrorsAreOurDefect(t *testing.T) {
	if got := fault.KindOf(errors.New("boom")); got != fault.Internal {
		t.Errorf("KindOf(unclassified) = %s, want internal", got)
	}
	for _, err := range []error{context.DeadlineExceeded, context.Canceled} {
		if got := fault.KindOf(fmt.Errorf("call: %w", err)); got != fault.Ambiguous {
			t.Errorf("KindOf(%v) = %s, want ambiguous", err, got)
		}
	}
}

func TestWithRemedyDoesNotChangeTheSentinel(t *testing.T) {
	sentinel := fault.New(fault.NotFound, "node_not_found", "node does not exist")
	got := sentinel.WithRemedy("list nodes with: gpuaas node list").WithFields(fault.Field{Path: "id", Message: "unknown"})
	if sentinel.Remedy != "" || sentinel.Fields != nil {
		t.Error("sentinel was changed")
	}
	if !errors.Is(fmt.Errorf("x: %w", got), sentinel) {
		t.Error("copy no longer matches its sentinel")
	}
}
