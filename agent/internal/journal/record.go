package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"time"

	"gpuaas/contract/agentwire"
)

// Kinds of records.
const (
	kindGeneration = "generation"
	kindAccepted   = "accepted"
	kindCheckpoint = "checkpoint"
	kindStep       = "step"
	kindResult     = "result"
	kindSent       = "sent"
	kindAbandoned  = "abandoned"
)

// record is one line of the journal.
type record struct {
	Kind       string                   `json:"kind"`
	Task       string                   `json:"task,omitempty"`
	Node       string                   `json:"node,omitempty"` // of the generation
	Generation int64                    `json:"generation,omitempty"`
	Envelope   *agentwire.Envelope      `json:"envelope,omitempty"`
	Key        string                   `json:"key,omitempty"`
	Value      string                   `json:"value,omitempty"`
	Step       *agentwire.Step          `json:"step,omitempty"`
	Result     *agentwire.ResultRequest `json:"result,omitempty"`
}

var checksums = crc32.MakeTable(crc32.Castagnoli)

const sumLength = 9 // eight digits and a space

// encode returns the line of a record. Its JSON has no line breaks, so a line
// break always ends a record, even after a damaged one.
func encode(r record) ([]byte, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode record of task %s: %w", r.Task, err)
	}
	line := fmt.Appendf(make([]byte, 0, len(body)+sumLength+1), "%08x ", crc32.Checksum(body, checksums))
	return append(append(line, body...), '\n'), nil
}

func decode(line []byte) (record, error) {
	if len(line) < sumLength || line[sumLength-1] != ' ' {
		return record{}, fmt.Errorf("no checksum")
	}
	var sum [4]byte
	if _, err := hex.Decode(sum[:], line[:sumLength-1]); err != nil {
		return record{}, fmt.Errorf("no checksum: %w", err)
	}
	body := line[sumLength:]
	if crc := crc32.Checksum(body, checksums); crc != binary.BigEndian.Uint32(sum[:]) {
		return record{}, fmt.Errorf("the checksum does not match")
	}
	var r record
	if err := json.Unmarshal(body, &r); err != nil {
		return record{}, fmt.Errorf("decode record: %w", err)
	}
	return r, nil
}

// content is the sum of the records of a file.
type content struct {
	tasks      map[string]*Entry
	order      []string // of acceptance
	node       string   // whose journal it is; empty: no record says so yet
	generation int64
	good       int64 // bytes up to the end of the last whole line
	torn       bool
	damage     []string
}

// read never fails. It uses what it can read.
func read(data []byte) content {
	c := content{tasks: map[string]*Entry{}}
	for len(data) > 0 {
		end := bytes.IndexByte(data, '\n')
		if end < 0 {
			c.torn = true
			break
		}
		r, err := decode(data[:end])
		if err == nil {
			err = c.apply(r)
		}
		if err != nil {
			c.damage = append(c.damage, fmt.Sprintf("record at byte %d: %v", c.good, err))
		}
		c.good += int64(end) + 1
		data = data[end+1:]
	}
	c.drop(func(e *Entry) bool { return e.Envelope.TaskID == "" && e.Result == nil })
	return c
}

// apply is the only place where a record changes what is known, both when it is
// written and when it is read back.
func (c *content) apply(r record) error {
	if r.Kind == kindGeneration {
		c.generation = max(c.generation, r.Generation)
		c.belong(r.Node)
		return nil
	}
	if r.Task == "" {
		return fmt.Errorf("a record of kind %q without a task", r.Kind)
	}
	if r.Kind == kindAbandoned {
		c.drop(func(e *Entry) bool { return e.id == r.Task })
		return nil
	}
	e := c.entry(r.Task)
	switch r.Kind {
	case kindAccepted:
		return c.accept(e, r.Envelope)
	case kindCheckpoint:
		if e.Checkpoints == nil {
			e.Checkpoints = map[string]string{}
		}
		e.Checkpoints[r.Key] = r.Value
	case kindStep:
		if r.Step == nil {
			return fmt.Errorf("a step record without a step")
		}
		e.Steps = append(e.Steps, *r.Step)
	case kindResult:
		if r.Result == nil {
			return fmt.Errorf("a result record without a result")
		}
		// Steps and checkpoints are no longer needed.
		e.Result, e.Sent, e.Steps, e.Checkpoints = r.Result, false, nil, nil
	case kindSent:
		e.Sent = true
	default:
		return fmt.Errorf("there is no record of kind %q", r.Kind)
	}
	return nil
}

func (c *content) accept(e *Entry, envelope *agentwire.Envelope) error {
	if envelope == nil || envelope.TaskID != e.id {
		return fmt.Errorf("an accepted record without its envelope")
	}
	if envelope.Attempt > e.Envelope.Attempt {
		e.Steps = nil // each attempt numbers its own
	}
	e.Envelope = *envelope
	c.generation = max(c.generation, envelope.Generation)
	c.belong(envelope.NodeID)
	return nil
}

// belong takes the node of the newest record: only tasks of its own node are
// accepted.
func (c *content) belong(node string) {
	if node != "" {
		c.node = node
	}
}

// dropForeign forgets tasks of another node, and says whether there were any.
func (c *content) dropForeign() bool {
	before := len(c.order)
	c.drop(func(e *Entry) bool { return e.Envelope.NodeID != "" && e.Envelope.NodeID != c.node })
	return len(c.order) < before
}

func (c *content) entry(id string) *Entry {
	if e, ok := c.tasks[id]; ok {
		return e
	}
	e := &Entry{id: id}
	c.tasks[id] = e
	c.order = append(c.order, id)
	return e
}

func (c *content) drop(which func(*Entry) bool) {
	kept := c.order[:0]
	for _, id := range c.order {
		if which(c.tasks[id]) {
			delete(c.tasks, id)
			continue
		}
		kept = append(kept, id)
	}
	c.order = kept
}

// records returns the shortest list of records that gives the same content.
func (c *content) records() []record {
	out := []record{{Kind: kindGeneration, Node: c.node, Generation: c.generation}}
	for _, id := range c.order {
		e := c.tasks[id]
		if e.Envelope.TaskID != "" {
			envelope := e.Envelope
			if e.Result != nil {
				envelope.Params, envelope.Signature = []byte("{}"), nil // it is never carried out again
			}
			out = append(out, record{Kind: kindAccepted, Task: id, Envelope: &envelope})
		}
		for key, value := range e.Checkpoints {
			out = append(out, record{Kind: kindCheckpoint, Task: id, Key: key, Value: value})
		}
		for i := range e.Steps {
			out = append(out, record{Kind: kindStep, Task: id, Step: &e.Steps[i]})
		}
		if e.Result != nil {
			out = append(out, record{Kind: kindResult, Task: id, Result: e.Result})
		}
		if e.Sent {
			out = append(out, record{Kind: kindSent, Task: id})
		}
	}
	return out
}

// forgettable says whether nobody can hand this task out again: its envelope
// expired a day ago and its result was sent. A result that nobody took for a
// week is dropped.
func (e *Entry) forgettable(now time.Time) bool {
	if e.Result == nil {
		return false
	}
	last := e.Envelope.ExpiresAt
	if last.Before(e.Result.FinishedAt) {
		last = e.Result.FinishedAt
	}
	if e.Sent {
		return now.After(last.Add(keepSent))
	}
	return now.After(last.Add(keepUnsent))
}
