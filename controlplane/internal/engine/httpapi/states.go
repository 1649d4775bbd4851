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

// EnumOf is the schema of a type in the contract: its enum holds the values that
// the package of the type lists once.
func EnumOf[T ~string](values []T) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString, Enum: make([]any, len(values))}
	for i, v := range values {
		s.Enum[i] = string(v)
	}
	return s
}
