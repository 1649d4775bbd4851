package conformance_test

import (
	"testing"

	"gpuaas/controlplane/internal/adapter/maas/conformance"
)

// The environment names the region. Without one only the simulator is checked.
func TestLiveRegion(t *testing.T) {
	cfg, named, err := conformance.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	if !named {
		t.Log("GPUAAS_MAAS_URL and GPUAAS_MAAS_TOKEN name no region")
		return
	}
	conformance.Run(t, cfg)
}
