package durable

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/temporal"

	"gpuaas/controlplane/internal/base/fault"
)

func TestEveryKindSurvivesTheHistory(t *testing.T) {
	mayRepeat := map[fault.Kind]bool{fault.Unavailable: true, fault.RateLimited: true}
	for _, kind := range fault.Kinds {
		in := fault.New(kind, "some_code", "something happened").WithRemedy("do this").
			WithFields(fault.Field{Path: "a", Message: "b"})
		recorded := toTemporal(fmt.Errorf("call MAAS: %w", in))
		var ae *temporal.ApplicationError
		if !errors.As(recorded, &ae) {
			t.Fatalf("%s: recorded as %T", kind, recorded)
		}
		if ae.NonRetryable() == mayRepeat[kind] {
			t.Errorf("%s: non-retryable = %v", kind, ae.NonRetryable())
		}
		out, ok := fault.As(FromTemporal(recorded))
		if !ok {
			t.Fatalf("%s: did not come back as a fault", kind)
		}
		if diff := cmp.Diff(*in, *out, cmp.AllowUnexported(fault.Error{})); diff != "" {
			t.Errorf("%s changed on the way:\n%s", kind, diff)
		}
	}
}

func TestTheCauseNeverEntersTheHistory(t *testing.T) {
	const canary = "password=canary"
	for _, err := range []error{
		fault.Wrap(errors.New(canary), fault.Unavailable, "down", "it is down"),
		errors.New(canary),
	} {
		if s := fmt.Sprintf("%+v", toTemporal(err)); s == "" || strings.Contains(s, canary) {
			t.Errorf("history would hold %q", s)
		}
	}
}

func TestAnActivityThatTimedOutIsAmbiguous(t *testing.T) {
	err := FromTemporal(temporal.NewTimeoutError(0, nil))
	if fault.KindOf(err) != fault.Ambiguous {
		t.Errorf("got %v", err)
	}
}

func TestCancellationPassesThrough(t *testing.T) {
	err := temporal.NewCanceledError()
	if !errors.Is(toTemporal(err), err) || !temporal.IsCanceledError(FromTemporal(err)) {
		t.Error("cancellation was turned into a fault")
	}
}
