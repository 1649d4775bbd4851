package operation

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/testkit"
)

// plane is a control plane that takes logs.
type plane struct {
	mu     sync.Mutex
	lines  []agentwire.LogLine
	fail   error
	forget int64 // it lost everything from this number on, once
}

func (p *plane) send(_ context.Context, _ agentwire.Envelope, r agentwire.LogsRequest) (agentwire.LogsResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fail != nil {
		return agentwire.LogsResponse{}, p.fail
	}
	for _, l := range r.Lines {
		if l.Seq == int64(len(p.lines))+1 {
			p.lines = append(p.lines, l)
		}
	}
	if p.forget > 0 {
		p.lines, p.forget = p.lines[:p.forget-1], 0
	}
	return agentwire.LogsResponse{Next: int64(len(p.lines)) + 1}, nil
}

func (p *plane) taken() []agentwire.LogLine {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]agentwire.LogLine{}, p.lines...)
}

var errRefused = errors.New("refused")

func (p *plane) logs() Logs {
	return Logs{
		Send: p.send, Refused: func(err error) bool { return errors.Is(err, errRefused) },
		Log: slog.New(slog.DiscardHandler),
	}
}

// takeLogs lets a bench send its logs, and returns what was sent.
func (b *bench) takeLogs() func() []agentwire.LogLine {
	p := &plane{}
	b.deps.Logs = p.logs()
	return p.taken
}

func TestALogGoesOnAfterARestart(t *testing.T) {
	p, file := &plane{}, t.TempDir()+"/task"
	e := agentwire.Envelope{TaskID: "t", NodeID: "n", Attempt: 1}
	s, err := openSpool(p.logs(), file, e)
	if err != nil {
		t.Fatal(err)
	}
	s.add("a", agentwire.StreamStdout, "one", time.Now())
	s.add("a", agentwire.StreamStdout, "two", time.Now())
	if err := s.file.Close(); err != nil { // the process is killed before anything was sent
		t.Fatal(err)
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"seq":3,"torn`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = openSpool(p.logs(), file, e); err != nil {
		t.Fatal(err)
	}
	s.add("b", agentwire.StreamStderr, strings.Repeat("x", agentwire.MaxLogText+10), time.Now())
	most := agentwire.MaxLogStepBytes / (agentwire.MaxLogText + 65)
	for range 1 + most {
		s.add("c", agentwire.StreamStdout, strings.Repeat("y", agentwire.MaxLogText), time.Now())
	}
	p.forget = 2 // the control plane was restored from a backup
	go s.send(t.Context())
	s.close(time.Hour)
	got := p.taken()
	if len(got) != 3+most || got[0].Text != "one" || got[1].Text != "two" ||
		got[2].Step != "b" || len(got[2].Text) != agentwire.MaxLogText {
		t.Errorf("%d lines", len(got))
	}
	if _, dropped := s.counts("b"); dropped != 10 {
		t.Errorf("%d bytes dropped of b", dropped)
	}
	if lines, dropped := s.counts("c"); dropped != agentwire.MaxLogText+1 || lines != int64(most) {
		t.Errorf("%d lines and %d bytes dropped of c", lines, dropped)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Error("a log that was sent is still there")
	}
}

// A program that prints nothing but line breaks fills no disk, and a restart does
// not let it begin anew.
func TestEmptyLinesCountToo(t *testing.T) {
	p, file := &plane{}, t.TempDir()+"/task"
	s, err := openSpool(p.logs(), file, agentwire.Envelope{TaskID: "t", NodeID: "n", Attempt: 1})
	if err != nil {
		t.Fatal(err)
	}
	most := int64(agentwire.MaxLogStepBytes / 65)
	for range most + 5 {
		s.add("a", agentwire.StreamStdout, "", time.Now())
	}
	if lines, dropped := s.counts("a"); lines != most || dropped != 5 {
		t.Errorf("%d lines, %d bytes dropped", lines, dropped)
	}
	if err := s.file.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = openSpool(p.logs(), file, s.envelope); err != nil {
		t.Fatal(err)
	}
	s.add("a", agentwire.StreamStdout, "", time.Now())
	if lines, dropped := s.counts("a"); lines != most || dropped != 1 {
		t.Errorf("after a restart %d lines, %d bytes dropped", lines, dropped)
	}
	if err := s.file.Close(); err != nil {
		t.Fatal(err)
	}
}

// What an earlier process left of an ended task is sent by the next one.
func TestLogsOfEndedTasksAreSentLater(t *testing.T) {
	b := newBench(t)
	down := &plane{fail: errors.New("down")}
	b.deps.Logs = down.logs()
	r := New(b.deps)
	s := r.take(agentwire.Envelope{TaskID: "t1", NodeID: "n", Attempt: 1})
	s.add("a", agentwire.StreamAgent, "hello", time.Now())
	up := &plane{}
	b.deps.Logs = up.logs()
	next := New(b.deps)
	next.Start(t.Context(), func(string) bool { return false })
	testkit.Succeeds(t, "the log is sent", testkit.Patience, func() error {
		if got := up.taken(); len(got) != 1 || got[0].Text != "hello" || b.Exists(logFolder+"/t1") {
			return errors.New("not yet")
		}
		return nil
	})
	// One that the control plane refuses is given up.
	b.deps.Logs = (&plane{fail: errRefused}).logs()
	refused := New(b.deps).take(agentwire.Envelope{TaskID: "t2", NodeID: "n", Attempt: 1})
	refused.add("a", agentwire.StreamAgent, "hello", time.Now())
	testkit.Receive(t, "the end of the sender", refused.done)
	if b.Exists(logFolder + "/t2") {
		t.Error("a refused log is still there")
	}
}
