package postgres_test

import (
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/postgres"
)

func TestAClockThatIsWrongChargesNobody(t *testing.T) {
	now := time.Now()
	for apart, refused := range map[time.Duration]bool{
		0: false, time.Minute: false, -time.Minute: false, 24 * time.Hour: true, -3 * time.Minute: true,
	} {
		err := postgres.ClocksAgree(now.Add(apart), now)
		if (err != nil) != refused || refused && fault.CodeOf(err) != "clocks_differ" {
			t.Errorf("%s apart: %v", apart, err)
		}
	}
}
