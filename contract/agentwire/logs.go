package agentwire

import "time"

// PathLogs takes the log lines of a task.
const PathLogs = "/internal/v1/nodes/{node_id}/tasks/{task_id}/logs"

// LogsRequest sends lines of the log of a task. Lines have numbers that rise by
// one, over all attempts of the task.
type LogsRequest struct {
	Attempt int       `json:"attempt"`
	Lines   []LogLine `json:"lines"`
}

// LogLine is one line that a step wrote.
type LogLine struct {
	Seq    int64     `json:"seq"` // from 1
	Step   string    `json:"step"`
	Stream string    `json:"stream"` // stdout, stderr or agent
	At     time.Time `json:"at"`
	Text   string    `json:"text"` // without secrets, without the line break
}

// Streams of log lines.
const (
	StreamStdout = "stdout"
	StreamStderr = "stderr"
	StreamAgent  = "agent" // what the agent says about the step
)

// LogsResponse says with which number to go on. Everything before it is kept.
type LogsResponse struct {
	Next int64 `json:"next"`
}

// Limits of logs.
const (
	MaxLogText      = 8 << 10   // of a line, in bytes; the rest is cut off
	MaxLogLines     = 1000      // of a request
	MaxLogChunk     = 512 << 10 // of a request, text in bytes
	MaxLogStepBytes = 4 << 20   // of one step, with about 64 for each line; the rest is counted and dropped
)
