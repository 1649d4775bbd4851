package cli

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/contract/apiclient"
)

const largestPage = 200

// page is which part of a list to ask for; its fields are what the parameters of every list
// operation take.
type page struct {
	cursor *string
	size   *int64
}

// listing is a list command: how to ask for one page, and how to show what comes.
type listing[T any] struct {
	columns []column[T]
	fetch   func(page) (apiclient.Answer, error)
}

// listFlags are the flags of every list command.
type listFlags struct {
	limit    int
	watch    bool
	interval time.Duration
}

// addListFlags defines them; 0 as the usual limit means all.
func addListFlags(cmd *cobra.Command, limit int) *listFlags {
	f := &listFlags{}
	cmd.Flags().IntVar(&f.limit, "limit", limit, "show at most so many; 0 for all")
	addWatchFlags(cmd, &f.watch, &f.interval)
	return f
}

func addWatchFlags(cmd *cobra.Command, watch *bool, interval *time.Duration) {
	cmd.Flags().BoolVarP(watch, "watch", "w", false, "go on showing changes until Ctrl-C")
	cmd.Flags().DurationVar(interval, "interval", 2*time.Second, "how often to look with --watch")
}

// list prints a list, once or again and again.
func list[T any](s *session, f *listFlags, l listing[T]) error {
	if f.limit < 0 {
		return usage(s.cmd, "--limit cannot be negative")
	}
	if f.watch {
		return watchList(s, f.interval, l.columns, func() ([]json.RawMessage, error) {
			raws, _, err := collect(l.fetch, f.limit)
			return raws, err
		})
	}
	raws, more, err := collect(l.fetch, f.limit)
	if err != nil {
		return err
	}
	if err := printList(s.app, l.columns, raws); err != nil {
		return err
	}
	if more {
		s.note("there are more; see them with --limit")
	}
	return nil
}

type pageBody struct {
	Items      []json.RawMessage `json:"items"`
	NextCursor string            `json:"next_cursor"`
}

// collect reads pages until there are limit items, or all when limit is 0.
func collect(fetchPage func(page) (apiclient.Answer, error), limit int) (items []json.RawMessage, more bool, err error) {
	items = []json.RawMessage{}
	var cursor *string
	for {
		size := int64(largestPage)
		if limit > 0 {
			size = min(size, int64(limit-len(items)))
		}
		raw, err := apiclient.Read(fetchPage(page{cursor: cursor, size: &size}))
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

// find reads pages until one item is the one that is looked for.
func find[T any](fetchPage func(page) (apiclient.Answer, error), wanted func(T) bool) (found T, ok bool, err error) {
	raws, _, err := collect(fetchPage, 0)
	if err != nil {
		return found, false, err
	}
	for _, raw := range raws {
		o, err := decode[T](raw)
		if err != nil {
			return found, false, err
		}
		if wanted(o.value) {
			return o.value, true, nil
		}
	}
	return found, false, nil
}
