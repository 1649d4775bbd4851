package maas

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"

	"gpuaas/controlplane/internal/base/fault"
)

// Limits of a listing that is read as it arrives.
const (
	maxElement  = 4 << 20 // of one machine; MAAS sends about 50 KiB
	maxElements = 250_000
	peeked      = 512
)

// EachMachine lists machines and hands them out one by one as they arrive, in
// memory that does not grow with their number. After an error, the machines
// that were handed out prove nothing: the listing may have ended anywhere.
func (c *Client) EachMachine(ctx context.Context, f Filter, each func(Machine) error) error {
	k := call{method: http.MethodGet, path: "machines/", query: f.query(), slow: len(f.IDs) == 0}
	for try := 0; ; try++ {
		given := 0
		err := c.exchange(ctx, k, func(resp *http.Response) error {
			return c.stream(k, resp, func(m Machine) error {
				given++
				return each(m)
			})
		})
		if err == nil {
			return nil
		}
		if given > 0 || try >= c.cfg.Retries || !repeatable(k, err) || !c.pause(ctx, err, try) {
			return fmt.Errorf("list MAAS machines: %w", err)
		}
	}
}

func (c *Client) stream(k call, resp *http.Response, each func(Machine) error) error {
	if resp.StatusCode >= http.StatusMultipleChoices {
		_, err := c.read(k, resp)
		return err
	}
	from := &rationed{Reader: bufio.NewReaderSize(resp.Body, 64<<10), left: maxElement}
	a := answer{status: resp.StatusCode, header: resp.Header}
	if _, err := from.Peek(1); err != nil { // waits until something has arrived
		return streamFailed(k, a, err)
	}
	a.body, _ = from.Peek(min(from.Buffered(), peeked))
	if looksLikeHTML(a) {
		return c.judge(k, a)
	}
	if err := c.elements(json.NewDecoder(from), from, each); err != nil {
		return streamFailed(k, a, err)
	}
	return nil
}

var (
	errNoListing = errors.New("not a listing of machines")
	errTooLarge  = fmt.Errorf("a machine of more than %d bytes", maxElement)
	errTooMany   = fmt.Errorf("more than %d machines", maxElements)
)

// elements decodes an array of machines up to its very end.
func (c *Client) elements(dec *json.Decoder, from *rationed, each func(Machine) error) error {
	if first, err := dec.Token(); err != nil {
		return err //nolint:wrapcheck // streamFailed says what it means
	} else if first != json.Delim('[') {
		return errNoListing
	}
	var raw json.RawMessage
	var buf bytes.Buffer
	shape := shapeFor(reflect.TypeFor[Machine]())
	for n := 0; ; n++ {
		from.left = maxElement
		if !dec.More() {
			break
		}
		if n == maxElements {
			return errTooMany
		}
		if err := dec.Decode(&raw); err != nil {
			return err //nolint:wrapcheck // likewise
		}
		c.meter.rendered(1)
		var m Machine
		if err := json.Unmarshal(prune(&buf, raw, shape), &m); err != nil {
			return fmt.Errorf("%w: %w", errNoListing, err)
		}
		if m.SystemID == "" || m.Status == "" {
			return errNoListing
		}
		if err := each(m); err != nil {
			return handed{err}
		}
	}
	if _, err := dec.Token(); err != nil { // the closing bracket
		return err //nolint:wrapcheck // likewise
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: something follows it", errNoListing)
	}
	return nil
}

// handed marks a failure of the caller's function, not of MAAS.
type handed struct{ error }

func (h handed) Unwrap() error { return h.error }

func streamFailed(k call, a answer, err error) error {
	var taker handed
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &taker):
		return taker.error
	case errors.Is(err, errTooLarge), errors.Is(err, errTooMany):
		d := &AnswerError{Operation: k.String(), Status: a.status, Sent: true, cause: err}
		return failing(d, fault.Invalid, CodeAnswerTooLarge, "check that the site's URL leads to MAAS",
			"the listing of MAAS is larger than can be: %v", err)
	case errors.Is(err, errNoListing), errors.As(err, &syntax):
		return invalidAnswer(k, a, err)
	default:
		return cutShort(k, a, err)
	}
}

// rationed is a reader that fails when one element is too large.
type rationed struct {
	*bufio.Reader
	left int
}

func (r *rationed) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, errTooLarge
	}
	n, err := r.Reader.Read(p[:min(len(p), r.left)])
	r.left -= n
	return n, err //nolint:wrapcheck // a reader hands on what it is told
}
