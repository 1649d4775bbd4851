package maas

import (
	"net/http"
	"net/netip"
	"net/url"
	"sync/atomic"
	"time"

	"gpuaas/controlplane/internal/base/redact"
)

// Clock tells the time and waits. Tests replace it.
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
}

type systemClock struct{}

func (systemClock) Now() time.Time                         { return time.Now() }
func (systemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// Config says how to reach a region. Only URL and Token are required.
type Config struct {
	URL             string
	Token           redact.Secret  // consumer:token:secret
	CA              []byte         // PEM; empty: the CAs of this machine
	AllowedNetworks []netip.Prefix // empty: any but link-local and loopback
	Limiter         Limiter        // shared by all clients of a site; nil: PerSite for this client alone
	Clock           Clock          // nil: the clock of this machine
	// Loopback says whether we may call a region on this very machine, where
	// our own engines run too. Nil means no, whatever AllowedNetworks says.
	Loopback func(netip.AddrPort) bool

	// Time limits of one try, without the wait for a slot. Zero means the
	// default. A write waits for the BMC, a listing for every machine in it.
	ReadTimeout  time.Duration // 60 s
	ListTimeout  time.Duration // 5 min
	WriteTimeout time.Duration // 5 min

	Retries   int           // of a read; 0: 2, negative: none
	RetryWait time.Duration // before the first retry, doubled each time, jittered; 0: 250 ms
	MaxAnswer int64         // bytes; 0: 128 MiB
}

// Client calls one region. It is safe for concurrent use.
type Client struct {
	cfg   Config
	base  *url.URL
	key   apiKey
	http  *http.Client
	dated *atomic.Pointer[dated] // shared by all views
	meter *meter                 // nil: nothing is counted
}

// New checks the configuration. It does not connect.
func New(cfg Config) (*Client, error) {
	base, err := ParseURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	key, err := parseKey(cfg.Token)
	if err != nil {
		return nil, err
	}
	rt, err := transport(newGuard(cfg.AllowedNetworks, cfg.Loopback), cfg.CA)
	if err != nil {
		return nil, err
	}
	if cfg.Limiter == nil {
		cfg.Limiter = NewLimiter(PerSite)
	}
	if cfg.Clock == nil {
		cfg.Clock = systemClock{}
	}
	preset(&cfg.ReadTimeout, 60*time.Second)
	preset(&cfg.ListTimeout, 5*time.Minute)
	preset(&cfg.WriteTimeout, 5*time.Minute)
	preset(&cfg.Retries, 2)
	preset(&cfg.RetryWait, 250*time.Millisecond)
	preset(&cfg.MaxAnswer, 128<<20)
	return &Client{
		cfg: cfg, base: base, key: key, dated: new(atomic.Pointer[dated]),
		http: &http.Client{
			Transport:     rt,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

func preset[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Close drops idle connections. Calls in progress go on.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// dated is a time that the region told us, and when.
type dated struct{ told, at time.Time }

// Skew is how far the region's clock is ahead of ours, to about a second, by
// its latest answer. MAAS refuses signatures older than five minutes.
func (c *Client) Skew() (ahead time.Duration, known bool) {
	if d := c.dated.Load(); d != nil {
		return d.told.Sub(d.at).Round(time.Second), true
	}
	return 0, false
}

// Now returns the time of the region's clock, to about a second: the time in
// its latest answer plus what has passed since. Before the first answer it is
// our own time. Compare times in machine objects with it.
func (c *Client) Now() time.Time {
	now := c.cfg.Clock.Now()
	if d := c.dated.Load(); d != nil {
		return d.told.Add(now.Sub(d.at))
	}
	return now
}

func (c *Client) noteDate(h http.Header) {
	if told, err := http.ParseTime(h.Get("Date")); err == nil {
		c.dated.Store(&dated{told: told, at: c.cfg.Clock.Now()})
	}
}
