package httpapi

import "gpuaas/controlplane/internal/engine/postgres"

// Nothing is the answer of an operation without a body.
type Nothing struct{}

// Plain is an answer with one body.
type Plain[T any] struct{ Body T }

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
