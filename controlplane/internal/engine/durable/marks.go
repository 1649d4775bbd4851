package durable

import (
	"context"
	"errors"
	"maps"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"
)

// The marks that workflows of jobs can be found by in Temporal, where they are
// called search attributes.
const (
	MarkSite     = "site_id"
	MarkHostname = "hostname"
	MarkBatch    = "batch_id"
	MarkStatus   = "status"
	MarkStage    = "current_stage"
)

// Marks lists them.
var Marks = []string{MarkSite, MarkHostname, MarkBatch, MarkStatus, MarkStage}

// EnsureMarks makes Temporal know the marks. A Temporal whose operators do not
// let us is no failure: workflows are then started without, and everything but
// finding them there works.
func (c *Client) EnsureMarks(ctx context.Context) error {
	want := map[string]enumspb.IndexedValueType{}
	for _, name := range Marks {
		want[name] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
	}
	operator := c.temporal.OperatorService()
	have, err := operator.ListSearchAttributes(ctx,
		&operatorservice.ListSearchAttributesRequest{Namespace: c.cfg.Namespace})
	if err == nil {
		maps.DeleteFunc(want, func(name string,
			kind enumspb.IndexedValueType,
		) bool {
			return have.GetCustomAttributes()[name] == kind
		})
	}
	if len(want) > 0 {
		_, err = operator.AddSearchAttributes(ctx,
			&operatorservice.AddSearchAttributesRequest{Namespace: c.cfg.Namespace, SearchAttributes: want})
		var there *serviceerror.AlreadyExists
		if errors.As(err, &there) {
			err = nil
		}
	}
	if err != nil {
		return c.classify(err)
	}
	c.marked.Store(true)
	return nil
}

// marking starts a workflow with its marks, or without them while a part of
// Temporal has not heard of them yet: finding it there is not worth losing it.
func (c *Client) marking(values map[string]string, start func(temporal.SearchAttributes) error) error {
	if !c.marked.Load() {
		return start(temporal.SearchAttributes{})
	}
	var updates []temporal.SearchAttributeUpdate
	for name, value := range values {
		if value != "" {
			updates = append(updates, temporal.NewSearchAttributeKeyKeyword(name).ValueSet(value))
		}
	}
	err := start(temporal.NewSearchAttributes(updates...))
	var invalid *serviceerror.InvalidArgument
	if errors.As(err, &invalid) && len(updates) > 0 {
		return start(temporal.SearchAttributes{})
	}
	return err
}
