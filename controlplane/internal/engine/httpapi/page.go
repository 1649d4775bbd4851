package httpapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"gpuaas/controlplane/internal/base/fault"
)

const maxCursorLength = 1024

// Page is the input of every list: embed it.
type Page struct {
	Cursor   string `query:"cursor" maxLength:"1024" doc:"Where to continue: next_cursor of the page before."`
	PageSize int    `query:"page_size" minimum:"1" maximum:"200" default:"50" doc:"How many items at most."`
}

// Limit is how many rows to read: one more than the page holds, which shows
// whether there is another page.
func (p Page) Limit() int32 { return int32(p.PageSize) + 1 } //nolint:gosec // validated to be at most 1000

// After decodes the position to continue from. It returns false on the first
// page.
func (p Page) After(position any) (bool, error) {
	if p.Cursor == "" {
		return false, nil
	}
	if err := DecodeCursor(p.Cursor, position); err != nil {
		return false, err
	}
	return true, nil
}

// List is the body of every list.
type List[T any] struct {
	Items      []T    `json:"items" nullable:"false" doc:"The items of this page."`
	NextCursor string `json:"next_cursor,omitempty" doc:"Where the next page starts; absent on the last page."`
}

// NewList cuts rows that were read with Page.Limit to a page. position returns
// the keyset position of a row, for the cursor of the next page.
func NewList[T any](page Page, rows []T, position func(T) any) List[T] {
	if len(rows) <= page.PageSize {
		return List[T]{Items: rows}
	}
	rows = rows[:page.PageSize]
	return List[T]{Items: rows, NextCursor: EncodeCursor(position(rows[len(rows)-1]))}
}

// MarshalJSON writes a list without items as an empty list, never as null.
func (l List[T]) MarshalJSON() ([]byte, error) {
	type plain List[T]
	if l.Items == nil {
		l.Items = []T{}
	}
	return json.Marshal(plain(l))
}

// EncodeCursor makes an opaque cursor from a keyset position, which must be
// encodable as JSON.
func EncodeCursor(position any) string {
	b, err := json.Marshal(position)
	if err != nil {
		panic("httpapi: encode cursor: " + err.Error())
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// DecodeCursor reads a cursor back into a position. Cursors are not signed: a
// caller can make one up, so it may only say where to continue.
func DecodeCursor(cursor string, position any) error {
	if err := decodeCursor(cursor, position); err != nil {
		return fault.Wrap(err, fault.Invalid, "cursor_invalid", "the cursor is not one that this list gave out").
			WithRemedy("start again without cursor, or use next_cursor as it was given").
			WithFields(fault.Field{Path: "query.cursor", Message: "not a valid cursor"})
	}
	return nil
}

func decodeCursor(cursor string, position any) error {
	if len(cursor) > maxCursorLength {
		return errors.New("too long")
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil {
		return err
	}
	if hasEscapedNUL(raw) {
		return errors.New("holds a NUL character")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(position); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("has more than one value")
	}
	if strings.TrimSpace(string(raw)) == "null" {
		return errors.New("is null")
	}
	return nil
}
