package frame

import (
	"encoding/json"

	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

// Show prints the object that a call was answered with.
func Show[T any](s *Session, columns []table.Column[T]) func(apiclient.Answer, error) error {
	return func(resp apiclient.Answer, err error) error {
		raw, err := apiclient.Read(resp, err)
		if err != nil {
			return err
		}
		return PrintOne(s.App, columns, raw)
	}
}

// Done tells people that a call without an answer succeeded.
func Done(s *Session, format string, args ...any) func(apiclient.Answer, error) error {
	return func(resp apiclient.Answer, err error) error {
		if _, err := apiclient.Read(resp, err); err != nil {
			return err
		}
		s.Note(format, args...)
		return nil
	}
}

// Fetch is the object that a call was answered with.
func Fetch[T any](resp apiclient.Answer, err error) (T, error) {
	raw, err := apiclient.Read(resp, err)
	if err != nil {
		var none T
		return none, err
	}
	o, err := output.Decode[T](raw)
	return o.Value, err
}

// PrintOne prints one object in the format that was asked for.
func PrintOne[T any](a *App, columns []table.Column[T], raw json.RawMessage) error {
	format, err := a.Format()
	if err != nil {
		return err
	}
	if format != output.Table {
		return output.Print(a.Program.Out, format, raw)
	}
	o, err := output.Decode[T](raw)
	if err != nil {
		return err
	}
	return table.PrintOne(a.Program.Out, columns, o.Value)
}

// PrintList prints a list in the format that was asked for.
func PrintList[T any](a *App, columns []table.Column[T], raws []json.RawMessage) error {
	format, err := a.Format()
	if err != nil {
		return err
	}
	if format != output.Table {
		return output.Print(a.Program.Out, format, output.Array(raws))
	}
	objects, err := output.DecodeAll[T](raws)
	if err != nil {
		return err
	}
	if len(objects) == 0 {
		a.Note("there are none")
		return nil
	}
	return table.Print(a.Program.Out, columns, objects, !a.Flags.NoHeaders, a.Wide())
}

// PrintPart prints, for people only, a table that belongs to an object.
func PrintPart[T any](s *Session, columns []table.Column[T], values []T) error {
	if format, err := s.Format(); err != nil || format != output.Table || len(values) == 0 {
		return err
	}
	objects := make([]output.Object[T], len(values))
	for i, v := range values {
		objects[i].Value = v
	}
	if err := output.Write(s.Program.Out, "\n"); err != nil {
		return err
	}
	return table.Print(s.Program.Out, columns, objects, !s.Flags.NoHeaders, s.Wide())
}
