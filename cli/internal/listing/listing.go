package listing

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
	"gpuaas/cli/internal/watch"
	"gpuaas/contract/apiclient"
)

const largestPage = 200

// Page is which part of a list to ask for; its fields are what the parameters of every list
// operation take.
type Page struct {
	Cursor *string
	Size   *int64
}

// Listing is a list command: how to ask for one page, and how to show what comes.
type Listing[T any] struct {
	Columns []table.Column[T]
	Fetch   func(Page) (apiclient.Answer, error)
}

// Flags are the flags of every list command.
type Flags struct {
	Limit    int
	Watch    bool
	Interval time.Duration
}

// AddFlags defines them; 0 as the usual limit means all.
func AddFlags(cmd *cobra.Command, limit int) *Flags {
	f := &Flags{}
	cmd.Flags().IntVar(&f.Limit, "limit", limit, "show at most so many; 0 for all")
	watch.AddFlags(cmd, &f.Watch, &f.Interval)
	return f
}

// Print prints a list, once or again and again.
func Print[T any](s *frame.Session, f *Flags, l Listing[T]) error {
	if f.Limit < 0 {
		return failure.Misuse(s.Cmd, "--limit cannot be negative")
	}
	if f.Watch {
		return watch.List(s, f.Interval, l.Columns, func() ([]json.RawMessage, error) {
			raws, _, err := Collect(l.Fetch, f.Limit)
			return raws, err
		})
	}
	raws, more, err := Collect(l.Fetch, f.Limit)
	if err != nil {
		return err
	}
	if err := frame.PrintList(s.App, l.Columns, raws); err != nil {
		return err
	}
	if more {
		s.Note("there are more; see them with --limit")
	}
	return nil
}

type pageBody struct {
	Items      []json.RawMessage `json:"items"`
	NextCursor string            `json:"next_cursor"`
}

// Collect reads pages until there are limit items, or all when limit is 0.
func Collect(fetchPage func(Page) (apiclient.Answer, error), limit int) (
	items []json.RawMessage, more bool, err error,
) {
	items = []json.RawMessage{}
	var cursor *string
	for {
		size := int64(largestPage)
		if limit > 0 {
			size = min(size, int64(limit-len(items)))
		}
		raw, err := apiclient.Read(fetchPage(Page{Cursor: cursor, Size: &size}))
		if err != nil {
			return nil, false, err
		}
		var body pageBody
		if err := json.Unmarshal(raw, &body); err != nil {
			return nil, false, fmt.Errorf("understand the list of the control plane: %w", err)
		}
		items = append(items, body.Items...)
		if body.NextCursor == "" {
			return items, false, nil
		}
		if limit > 0 && len(items) >= limit {
			return items, true, nil
		}
		if cursor != nil && *cursor == body.NextCursor {
			return nil, false, fmt.Errorf("the control plane gives the same page again and again")
		}
		cursor = &body.NextCursor
	}
}

// Find reads pages until one item is the one that is looked for.
func Find[T any](fetchPage func(Page) (apiclient.Answer, error), wanted func(T) bool) (found T, ok bool, err error) {
	raws, _, err := Collect(fetchPage, 0)
	if err != nil {
		return found, false, err
	}
	for _, raw := range raws {
		o, err := output.Decode[T](raw)
		if err != nil {
			return found, false, err
		}
		if wanted(o.Value) {
			return o.Value, true, nil
		}
	}
	return found, false, nil
}
