package blob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"time"
)

// Small fetches a document of at most so many bytes into memory, by its digest, from
// the first source that gives it. Size in the request is not looked at.
func (f Fetcher) Small(ctx context.Context, w Want, accept string, most int64) ([]byte, error) {
	client := f.client()
	defer client.CloseIdleConnections()
	var last, down error
	for _, source := range w.Sources {
		raw, err := f.small(ctx, client, source, w, accept, most)
		if err == nil {
			return raw, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if last = err; reasonOf(err) == Unreachable && down == nil {
			down = err
		}
	}
	if down != nil {
		return nil, down
	}
	return nil, last
}

func (f Fetcher) small(
	ctx context.Context, client *http.Client, source string, w Want, accept string, most int64,
) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer time.AfterFunc(f.stall(), func() { cancel(errStalled) }).Stop()
	answer, err := w.get(ctx, client, source, http.Header{"Accept": {accept}})
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if _, err := refused(source, answer); err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(answer.Body, most+1))
	if err != nil {
		return nil, unreachable(ctx, source, err)
	}
	if int64(len(raw)) > most {
		return nil, failed(Changed, source, "the document has more than %d bytes", most)
	}
	if sum := sha256.Sum256(raw); hex.EncodeToString(sum[:]) != w.SHA256 {
		return nil, failed(Mismatch, source, "the document is not the one with the SHA-256 %s", w.SHA256)
	}
	return raw, nil
}
