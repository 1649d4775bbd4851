package blob

import (
	"context"
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// transfer is one attempt to bring a file to its end.
type transfer struct {
	fetcher Fetcher
	client  *http.Client
	want    Want
	part    *os.File
	notes   *os.File
	size    int64 // of a part

	mu      sync.Mutex
	changed *sync.Cond
	sources []string
	at      int            // the source that is asked
	have    map[int]uint32 // the sums of the parts that are on the disk
	next    int            // the part that nobody has looked at yet
	again   []int          // parts that the disk gave back differently
	over    bool
	err     error // why it is over; nil: it succeeded

	pace pace
	down error // why a source was left that may come back
}

func (t *transfer) run(ctx context.Context) error {
	t.size = partSize(t.want.Bytes)
	t.changed, t.pace = sync.NewCond(&t.mu), pace{rate: t.want.BytesPerSecond}
	var err error
	if t.have, err = readNotes(t.notes, head{t.want.SHA256, t.want.Bytes, t.size}); err != nil {
		return err
	}
	if t.want.Resumed != nil {
		t.want.Resumed(t.kept())
	}
	if err := room(t.part, t.want.Bytes, t.want.KeepFree); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { t.end(context.Cause(ctx)) })()
	n := t.want.Parallel
	if n < 1 {
		n = parallel
	}
	var workers sync.WaitGroup
	for range min(n, max(1, t.count())) {
		workers.Go(func() { t.work(ctx) })
	}
	sum, err := t.hash()
	t.end(err)
	cancel()
	workers.Wait()
	switch {
	case t.err != nil:
		return t.err
	case sum != t.want.SHA256:
		return failed(Mismatch, t.sources[t.at], "the bytes have the SHA-256 %s, and %s was asked for", sum, t.want.SHA256)
	}
	if err := t.part.Sync(); err != nil {
		return disk(err)
	}
	return nil
}

func (t *transfer) count() int { return int((t.want.Bytes + t.size - 1) / t.size) }

// span is where a part begins, and how long it is.
func (t *transfer) span(i int) (from, length int64) {
	from = int64(i) * t.size
	return from, min(t.size, t.want.Bytes-from)
}

// kept is how many bytes the notes vouch for.
func (t *transfer) kept() int64 {
	var all int64
	for i := range t.have {
		_, length := t.span(i)
		all += length
	}
	return all
}

// end stops everybody; the first reason counts.
func (t *transfer) end(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over {
		t.over, t.err = true, err
	}
	t.changed.Broadcast()
}

// hash goes through the file in order, behind the workers, and waits for what is not
// there yet. A part whose bytes are not those that were noted is fetched again.
func (t *transfer) hash() (string, error) {
	whole := sha256.New()
	buffer := make([]byte, 256<<10)
	for i := range t.count() {
		for tries := 1; ; tries++ {
			noted, err := t.await(i)
			if err != nil {
				return "", err
			}
			same, err := t.addPart(whole, i, noted, buffer)
			if err != nil {
				return "", err
			}
			if same {
				break
			}
			if tries == mostTries {
				return "", failed(DiskFailed, "", "part %d reads differently than it was written, %d times", i, tries)
			}
			t.repeat(i)
		}
		if t.want.Progress != nil {
			from, length := t.span(i)
			t.want.Progress(from + length)
		}
	}
	return hex.EncodeToString(whole.Sum(nil)), nil
}

// repeat has a part fetched once more.
func (t *transfer) repeat(i int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.have, i)
	t.again = append(t.again, i)
	t.changed.Broadcast()
}

// await waits until a part is there.
func (t *transfer) await(i int) (uint32, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		if t.over {
			return 0, t.err
		}
		if noted, there := t.have[i]; there {
			return noted, nil
		}
		t.changed.Wait()
	}
}

// addPart hashes a part, unless the disk gives back other bytes than were written.
func (t *transfer) addPart(whole hash.Hash, i int, noted uint32, buffer []byte) (bool, error) {
	before, err := whole.(encoding.BinaryMarshaler).MarshalBinary() //nolint:forcetypeassert // sha256 says so
	if err != nil {
		return false, fmt.Errorf("keep the state of a hash: %w", err)
	}
	from, length := t.span(i)
	sum := crc32.New(castagnoli)
	_, err = io.CopyBuffer(io.MultiWriter(sum, whole), plain{io.NewSectionReader(t.part, from, length)}, buffer)
	if err != nil {
		return false, disk(err)
	}
	if sum.Sum32() == noted {
		return true, nil
	}
	//nolint:forcetypeassert // sha256 says so
	if err := whole.(encoding.BinaryUnmarshaler).UnmarshalBinary(before); err != nil {
		return false, fmt.Errorf("bring back the state of a hash: %w", err)
	}
	return false, nil
}

// plain hides that a reader could write itself, so that the buffer is used.
type plain struct{ io.Reader }

// work fetches parts until there are none, or until the transfer ends.
func (t *transfer) work(ctx context.Context) {
	buffer := make([]byte, 256<<10)
	for {
		i, there := t.take()
		if !there {
			return
		}
		sum, err := t.fetch(ctx, i, buffer)
		if err == nil {
			err = t.note(i, sum)
		}
		if err != nil {
			t.end(err)
			return
		}
	}
}

// take hands out the next part that is missing. It waits while all are handed out,
// because the disk may give one back differently.
func (t *transfer) take() (int, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		if t.over {
			return 0, false
		}
		if n := len(t.again); n > 0 {
			i := t.again[n-1]
			t.again = t.again[:n-1]
			return i, true
		}
		for t.next < t.count() {
			t.next++
			if _, there := t.have[t.next-1]; !there {
				return t.next - 1, true
			}
		}
		t.changed.Wait()
	}
}

// note writes down that a part is on the disk, after it is.
func (t *transfer) note(i int, sum uint32) error {
	if err := t.part.Sync(); err != nil {
		return disk(err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := add(t.notes, line{i, sum}); err != nil {
		return err
	}
	t.have[i] = sum
	t.changed.Broadcast()
	return nil
}

// fetch brings one part to the disk, from where it broke off and from the next source
// where one fails for good or too often.
func (t *transfer) fetch(ctx context.Context, i int, buffer []byte) (uint32, error) {
	from, length := t.span(i)
	p := &piece{from: from, left: length, sum: crc32.New(castagnoli)}
	for tries := 0; ; {
		at, source := t.source()
		before := t.missing(p)
		wait, err := t.ask(ctx, source, p, buffer)
		sum := p.sum.Sum32()
		if errors.Is(err, errWhole) && t.want.Parallel == 1 {
			sum, err = t.stream(ctx, source, i, buffer)
		}
		if err == nil {
			return sum, nil
		}
		var bad *Error
		switch {
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case errors.Is(err, errWhole), !errors.As(err, &bad), bad.Reason == NoSpace, bad.Reason == DiskFailed:
			return 0, err
		case t.missing(p) < before:
			tries = 0
		}
		if tries++; bad.Reason != Unreachable || tries >= mostTries {
			if err := t.leave(at, bad); err != nil {
				return 0, err
			}
			// Another source goes on with the same bytes; if it does not have them, the end says so.
			tries = 0
			continue
		}
		if wait == 0 {
			wait = t.fetcher.pause() << (tries - 1)
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(min(wait, mostWait)):
		}
	}
}

// missing falls with everything that comes.
func (t *transfer) missing(p *piece) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return p.left - int64(len(t.have))
}

func (t *transfer) source() (int, string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.at, t.sources[t.at]
}

// leave goes on to the next source, unless another worker did. Where there is none, it
// says why: a source that may come back counts more than one that does not have the file.
func (t *transfer) leave(at int, why *Error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if why.Reason == Unreachable && t.down == nil {
		t.down = why
	}
	switch {
	case t.at != at:
		return nil
	case t.at+1 < len(t.sources):
		t.at++
		return nil
	case t.down != nil:
		return t.down
	default:
		return why
	}
}
