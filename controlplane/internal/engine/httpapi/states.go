package httpapi

import (
	"github.com/danielgtaylor/huma/v2"

	"gpuaas/controlplane/internal/base/lifecycle"
)

// StatesOf is the schema of a status in the contract: its enum holds the states of
// the lifecycle, in the order of the table.
func StatesOf(l lifecycle.Description) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString, Enum: make([]any, len(l.States))}
	for i, state := range l.States {
		s.Enum[i] = state.Name
	}
	return s
}
