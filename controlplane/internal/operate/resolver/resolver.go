// Package resolver tells nodes which programs carry out abstract steps. The
// configuration is a file of the control plane with a version. A node that
// reports an older one, or none, is given it as a signed task; the agent itself
// knows no vendor.
package resolver

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"

	"gpuaas/contract/agentwire"
)

//go:embed profiles.json
var file []byte

// Embedded returns the configuration that comes with this version of the
// control plane.
func Embedded() (agentwire.ResolverConfigParams, error) {
	p := agentwire.ResolverConfigParams{Action: agentwire.ResolverInstall}
	d := json.NewDecoder(bytes.NewReader(file))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return p, fmt.Errorf("decode the resolver configuration: %w", err)
	}
	if err := p.Validate(); err != nil {
		return p, fmt.Errorf("the resolver configuration: %w", err)
	}
	return p, nil
}
