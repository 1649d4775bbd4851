package sanitize

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"gpuaas/agent/internal/sanitize/looptest"
)

// loop is a real block device over a file.
type loop struct {
	*Block
	*looptest.Loop
}

func newLoop(t testing.TB, size int64) *loop {
	t.Helper()
	return &loop{Loop: looptest.New(t, size)}
}

func (l *loop) disk() Disk {
	return Disk{Name: l.Name, Node: l.Node, Numbers: l.Numbers, Whole: l.Name}
}

func (l *loop) open(t testing.TB) *loop {
	t.Helper()
	b, err := Open(l.Node, l.disk())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	l.Block = b
	return l
}

// nonzero counts the bytes of the backing file that are not zero.
func (l *loop) nonzero(t *testing.T) (n int) {
	t.Helper()
	raw, err := os.ReadFile(l.Backing)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range raw {
		if b != 0 {
			n++
		}
	}
	return n
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// ledger keeps records as the journal does: as text.
type ledger struct {
	saved  string
	saves  int
	failAt int // number of the save that fails, as if the process were killed then
}

var errKilled = errors.New("killed")

func (l *ledger) options() Options {
	return Options{
		Clock: func() time.Time { return noon }, Poll: time.Millisecond,
		Save: func(r Record) error {
			if l.saves++; l.saves == l.failAt {
				return errKilled
			}
			raw, err := json.Marshal(r)
			l.saved = string(raw)
			return err
		},
	}
}

func (l *ledger) record(t *testing.T, plan Plan) *Record {
	t.Helper()
	rec := &Record{Plan: plan}
	if l.saved != "" {
		if err := json.Unmarshal([]byte(l.saved), rec); err != nil {
			t.Fatal(err)
		}
	}
	return rec
}

// sanitized runs to the end and returns the record.
func sanitized(t *testing.T, d Device, plan Plan) *Record {
	t.Helper()
	var l ledger
	rec := l.record(t, plan)
	if err := Run(t.Context(), d, rec, l.options()); err != nil {
		t.Fatal(err)
	}
	if rec.Stage != StageJudged {
		t.Fatalf("stage %q", rec.Stage)
	}
	return rec
}

func only(m ...Method) Plan { return Plan{Methods: m} }

func has(t *testing.T, reason string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(reason, p) {
			t.Errorf("reason %q does not say %q", reason, p)
		}
	}
}

func offsets(rec *Record) string {
	var all []string
	for _, c := range rec.Canaries {
		all = append(all, fmt.Sprintf("%d %x", c.Offset, c.Sectors))
	}
	return strings.Join(all, " ")
}
