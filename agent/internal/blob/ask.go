package blob

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// piece is what is missing of a part.
type piece struct {
	from, left int64
	sum        hash.Hash32 // of what came
}

// errStalled ends a request that brings nothing.
var errStalled = errors.New("no byte came for too long")

// ask asks a source for a piece once. If it fails, the piece is what is still missing,
// and wait how long the source wants to be left alone.
func (t *transfer) ask(ctx context.Context, source string, p *piece, buffer []byte) (wait time.Duration, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(t.fetcher.stall(), func() { cancel(errStalled) })
	defer watch.Stop()
	answer, err := t.request(ctx, source, fmt.Sprintf("bytes=%d-%d", p.from, p.from+p.left-1))
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	if wait, err := t.accepts(source, answer, p); err != nil {
		return wait, err
	}
	if answer.StatusCode == http.StatusOK && p.left < t.want.Bytes {
		return 0, errWhole
	}
	return 0, t.keep(ctx, source, answer.Body, p, buffer, watch)
}

// errWhole says that a source gives nothing but whole files.
var errWhole = errors.New("it knows no ranges")

func (t *transfer) request(ctx context.Context, source, span string) (*http.Response, error) {
	with := http.Header{}
	if span != "" {
		with.Set("Range", span)
	}
	return t.want.get(ctx, t.client, source, with)
}

// tokenFor is what a source is shown: a mirror is somebody else.
func (w Want) tokenFor(source string) string {
	first, err := url.Parse(w.Sources[0])
	at, second := url.Parse(source)
	if err != nil || second != nil || first.Scheme != at.Scheme || first.Host != at.Host {
		return ""
	}
	return w.Token
}

// stream reads a file that is given only as a whole, and keeps the parts that are
// missing. There is one worker. It answers the sum of the part that was asked for.
func (t *transfer) stream(ctx context.Context, source string, i int, buffer []byte) (asked uint32, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(t.fetcher.stall(), func() { cancel(errStalled) })
	defer watch.Stop()
	answer, err := t.request(ctx, source, "")
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	if _, err := t.accepts(source, answer, &piece{left: t.want.Bytes}); err != nil {
		return 0, err
	}
	for n := range t.count() {
		from, length := t.span(n)
		sum, there := t.noted(n)
		if there {
			err = t.skip(ctx, source, answer.Body, length, buffer, watch)
		} else {
			one := &piece{from: from, left: length, sum: crc32.New(castagnoli)}
			if err = t.keep(ctx, source, answer.Body, one, buffer, watch); err == nil {
				sum = one.sum.Sum32()
				err = t.note(n, sum)
			}
		}
		if err != nil {
			return 0, err
		}
		if n == i {
			asked = sum
		}
	}
	return asked, nil
}

// noted says whether a part is on the disk, and its sum.
func (t *transfer) noted(i int) (uint32, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum, there := t.have[i]
	return sum, there
}

// keep writes what comes to the disk, until the piece is whole.
func (t *transfer) keep(
	ctx context.Context, source string, body io.Reader, p *piece, buffer []byte, watch *time.Timer,
) error {
	for p.left > 0 {
		n, err := body.Read(buffer[:min(p.left, int64(len(buffer)))])
		if n > 0 {
			if _, err := t.part.WriteAt(buffer[:n], p.from); err != nil {
				return disk(err)
			}
			_, _ = p.sum.Write(buffer[:n]) // never fails
			p.from, p.left = p.from+int64(n), p.left-int64(n)
			if err := t.pace.wait(ctx, n); err != nil {
				return err
			}
			watch.Reset(t.fetcher.stall())
		}
		switch {
		case p.left == 0:
		case errors.Is(err, io.EOF):
			return failed(Unreachable, source, "it ended %d bytes early", p.left)
		case err != nil:
			return unreachable(ctx, source, err)
		}
	}
	return nil
}

// skip reads what is there already.
func (t *transfer) skip(
	ctx context.Context, source string, body io.Reader, n int64, buffer []byte, watch *time.Timer,
) error {
	for n > 0 {
		got, err := body.Read(buffer[:min(n, int64(len(buffer)))])
		if n -= int64(got); got > 0 {
			watch.Reset(t.fetcher.stall())
		}
		if err != nil && n > 0 {
			return unreachable(ctx, source, err)
		}
	}
	return nil
}

func unreachable(ctx context.Context, source string, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errStalled) {
		err = cause
	}
	return &Error{Reason: Unreachable, Source: source, Cause: err}
}

// refused tells an answer without the bytes, and how long the source wants to be left
// alone.
func refused(source string, answer *http.Response) (time.Duration, error) {
	switch code := answer.StatusCode; {
	case code == http.StatusPartialContent, code == http.StatusOK:
	case code == http.StatusNotFound, code == http.StatusGone:
		return 0, failed(NotFound, source, "it answers %s", answer.Status)
	case code >= 300 && code < 400:
		return 0, failed(Redirected, source, "it sends elsewhere (%s)", answer.Status)
	case code == http.StatusRequestedRangeNotSatisfiable:
		return 0, failed(Changed, source, "the file has another size")
	case code == http.StatusRequestTimeout, code == http.StatusTooManyRequests, code >= http.StatusInternalServerError:
		seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After")) // no number: no wish
		return time.Duration(min(max(seconds, 0), int(mostWait/time.Second))) * time.Second,
			failed(Unreachable, source, "it answers %s", answer.Status)
	default:
		return 0, failed(Denied, source, "it answers %s", answer.Status)
	}
	if e := answer.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return 0, failed(Changed, source, "it encodes the bytes as %s", e)
	}
	return 0, nil
}

// accepts compares what a source says with what was asked for.
func (t *transfer) accepts(source string, answer *http.Response, p *piece) (time.Duration, error) {
	if wait, err := refused(source, answer); err != nil {
		return wait, err
	}
	want, got := strconv.FormatInt(t.want.Bytes, 10), strconv.FormatInt(answer.ContentLength, 10)
	if answer.StatusCode == http.StatusPartialContent {
		got = answer.Header.Get("Content-Range")
		want = fmt.Sprintf("bytes %d-%d/%d", p.from, p.from+p.left-1, t.want.Bytes)
	}
	if got != want {
		return 0, failed(Changed, source, "it answers with %q, and %q was expected", got, want)
	}
	return 0, nil
}

// pace spreads bytes over time.
type pace struct {
	rate int64

	mu   sync.Mutex
	next time.Time
}

// wait waits until so many bytes may have come.
func (p *pace) wait(ctx context.Context, n int) error {
	if p.rate <= 0 {
		return nil
	}
	p.mu.Lock()
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	p.next = p.next.Add(time.Duration(float64(n) / float64(p.rate) * float64(time.Second)))
	delay := p.next.Sub(now)
	p.mu.Unlock()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(delay):
		return nil
	}
}
