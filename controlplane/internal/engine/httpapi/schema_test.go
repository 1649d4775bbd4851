package httpapi

import (
	"net/http/httptest"
	"reflect"
	"strconv"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/auth"
)

type box[T any] struct{ V T }

type pair[A, B any] struct {
	A A
	B B
}

func TestSchemaNames(t *testing.T) {
	for _, c := range []struct {
		t    reflect.Type
		want string
	}{
		{reflect.TypeFor[auth.Principal](), "AuthPrincipal"},
		{reflect.TypeFor[*auth.Principal](), "AuthPrincipal"},
		{reflect.TypeFor[fault.Error](), "FaultError"},
		{reflect.TypeFor[httptest.Server](), "HttptestServer"},
		{reflect.TypeFor[time.Timer](), "Timer"},
		{reflect.TypeFor[Problem](), "Problem"},
		{reflect.TypeFor[List[auth.Target]](), "AuthTargetList"},
		{reflect.TypeFor[List[string]](), "StringList"},
		{reflect.TypeFor[box[auth.Target]](), "BoxAuthTarget"},
		{reflect.TypeFor[box[[]*auth.Target]](), "BoxAuthTarget"},
		{reflect.TypeFor[List[box[auth.Target]]](), "BoxAuthTargetList"},
		{reflect.TypeFor[pair[auth.Target, fault.Field]](), "PairAuthTargetFaultField"},
		{reflect.TypeFor[struct{}](), "Hint"},
	} {
		if got := schemaName(c.t, "hint"); got != c.want {
			t.Errorf("%s: %s, want %s", c.t, got, c.want)
		}
	}
}

// Callers come and go; the memory of them does not grow without end.
func TestLimiterForgets(t *testing.T) {
	l := newLimiter(Limits{RequestsPerSecond: 1e-9, Burst: 1}, time.Now)
	l.most = 10
	for i := range 1000 {
		if err := l.take(strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	if len(l.bykey) != 10 || l.recent.Len() != 10 {
		t.Errorf("remembers %d, %d", len(l.bykey), l.recent.Len())
	}
	if l.take("999") == nil {
		t.Error("forgot the most recent caller")
	}
	if err := l.take("1"); err != nil {
		t.Error("remembers the oldest caller")
	}
}
