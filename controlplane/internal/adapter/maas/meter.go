package maas

import (
	"io"
	"sync/atomic"
	"time"
)

// Cost counts what was asked of a region.
type Cost struct {
	Requests int           // including repeated ones
	Records  int           // machine objects that MAAS rendered, as far as they arrived
	Waited   time.Duration // for slots and answers
}

// View returns the same client with a new count of its cost.
func (c *Client) View() *Client {
	view := *c
	view.meter = &meter{}
	return &view
}

// Cost returns the cost of a view. For a client that is no view it is zero.
func (c *Client) Cost() Cost {
	if c.meter == nil {
		return Cost{}
	}
	return Cost{
		Requests: int(c.meter.requests.Load()), Records: int(c.meter.records.Load()),
		Waited: time.Duration(c.meter.nanos.Load()),
	}
}

// meter counts for a view. A nil meter counts nothing.
type meter struct{ requests, records, nanos atomic.Int64 }

func (m *meter) waited(since time.Time) {
	if m != nil {
		m.nanos.Add(int64(time.Since(since)))
	}
}

func (m *meter) asked(since time.Time) {
	if m != nil {
		m.requests.Add(1)
		m.waited(since)
	}
}

func (m *meter) rendered(machines int) {
	if m != nil {
		m.records.Add(int64(machines))
	}
}

// body counts the time that is spent waiting for an answer to arrive.
func (m *meter) body(b io.ReadCloser) io.ReadCloser {
	if m == nil {
		return b
	}
	return metered{b, m}
}

type metered struct {
	io.ReadCloser
	meter *meter
}

func (b metered) Read(p []byte) (int, error) {
	began := time.Now()
	n, err := b.ReadCloser.Read(p)
	b.meter.waited(began)
	return n, err //nolint:wrapcheck // a reader hands on what it is told, io.EOF above all
}
