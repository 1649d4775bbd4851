package operation

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"gpuaas/contract/agentwire"
)

// logFolder is where lines wait until the control plane has them.
const logFolder = "/var/lib/gpuaas/operations/logs"

// Logs sends log lines to the control plane.
type Logs struct {
	Send func(ctx context.Context, e agentwire.Envelope, r agentwire.LogsRequest) (agentwire.LogsResponse, error)
	// Refused says that the control plane will never take the lines.
	Refused func(error) bool
	Log     *slog.Logger
}

// spool is the log of one task: a file that survives the process, and a
// goroutine that sends it.
type spool struct {
	logs     Logs
	envelope agentwire.Envelope
	file     *os.File
	wake     chan struct{}
	done     chan struct{} // closed when everything was sent or given up

	mu      sync.Mutex
	seq     int64
	size    int64
	closed  bool
	lines   map[string]int64 // by step
	bytes   map[string]int64
	dropped map[string]int64
}

// openSpool continues the log of a task, or begins it. The first line of the
// file is the task.
func openSpool(l Logs, file string, e agentwire.Envelope) (*spool, error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, fmt.Errorf("make folder of logs: %w", err)
	}
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	s := &spool{
		logs: l, envelope: e, file: f, wake: make(chan struct{}, 1), done: make(chan struct{}),
		lines: map[string]int64{}, bytes: map[string]int64{}, dropped: map[string]int64{},
	}
	if err := s.restore(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return s, nil
}

// restore reads what an earlier process wrote, and cuts off a torn line.
func (s *spool) restore() error {
	in := bufio.NewReader(s.file)
	for {
		raw, err := in.ReadBytes('\n')
		if err != nil {
			break // the rest is torn
		}
		if s.size == 0 {
			var e agentwire.Envelope
			if json.Unmarshal(raw, &e) == nil && s.envelope.NodeID == "" {
				s.envelope = e
			}
		} else {
			var line agentwire.LogLine
			if json.Unmarshal(raw, &line) != nil {
				break
			}
			s.seq = line.Seq
			s.lines[line.Step]++
			s.bytes[line.Step] += weight(line)
		}
		s.size += int64(len(raw))
	}
	if err := s.file.Truncate(s.size); err != nil {
		return fmt.Errorf("cut off a torn line: %w", err)
	}
	if s.size > 0 {
		return nil
	}
	return s.write(agentwire.Envelope{
		TaskID: s.envelope.TaskID, NodeID: s.envelope.NodeID, Attempt: s.envelope.Attempt,
		CorrelationID: s.envelope.CorrelationID, TraceParent: s.envelope.TraceParent,
	})
}

func (s *spool) write(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode line: %w", err)
	}
	raw = append(raw, '\n')
	n, err := s.file.WriteAt(raw, s.size)
	if err != nil {
		return fmt.Errorf("write log: %w", errors.Join(err, s.file.Truncate(s.size)))
	}
	s.size += int64(n)
	return nil
}

// weight is what a line counts against the limits: its text and, so that empty
// lines are not free, about what is stored with it.
func weight(l agentwire.LogLine) int64 { return int64(len(l.Text) + len(l.Step) + 64) }

// add takes a line, unless its step has written too much already.
func (s *spool) add(step, stream, text string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "?"), "\x00", "")
	whole := int64(len(text))
	if len(text) > agentwire.MaxLogText {
		text = strings.ToValidUTF8(text[:agentwire.MaxLogText], "")
		s.dropped[step] += whole - int64(len(text))
	}
	line := agentwire.LogLine{Seq: s.seq + 1, Step: step, Stream: stream, At: at.UTC(), Text: text}
	// If the disk is full, the step goes on.
	if s.closed || s.bytes[step]+weight(line) > agentwire.MaxLogStepBytes || s.write(line) != nil {
		s.dropped[step] += int64(len(text)) + 1 // with the line break
		return
	}
	s.seq++
	s.lines[step]++
	s.bytes[step] += weight(line)
	s.signal()
}

func (s *spool) counts(step string) (lines, dropped int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines[step], s.dropped[step]
}

func (s *spool) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// close says that no more lines come, and waits a while until all were sent.
func (s *spool) close(patience time.Duration) {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.signal()
	select {
	case <-s.done:
	case <-time.After(patience):
	}
}

// send sends lines until all are sent or the context ends. Then the file is
// removed, or left to the next process.
func (s *spool) send(ctx context.Context) {
	defer close(s.done)
	offset, pause, stuck := int64(-1), time.Second, 0
	for {
		lines, next, err := s.chunk(offset)
		if err != nil {
			s.logs.Log.Error("the log of a task cannot be read; the rest of it is not sent", "task_id", s.envelope.TaskID, "error", err)
			s.remove()
			return
		}
		if len(lines) == 0 {
			if s.over(next) {
				s.remove()
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-s.wake:
			}
			continue
		}
		answer, err := s.logs.Send(ctx, s.envelope, agentwire.LogsRequest{Attempt: s.envelope.Attempt, Lines: lines})
		switch last := lines[len(lines)-1].Seq; {
		case err == nil && answer.Next > last:
			offset, pause, stuck = next, time.Second, 0
			if answer.Next > last+1 {
				offset = s.find(answer.Next)
			}
			continue
		case err == nil && stuck < 3:
			offset = s.find(answer.Next)
			stuck++
			continue
		case ctx.Err() != nil:
			return
		case err != nil && s.logs.Refused(err):
			s.logs.Log.Info("the control plane does not take the log of a task", "task_id", s.envelope.TaskID, "error", err)
			s.remove()
			return
		}
		stuck = 0
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, time.Minute)
	}
}

func (s *spool) over(offset int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed && offset >= s.size
}

func (s *spool) remove() {
	if err := errors.Join(os.Remove(s.file.Name()), s.file.Close()); err != nil {
		s.logs.Log.Warn("the log of a task was sent but not removed", "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// chunk reads lines from an offset on; -1 is the first line after the task.
func (s *spool) chunk(offset int64) (lines []agentwire.LogLine, next int64, err error) {
	s.mu.Lock()
	size := s.size
	s.mu.Unlock()
	in := bufio.NewReader(io.NewSectionReader(s.file, max(0, offset), size-max(0, offset)))
	next = max(0, offset)
	bytes := int64(0)
	for len(lines) < agentwire.MaxLogLines && bytes < agentwire.MaxLogChunk-agentwire.MaxLogText {
		raw, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return lines, next, nil
		}
		if err != nil {
			return nil, next, fmt.Errorf("read log: %w", err)
		}
		if next > 0 {
			var line agentwire.LogLine
			if err := json.Unmarshal(raw, &line); err != nil {
				return nil, next, fmt.Errorf("decode line: %w", err)
			}
			lines = append(lines, line)
			bytes += weight(line)
		}
		next += int64(len(raw))
	}
	return lines, next, nil
}

// find returns where the line with a number begins.
func (s *spool) find(seq int64) int64 {
	s.mu.Lock()
	size := s.size
	s.mu.Unlock()
	in := bufio.NewReader(io.NewSectionReader(s.file, 0, size))
	at := int64(0)
	for {
		raw, err := in.ReadBytes('\n')
		var line agentwire.LogLine
		if err != nil || at > 0 && json.Unmarshal(bytes.TrimSpace(raw), &line) == nil && line.Seq >= seq {
			return at
		}
		at += int64(len(raw))
	}
}

// spools are the logs that are being sent.
type spools struct {
	mu   sync.Mutex
	open map[string]*spool
	ctx  context.Context //nolint:containedctx // of the agent: sending outlives the task
}

// take begins or continues the log of a task.
func (r *Runner) take(e agentwire.Envelope) *spool {
	if r.Logs.Send == nil {
		return nil
	}
	r.spools.mu.Lock()
	defer r.spools.mu.Unlock()
	if s, ok := r.spools.open[e.TaskID]; ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.closed {
			return s
		}
	}
	s, err := openSpool(r.Logs, r.Host.Path(path.Join(logFolder, e.TaskID)), e)
	if err != nil {
		r.Logs.Log.Error("the log of a task cannot be kept; the task goes on without", "task_id", e.TaskID, "error", err)
		return nil
	}
	r.spools.open[e.TaskID] = s
	go func() {
		s.send(r.spools.ctx)
		r.spools.mu.Lock()
		defer r.spools.mu.Unlock()
		if r.spools.open[e.TaskID] == s {
			delete(r.spools.open, e.TaskID)
		}
	}()
	return s
}

// Start sends the logs that an earlier process left, until the context ends, and
// removes its lists of packages. Those of tasks that go on are left to them.
func (r *Runner) Start(ctx context.Context, goesOn func(task string) bool) {
	for _, task := range r.left(aptFolder, goesOn) {
		if err := os.RemoveAll(r.Host.Path(path.Join(aptFolder, task))); err != nil {
			r.Logs.Log.Warn("lists of packages that nobody uses are not removed", "task_id", task, "error", err)
		}
	}
	r.spools.mu.Lock()
	r.spools.ctx = ctx //nolint:fatcontext // of the agent: sending outlives the task
	r.spools.mu.Unlock()
	for _, task := range r.left(logFolder, goesOn) {
		if s := r.take(agentwire.Envelope{TaskID: task}); s != nil {
			s.mu.Lock()
			s.closed = true
			s.mu.Unlock()
			s.signal()
		}
	}
}

// left names what is in a folder and belongs to no task that goes on.
func (r *Runner) left(folder string, goesOn func(task string) bool) (tasks []string) {
	all, err := os.ReadDir(r.Host.Path(folder))
	if err != nil {
		return nil // there is nothing
	}
	for _, f := range all {
		if !goesOn(f.Name()) {
			tasks = append(tasks, f.Name())
		}
	}
	return tasks
}
