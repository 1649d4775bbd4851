package operation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/operate/operation/internal/operationdb"
)

// logsChannel tells those who follow a run that it has printed more.
const logsChannel = "operation_logs"

// mostLogBytes is what is kept of what one task prints. The agent bounds each step;
// this bounds an agent that does not.
const mostLogBytes = 64 << 20

// printsUntil is how long after the end of a task its node may still send what it
// printed: lines wait on the node while the network is away.
const printsUntil = 10 * time.Minute

// AppendLogs keeps lines that a node sends of a task of its own, and says with which
// number it goes on. Lines that are kept already are left out, so that an answer that
// was lost costs nothing.
func (s *Service) AppendLogs(ctx context.Context, n id.Node, task id.NodeTask, r agentwire.LogsRequest) (
	agentwire.LogsResponse, error,
) {
	if err := checkLogs(r); err != nil {
		return agentwire.LogsResponse{}, err
	}
	scrubbed := false
	for range deliveriesAtOnce {
		stream, err := s.streamOf(ctx, n, task)
		if err != nil {
			return agentwire.LogsResponse{}, err
		}
		lines := after(r.Lines, stream.NextSeq)
		if len(lines) == 0 || lines[0].Seq != stream.NextSeq { // lines are missing: the node sends them first
			return agentwire.LogsResponse{Next: stream.NextSeq}, nil
		}
		if !scrubbed {
			r.Lines, scrubbed = presentable(lines), true
			lines = r.Lines
		}
		kept, err := s.keepLines(ctx, task, stream, lines)
		if err != nil {
			return agentwire.LogsResponse{}, err
		}
		if kept {
			s.db.NotifySoon(logsChannel, stream.OperationID.String())
			return agentwire.LogsResponse{Next: lines[len(lines)-1].Seq + 1}, nil
		}
	}
	return agentwire.LogsResponse{}, fault.New(fault.Unavailable, "operation_logs_contended",
		"lines of task %s are being kept by another request", task).WithRemedy("send them again")
}

// deliveriesAtOnce bounds how often a delivery is overtaken by another of the same task.
// An agent has one under way, and perhaps one whose answer it did not wait for.
const deliveriesAtOnce = 8

// after leaves out the lines before a number. Numbers rise by one.
func after(lines []agentwire.LogLine, next int64) []agentwire.LogLine {
	if len(lines) == 0 || lines[0].Seq >= next {
		return lines
	}
	return lines[min(next-lines[0].Seq, int64(len(lines))):]
}

// presentable are lines as they may be kept: without what looks like a secret.
func presentable(lines []agentwire.LogLine) []agentwire.LogLine {
	out := slices.Clone(lines)
	for i, l := range out {
		out[i].Text, out[i].Step = scrub(clean(l.Text, agentwire.MaxLogText)), clean(l.Step, 64)
	}
	return out
}

// streams are where lines come from.
var streams = []string{agentwire.StreamStdout, agentwire.StreamStderr, agentwire.StreamAgent}

// lineSize is what a line counts: an empty one takes room, too.
func lineSize(l agentwire.LogLine) int { return len(l.Text) + len(l.Step) + 64 }

// checkLogs refuses what an agent never sends.
func checkLogs(r agentwire.LogsRequest) error {
	size := 0
	for i, l := range r.Lines {
		size += len(l.Text)
		if !slices.Contains(streams, l.Stream) {
			return fault.New(fault.Invalid, "operation_logs_invalid", "line %d comes from no stream of a step", i)
		}
		if l.Seq < 1 || i > 0 && l.Seq != r.Lines[i-1].Seq+1 || len(l.Text) > agentwire.MaxLogText || len(l.Step) > 64 {
			return fault.New(fault.Invalid, "operation_logs_invalid", "line %d is too long, or its number does not follow", i)
		}
	}
	if len(r.Lines) > agentwire.MaxLogLines || size > agentwire.MaxLogChunk {
		return fault.New(fault.Invalid, "operation_logs_invalid", "more than %d lines or %d bytes were sent at once",
			agentwire.MaxLogLines, agentwire.MaxLogChunk)
	}
	return nil
}

// streamOf reads what a task prints for, and how far its lines have come. The task must
// be of a run, of the node that sends, and of the installation that it runs on; an old one
// may be in the hands of whoever had the machine before.
func (s *Service) streamOf(ctx context.Context, n id.Node, task id.NodeTask) (operationdb.LogStreamRow, error) {
	row, err := operationdb.New(s.db).LogStream(ctx, operationdb.LogStreamParams{
		TaskID: task, NodeID: n, Seconds: int64(printsUntil / time.Second),
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return row, fault.New(fault.NotFound, agentwire.CodeTaskNotYours, "node %s has no task %s that prints", n, task)
	}
	if err != nil {
		return row, fmt.Errorf("read how far task %s has come: %w", task, err)
	}
	return row, nil
}

// keepLines keeps lines that begin where their task has come to. It says false if
// another delivery of the task came first.
func (s *Service) keepLines(ctx context.Context, task id.NodeTask, stream operationdb.LogStreamRow,
	lines []agentwire.LogLine,
) (bool, error) {
	q := operationdb.New(s.db)
	first, last := lines[0].Seq, lines[len(lines)-1].Seq
	size, steps := int64(0), []string{}
	for _, l := range lines {
		size += int64(lineSize(l))
		if !slices.Contains(steps, l.Step) {
			steps = append(steps, l.Step)
		}
	}
	if stream.Bytes+size > mostLogBytes {
		n, err := q.DropLines(ctx, operationdb.DropLinesParams{TaskID: task, FirstSeq: first, LastSeq: last, Size: size})
		if err != nil {
			return false, fmt.Errorf("note how far task %s has come: %w", task, err)
		}
		return n == 1, nil
	}
	body, err := pack(lines)
	if err != nil {
		return false, err
	}
	n, err := q.AppendLog(ctx, operationdb.AppendLogParams{
		Operation: stream.OperationID.String(), OperationID: stream.OperationID, TargetID: stream.TargetID, TaskID: task,
		FirstSeq: first, LastSeq: last, Steps: steps, Size: size, Body: body,
	})
	if err != nil {
		return false, fmt.Errorf("keep lines of task %s: %w", task, err)
	}
	return n == 1, nil
}

// LogPosition is where a listing of lines goes on: after this line of this chunk.
type LogPosition struct {
	Chunk int64 `json:"c"`
	Seq   int64 `json:"s"`
}

// LogWish says which lines of a run are wanted.
type LogWish struct {
	Target id.OperationTarget
	Step   string
	Search string // part of the text, in any case
}

// Line is a line that a step of a run printed.
type Line struct {
	At       LogPosition
	Target   id.OperationTarget
	Node     id.Node
	Hostname string
	agentwire.LogLine
}

// chunksAtOnce bounds what one look decompresses.
const chunksAtOnce = 32

// Lines gives lines of a run in the order in which they came, after a position. If
// looked is short of the end, there may be more although there are few lines: a
// search goes through many to find some.
func (s *Service) Lines(ctx context.Context, of id.Operation, wish LogWish, after LogPosition, most int) (
	lines []Line, looked LogPosition, more bool, err error,
) {
	looked = after
	rows, err := operationdb.New(s.db).Logs(ctx, operationdb.LogsParams{
		OperationID: of, FromID: after.Chunk, Target: textOf(wish.Target), Step: wish.Step, Most: chunksAtOnce,
	})
	if err != nil {
		return nil, looked, false, fmt.Errorf("read logs of operation %s: %w", of, err)
	}
	needle := strings.ToLower(wish.Search)
	for _, r := range rows {
		all, err := unpack(r.Body)
		if err != nil {
			return nil, looked, false, err
		}
		for _, l := range all {
			at := LogPosition{Chunk: r.ID, Seq: l.Seq}
			if r.ID == after.Chunk && l.Seq <= after.Seq {
				continue
			}
			if len(lines) == most {
				return lines, looked, true, nil
			}
			looked = at
			if wish.Step != "" && l.Step != wish.Step || needle != "" && !strings.Contains(strings.ToLower(l.Text), needle) {
				continue
			}
			lines = append(lines, Line{At: at, Target: r.TargetID, Node: r.NodeID, Hostname: r.Hostname, LogLine: l})
		}
	}
	return lines, looked, len(rows) == chunksAtOnce, nil
}
