package apiclient

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// largestMessage keeps a broken or hostile sender from filling memory.
const largestMessage = 4 << 20

var errMessageTooLarge = fmt.Errorf("a message of the event stream is larger than %d bytes", largestMessage)

// message is one server-sent event.
type message struct {
	id   string // the last id seen, even if this message carries none
	name string
	data []byte
}

// messages reads server-sent events as the HTML standard defines them.
type messages struct {
	lines   *bufio.Scanner
	last    string
	retry   time.Duration // what the sender asked for; zero: nothing
	started bool
}

func newMessages(r io.Reader) *messages {
	m := &messages{lines: bufio.NewScanner(r)}
	m.lines.Buffer(make([]byte, 0, 4096), largestMessage)
	m.lines.Split(splitLine)
	return m
}

// splitLine ends a line at \n, \r\n or \r. It leaves out an incomplete last
// line.
func splitLine(data []byte, atEOF bool) (int, []byte, error) {
	i := bytes.IndexAny(data, "\r\n")
	switch {
	case i < 0 && atEOF:
		return len(data), nil, nil
	case i < 0:
		return 0, nil, nil
	case data[i] == '\n':
		return i + 1, data[:i], nil
	case i+1 < len(data) && data[i+1] == '\n':
		return i + 2, data[:i], nil
	case i+1 == len(data) && !atEOF:
		return 0, nil, nil // a \n may follow
	default:
		return i + 1, data[:i], nil
	}
}

// next returns the next message that has data, or io.EOF at the end.
func (m *messages) next() (message, error) {
	var out message
	var data []byte
	has := false
	id := m.last
	for m.lines.Scan() {
		line := m.lines.Bytes()
		if !m.started {
			m.started = true
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		if len(line) == 0 {
			m.last = id
			if has {
				out.id, out.data = id, data[:len(data)-1]
				return out, nil
			}
			out = message{}
			continue
		}
		field, value := fieldOf(line)
		switch field {
		case "data":
			if len(data)+len(value) >= largestMessage {
				return message{}, errMessageTooLarge
			}
			has, data = true, append(append(data, value...), '\n')
		case "event":
			out.name = value
		case "id":
			if !strings.ContainsRune(value, 0) {
				id = value
			}
		case "retry":
			m.setRetry(value)
		}
	}
	if err := m.lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return message{}, errMessageTooLarge
	} else if err != nil {
		return message{}, fmt.Errorf("read event stream: %w", err)
	}
	return message{}, io.EOF
}

func (m *messages) setRetry(value string) {
	if ms, err := strconv.ParseUint(value, 10, 31); err == nil && value[0] != '+' {
		m.retry = time.Duration(ms) * time.Millisecond
	}
}

// fieldOf splits a line; a comment has an empty field.
func fieldOf(line []byte) (field, value string) {
	before, after, _ := bytes.Cut(line, []byte(":"))
	return string(before), string(bytes.TrimPrefix(after, []byte(" ")))
}

// Messages tells the messages of a stream of server-sent events until it ends, which
// is no error, or tell fails. A message named problem ends it with that problem.
func Messages(from io.Reader, tell func(id, name string, data []byte) error) error {
	in := newMessages(from)
	for {
		m, err := in.next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case m.name == kindError:
			p := &Problem{}
			if err := json.Unmarshal(m.data, p); err != nil {
				return fmt.Errorf("decode end of event stream: %w", err)
			}
			return p
		}
		if err := tell(m.id, m.name, m.data); err != nil {
			return err
		}
	}
}
