package cli

import (
	"cmp"
	"time"

	"gpuaas/cli/internal/moment"
	"gpuaas/cli/internal/table"
)

// ago is a column with a time that people compare with now: lists say how long ago it was, and
// everything else the time, too.
func ago[T any, M time.Time | *time.Time](a *app, title string, of func(T) M) table.Column[T] {
	return moments(a, title, of, func(t time.Time) string { return moment.Distance(a.Now().Sub(t)) })
}

// at is a column with a time that people have in their calendar: lists say which it is, and
// everything else how far away, too.
func at[T any, M time.Time | *time.Time](a *app, title string, of func(T) M) table.Column[T] {
	return moments(a, title, of, func(t time.Time) string { return t.In(a.Zone).Format("2006-01-02 15:04") })
}

func moments[T any, M time.Time | *time.Time](
	a *app, title string, of func(T) M, brief func(time.Time) string,
) table.Column[T] {
	known := func(v T) (time.Time, bool) {
		switch t := any(of(v)).(type) {
		case time.Time:
			return t, !t.IsZero()
		case *time.Time:
			if t != nil {
				return *t, !t.IsZero()
			}
		}
		return time.Time{}, false
	}
	shown := func(as func(time.Time) string) func(T) string {
		return func(v T) string {
			if t, ok := known(v); ok {
				return as(t)
			}
			return ""
		}
	}
	return table.Column[T]{Title: title, Text: shown(a.When), Brief: shown(brief)}
}

// orElse is a column that says something when there is no time.
func orElse[T any](none string, c table.Column[T]) table.Column[T] {
	text, brief := c.Text, c.Brief
	c.Text = func(v T) string { return cmp.Or(text(v), none) }
	c.Brief = func(v T) string { return cmp.Or(brief(v), none) }
	return c
}

// wide is a column that lists have only with -o wide.
func wide[T any](c table.Column[T]) table.Column[T] {
	c.Wide = true
	return c
}
