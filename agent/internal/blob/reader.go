package blob

import (
	"context"
	"io"
)

// Reader reads until its context ends, for files that are large.
type Reader struct {
	Ctx  context.Context //nolint:containedctx // of one reading
	From io.Reader
}

// Read implements io.Reader.
func (r Reader) Read(into []byte) (int, error) {
	if err := context.Cause(r.Ctx); err != nil {
		return 0, err
	}
	return r.From.Read(into)
}
