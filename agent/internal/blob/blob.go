// Package blob fetches large files over HTTP in parts, so that whatever ends the
// agent, the network or the server costs only the parts that were on their way.
//
// A part counts once its bytes are on the disk and its line is in the notes. All
// bytes are hashed in their order while they come; a part that the disk gives back
// differently is fetched again, and the file is whole only when its SHA-256 is the
// one that was asked for. Sources are never mixed with trust: what a source says of
// itself (length, range, encoding, version) is compared with what was asked for.
package blob

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gpuaas/contract/agentwire"
)

// Want says what to fetch.
type Want struct {
	Sources []string // addresses; one that fails is followed by the next
	SHA256  string   // hexadecimal
	Bytes   int64
	// Token is sent as a bearer token to the host of the first source, and to no other.
	// Empty: none.
	Token string
	// Door gets access to sources that refuse. Nil: nobody does.
	Door *Door
	// Parallel is how many parts are on their way at a time. Zero: 4.
	Parallel int
	// BytesPerSecond bounds the transfer. Zero: no limit.
	BytesPerSecond int64
	// KeepFree is how much of the file system is left to others.
	KeepFree int64
	// Resumed, if it is there, is told how many bytes the notes vouch for at first.
	Resumed func(bytes int64)
	// Progress, if it is there, is told how many bytes are safe.
	Progress func(done int64)
}

// Reason says what went wrong, as a code.
type Reason string

// What goes wrong.
const (
	NotFound    Reason = "source_not_found"
	Denied      Reason = "source_denied"
	Redirected  Reason = "source_redirects"
	Changed     Reason = "source_changed"     // it has other bytes than those asked for
	Unreachable Reason = "source_unreachable" // it may come back
	Mismatch    Reason = "integrity_mismatch" // the bytes are not those asked for
	NoSpace     Reason = "no_space"           // the file system is too full
	DiskFailed  Reason = "disk_failed"        // the file system fails
	Busy        Reason = "transfer_under_way" // another process fetches the same file
)

// Error is why nothing was fetched.
type Error struct {
	Reason Reason
	Source string // empty: it is not about a source
	Cause  error
}

func (e *Error) Error() string {
	text := string(e.Reason)
	if e.Source != "" {
		text += " (" + e.Source + ")"
	}
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

func (e *Error) Unwrap() error { return e.Cause }

func failed(reason Reason, source string, format string, args ...any) *Error {
	return &Error{Reason: reason, Source: source, Cause: fmt.Errorf(format, args...)}
}

// Limits of how long a source is waited for.
const (
	stallTime = 30 * time.Second // without one byte
	mostTries = 5                // in a row without one byte
	mostWait  = time.Minute      // that a source may ask for with Retry-After
	parallel  = 4
)

// Fetcher fetches. Its zero value is ready.
type Fetcher struct {
	Transport http.RoundTripper // nil: plain HTTP and HTTPS, without a proxy
	Home      http.RoundTripper // the way to the platform's own registry; nil: it has no other
	Stall     time.Duration     // zero: stallTime
	Pause     time.Duration     // before the second try, doubled with each; zero: one second
}

// Fetch brings the file to its end. part holds the bytes and notes what is known of
// them; both are empty at first, and are given again to go on. After Mismatch both are
// empty.
func (f Fetcher) Fetch(ctx context.Context, w Want, part, notes *os.File) error {
	if err := unix.Flock(int(part.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return &Error{Reason: Busy, Cause: err}
	}
	defer func() { _ = unix.Flock(int(part.Fd()), unix.LOCK_UN) }()
	client := f.client()
	defer client.CloseIdleConnections()
	err := f.from(ctx, client, w, w.Sources, part, notes)
	if len(w.Sources) == 1 {
		return err
	}
	// Nobody can say which source gave the wrong bytes, so each is asked alone.
	for _, one := range w.Sources {
		if reasonOf(err) != Mismatch {
			return err
		}
		err = f.from(ctx, client, w, []string{one}, part, notes)
	}
	return err
}

// from fetches from some of the sources. Wrong bytes are not kept.
func (f Fetcher) from(ctx context.Context, client *http.Client, w Want, sources []string, part, notes *os.File) error {
	t := &transfer{fetcher: f, client: client, want: w, sources: sources, part: part, notes: notes}
	err := t.run(ctx)
	if errors.Is(err, errWhole) {
		// Whoever reads the file as a whole writes every part, so nobody else may write.
		w.Parallel, w.Resumed = 1, nil
		t = &transfer{fetcher: f, client: client, want: w, sources: sources, part: part, notes: notes}
		err = t.run(ctx)
	}
	if err == nil || reasonOf(err) != Mismatch && len(t.have) > 0 {
		return err // what is there is gone on with
	}
	if failure := errors.Join(part.Truncate(0), notes.Truncate(0)); failure != nil {
		return disk(failure)
	}
	return err
}

func reasonOf(err error) Reason {
	var bad *Error
	if errors.As(err, &bad) {
		return bad.Reason
	}
	return ""
}

func (f Fetcher) client() *http.Client {
	return &http.Client{
		Transport:     f.transport(),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (f Fetcher) transport() http.RoundTripper {
	if home := f.Home; home != nil {
		f.Home = nil
		return ways{home, f.transport()}
	}
	if f.Transport != nil {
		return f.Transport
	}
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: stallTime}).DialContext,
		TLSHandshakeTimeout: stallTime, ResponseHeaderTimeout: stallTime,
		DisableCompression: true, MaxIdleConnsPerHost: 16, ForceAttemptHTTP2: false,
	}
}

func (f Fetcher) stall() time.Duration {
	if f.Stall > 0 {
		return f.Stall
	}
	return stallTime
}

func (f Fetcher) pause() time.Duration {
	if f.Pause > 0 {
		return f.Pause
	}
	return time.Second
}

var errNotOfRegistry = errors.New("the platform's registry has no such address")

// ways are the ways to the platform's own registry and to all others.
type ways struct{ home, rest http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (w ways) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Hostname() == agentwire.PlatformRegistry {
		// The way home shows who the node is, so nothing else is reached by it.
		if r.URL.Scheme != "https" || !strings.HasPrefix(r.URL.Path, agentwire.PathRegistryObjects) {
			return nil, errNotOfRegistry
		}
		return w.home.RoundTrip(r)
	}
	return w.rest.RoundTrip(r)
}

// CloseIdleConnections closes those of both.
func (w ways) CloseIdleConnections() {
	for _, one := range []http.RoundTripper{w.home, w.rest} {
		if c, ok := one.(interface{ CloseIdleConnections() }); ok {
			c.CloseIdleConnections()
		}
	}
}

// disk tells a failure of the file system.
func disk(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return &Error{Reason: NoSpace, Cause: err}
	}
	return &Error{Reason: DiskFailed, Cause: err}
}

// Room refuses what the file system of a file or folder has no space for, with NoSpace.
func Room(on *os.File, bytes, keep int64) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(on.Fd()), &fs); err != nil {
		return disk(err)
	}
	free := int64(fs.Bavail) * fs.Bsize //nolint:gosec // far below the limit of the type
	if bytes > 0 && bytes > free-keep {
		return failed(NoSpace, "", "%d bytes are missing, and %d are free, of which %d are kept", bytes, free, keep)
	}
	return nil
}

// room takes the space for the whole file, and refuses if too little would be left.
func room(part *os.File, bytes, keep int64) error {
	var have unix.Stat_t
	if err := unix.Fstat(int(part.Fd()), &have); err != nil {
		return disk(err)
	}
	if err := Room(part, bytes-have.Blocks*512, keep); err != nil {
		return err
	}
	err := unix.Fallocate(int(part.Fd()), 0, 0, bytes)
	switch {
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
		err = part.Truncate(bytes)
	case err != nil:
		_ = part.Truncate(have.Size)
	}
	if err == nil && have.Size > bytes {
		err = part.Truncate(bytes)
	}
	if err != nil {
		return disk(err)
	}
	return nil
}
