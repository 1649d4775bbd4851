package resolver_test

import (
	"testing"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/operate/resolver"
)

// Every kind has a profile on the hardware it is made for, and what no rule
// names falls through to the last one.
func TestTheEmbeddedConfigurationIsSound(t *testing.T) {
	p, err := resolver.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ vendor, kind, profile, rule string }{
		{"nvidia", agentwire.StepGPURuntimeCheck, "nvidia_smi_health", "nvidia"},
		{"nvidia", agentwire.StepGPUFabricVerify, "nvidia_nvlink_status", "nvidia"},
		{"nvidia", agentwire.StepGPUDriverValidate, "nvidia_driver_version", "nvidia"},
		{"nvidia", agentwire.StepGPUContainerRuntimeCheck, "nvidia_container_info", "nvidia"},
		{"amd", agentwire.StepGPURuntimeCheck, "amd_smi_health", "amd"},
		{"amd", agentwire.StepGPUContainerRuntimeCheck, "", "amd"},
		{"none", agentwire.StepGPURuntimeCheck, "gpuaas_gpu_inspect", "fallback"},
		{"none", agentwire.StepGPUFabricVerify, "", "fallback"},
	} {
		profile, rule := p.Config.Choose(c.kind, map[string]string{"gpu.vendor": c.vendor})
		name := ""
		if profile != nil {
			name = profile.ID
		}
		if name != c.profile || rule != c.rule {
			t.Errorf("%+v: %q by %q", c, name, rule)
		}
	}
}

// A node that is up to date, or carries out no steps, is left alone: the
// database is not even asked.
func TestOnlyNodesThatAreBehindAreTold(t *testing.T) {
	p, err := resolver.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []agentwire.Capabilities{
		{}, {ResolverVersion: p.Version, StepKinds: []string{agentwire.StepHealthCheck}},
	} {
		if err := (resolver.Delivery{}).Reported(t.Context(), id.New[id.Node](), 1, c); err != nil {
			t.Error(err)
		}
	}
}
