package watch

import (
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
)

// AddFlags defines the flags of commands that can go on showing.
func AddFlags(cmd *cobra.Command, watch *bool, interval *time.Duration) {
	cmd.Flags().BoolVarP(watch, "watch", "w", false, "go on showing changes until Ctrl-C")
	cmd.Flags().DurationVar(interval, "interval", 2*time.Second, "how often to look with --watch")
}

// List shows a list again and again: in place on a terminal, elsewhere what is new or
// has changed.
func List[T any](s *frame.Session, interval time.Duration, columns []table.Column[T],
	read func() ([]json.RawMessage, error),
) error {
	format, err := s.Format()
	if err != nil {
		return err
	}
	inPlace := format == output.Table && s.Terminal(s.Program.Out)
	shown := changes{}
	return s.Again(interval, func() (bool, error) {
		raws, err := read()
		if err != nil {
			return false, err
		}
		if inPlace {
			return false, s.DrawWhat(func() error { return frame.PrintList(s.App, columns, raws) })
		}
		first := shown.seen == nil
		return false, AppendRows(s, format, columns, shown.pick(raws), first && !s.Flags.NoHeaders)
	})
}

// AppendRows prints objects below what was printed before.
func AppendRows[T any](s *frame.Session, format string, columns []table.Column[T], raws []json.RawMessage,
	headers bool,
) error {
	if format != output.Table {
		for _, raw := range raws {
			if err := output.PrintLine(s.Program.Out, format, raw); err != nil {
				return err
			}
		}
		return nil
	}
	objects, err := output.DecodeAll[T](raws)
	if err != nil {
		return err
	}
	return table.Print(s.Program.Out, columns, objects, headers, s.Wide())
}

// changes picks what was not there before in the same form.
type changes struct{ seen map[string]bool }

func (c *changes) pick(raws []json.RawMessage) []json.RawMessage {
	var out []json.RawMessage
	now := make(map[string]bool, len(raws))
	for _, raw := range raws {
		now[string(raw)] = true
		if !c.seen[string(raw)] {
			out = append(out, raw)
		}
	}
	c.seen = now
	return out
}
