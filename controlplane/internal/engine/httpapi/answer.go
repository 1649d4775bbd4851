package httpapi

import (
	"encoding/json"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"gpuaas/controlplane/internal/engine/postgres"
)

// Nothing is the answer of an operation without a body.
type Nothing struct{}

// Plain is an answer with one body.
type Plain[T any] struct{ Body T }

// Branched is the answer of an operation that did its work or only recorded it; see
// Operation.Accepted.
type Branched[T any] struct {
	Status int
	Body   Branch[T]
}

// Branch is the body of one of two answers. The contract describes the first; the
// second is that of Operation.Accepted.
type Branch[T any] struct {
	done     *T
	recorded any
}

// Done answers that the work was done.
func Done[T any](status int, body T) *Branched[T] {
	return &Branched[T]{Status: status, Body: Branch[T]{recorded: body}}
}

// Recorded answers that the work was recorded and is still to be done.
func Recorded[T any](body any) *Branched[T] {
	return &Branched[T]{Status: http.StatusAccepted, Body: Branch[T]{recorded: body}}
}

// MarshalJSON encodes the answer that was given.
func (b Branch[T]) MarshalJSON() ([]byte, error) {
	if b.done != nil {
		return json.Marshal(b.done)
	}
	return json.Marshal(b.recorded)
}

// Schema implements huma.SchemaProvider.
func (Branch[T]) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[T](), true, "")
}

// Versioned is the answer with one resource and its entity tag.
type Versioned[T any] struct {
	ETag string `header:"ETag" doc:"Names this version; send it as If-Match with an update."`
	Body T
}

// AtVersion answers with a resource at a version.
func AtVersion[T any](version int64, body T) *Versioned[T] {
	return &Versioned[T]{ETag: ETag(version), Body: body}
}

// Listed is the answer of a list.
type Listed[T any] struct{ Body List[T] }

// SliceOf returns the part of a listing that a page asks for.
func SliceOf[key any](p Page) (postgres.Slice[key], error) {
	s := postgres.Slice[key]{Limit: p.Limit()}
	_, err := p.After(&s.After)
	return s, err
}

// ListOf answers with the rows that were read for a page.
func ListOf[row, view any](p Page, rows []row, err error, show func(row) view, position func(view) any) (
	*Listed[view], error,
) {
	if err != nil {
		return nil, err
	}
	views := make([]view, len(rows))
	for i, r := range rows {
		views[i] = show(r)
	}
	return &Listed[view]{Body: NewList(p, views, position)}, nil
}
