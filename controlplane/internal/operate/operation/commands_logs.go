package operation

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
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
	var out agentwire.LogsResponse
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		stream, err := streamOf(ctx, tx, n, task)
		if err != nil {
			return err
		}
		lines := slices.DeleteFunc(slices.Clone(r.Lines), func(l agentwire.LogLine) bool { return l.Seq < stream.NextSeq })
		out.Next = stream.NextSeq
		if len(lines) == 0 {
			return nil
		}
		if lines[0].Seq != stream.NextSeq {
			return nil // lines are missing: the node sends them first
		}
		return keepLines(ctx, tx, stream, lines, &out)
	})
	return out, err
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

// streamOf locks how far a task has come with its lines. The task must be of a run, of
// the node that sends, and of the installation that it runs on; an old one may be in the
// hands of whoever had the machine before.
func streamOf(ctx context.Context, tx pgx.Tx, n id.Node, task id.NodeTask) (operationdb.OperationLogStream, error) {
	q := operationdb.New(tx)
	row, err := q.TargetOfTask(ctx, operationdb.TargetOfTaskParams{
		TaskID: task, NodeID: n, Seconds: int64(printsUntil / time.Second),
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return operationdb.OperationLogStream{}, fault.New(fault.NotFound, agentwire.CodeTaskNotYours,
			"node %s has no task %s that prints", n, task)
	}
	if err != nil {
		return operationdb.OperationLogStream{}, fmt.Errorf("read target of task %s: %w", task, err)
	}
	stream, err := q.OpenStream(ctx, operationdb.OpenStreamParams{
		TaskID: task, OperationID: row.OperationID,
		TargetID: row.ID,
	})
	if err != nil {
		return stream, fmt.Errorf("read how far task %s has come: %w", task, err)
	}
	return stream, nil
}

func keepLines(ctx context.Context, tx pgx.Tx, stream operationdb.OperationLogStream, lines []agentwire.LogLine,
	out *agentwire.LogsResponse,
) error {
	q := operationdb.New(tx)
	last := lines[len(lines)-1].Seq
	size, steps := int64(0), []string{}
	for i, l := range lines {
		lines[i].Text, lines[i].Step = scrub(clean(l.Text, agentwire.MaxLogText)), clean(l.Step, 64)
		size += int64(lineSize(l))
		if !slices.Contains(steps, lines[i].Step) {
			steps = append(steps, lines[i].Step)
		}
	}
	p := operationdb.AdvanceParams{TaskID: stream.TaskID, NextSeq: last + 1, More: size}
	if stream.Bytes+size > mostLogBytes {
		p.More, p.Dropped = 0, size
	} else {
		body, err := pack(lines)
		if err != nil {
			return err
		}
		if err := q.LockLogs(ctx, stream.OperationID.String()); err != nil {
			return fmt.Errorf("lock log of operation %s: %w", stream.OperationID, err)
		}
		if _, err := q.AppendLog(ctx, operationdb.AppendLogParams{
			OperationID: stream.OperationID, TargetID: stream.TargetID, TaskID: stream.TaskID, FirstSeq: lines[0].Seq,
			LastSeq: last, Steps: steps, Body: body,
		}); err != nil {
			return fmt.Errorf("keep lines of task %s: %w", stream.TaskID, err)
		}
	}
	if err := q.Advance(ctx, p); err != nil {
		return fmt.Errorf("note how far task %s has come: %w", stream.TaskID, err)
	}
	out.Next = last + 1
	return postgres.Notify(ctx, tx, logsChannel, stream.OperationID.String())
}

// packers are kept, because each needs a megabyte that would have to be cleared.
var packers = sync.Pool{New: func() any {
	z, _ := flate.NewWriter(nil, flate.BestSpeed) // the level is known, so there is no error
	return z
}}

func pack(lines []agentwire.LogLine) ([]byte, error) {
	raw, err := json.Marshal(lines)
	if err != nil {
		return nil, fmt.Errorf("encode lines: %w", err)
	}
	z, ok := packers.Get().(*flate.Writer)
	if !ok {
		return nil, errors.New("compress lines: there is nothing to do it with")
	}
	defer packers.Put(z)
	var b bytes.Buffer
	z.Reset(&b)
	if _, err := z.Write(raw); err != nil {
		return nil, fmt.Errorf("compress lines: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("compress lines: %w", err)
	}
	return b.Bytes(), nil
}

func unpack(body []byte) ([]agentwire.LogLine, error) {
	raw, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(body)), 64<<20))
	if err != nil {
		return nil, fmt.Errorf("decompress lines: %w", err)
	}
	var lines []agentwire.LogLine
	if err := json.Unmarshal(raw, &lines); err != nil {
		return nil, fmt.Errorf("decode lines: %w", err)
	}
	return lines, nil
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
