package controlplane

import (
	"strings"
	"testing"
)

// Where programs of the embedded stack are is told by variables that are no settings of the control plane.
func TestProgramsOfTheStackAreNoSettings(t *testing.T) {
	_, problems := Load(Defaults(), "", []string{"GPUAAS_SERVERS=/opt/servers", "GPUAAS_REGISTRY=/opt/registry"}, nil)
	for _, p := range problems {
		if strings.Contains(p.Error(), "no such setting") {
			t.Error(p)
		}
	}
}
