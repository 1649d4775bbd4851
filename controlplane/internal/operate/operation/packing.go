package operation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"

	"github.com/klauspost/compress/flate"

	"gpuaas/contract/agentwire"
)

// packer is what packing needs each time. It is kept, because the tables of the
// compression are large and would have to be cleared.
type packer struct {
	raw []byte
	out bytes.Buffer
	z   *flate.Writer
}

var packers = sync.Pool{New: func() any {
	z, _ := flate.NewWriter(nil, flate.BestSpeed) // the level is known, so there is no error
	return &packer{z: z}
}}

// pack gives lines the form in which they are kept: JSON, compressed. It writes what
// encoding/json would read, and needs a small part of its time.
func pack(lines []agentwire.LogLine) ([]byte, error) {
	p, ok := packers.Get().(*packer)
	if !ok {
		return nil, fmt.Errorf("compress %d lines: there is nothing to do it with", len(lines))
	}
	defer packers.Put(p)
	var err error
	p.raw = append(p.raw[:0], '[')
	for i, l := range lines {
		if i > 0 {
			p.raw = append(p.raw, ',')
		}
		if p.raw, err = appendLine(p.raw, l); err != nil {
			return nil, fmt.Errorf("encode line %d: %w", l.Seq, err)
		}
	}
	p.raw = append(p.raw, ']')
	p.out.Reset()
	p.z.Reset(&p.out)
	if _, err := p.z.Write(p.raw); err != nil {
		return nil, fmt.Errorf("compress lines: %w", err)
	}
	if err := p.z.Close(); err != nil {
		return nil, fmt.Errorf("compress lines: %w", err)
	}
	return slices.Clone(p.out.Bytes()), nil
}

func appendLine(to []byte, l agentwire.LogLine) ([]byte, error) {
	to = append(to, `{"seq":`...)
	to = strconv.AppendInt(to, l.Seq, 10)
	to = append(to, `,"step":`...)
	to = appendText(to, l.Step)
	to = append(to, `,"stream":`...)
	to = appendText(to, l.Stream)
	to = append(to, `,"at":"`...)
	to, err := l.At.AppendText(to)
	to = append(to, `","text":`...)
	return append(appendText(to, l.Text), '}'), err
}

// appendText appends a text in UTF-8 as a string of JSON.
func appendText(to []byte, text string) []byte {
	const digits = "0123456789abcdef"
	to = append(to, '"')
	done := 0
	for i := range len(text) {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		to = append(to, text[done:i]...)
		if c >= ' ' {
			to = append(to, '\\', c)
		} else {
			to = append(to, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
		done = i + 1
	}
	return append(append(to, text[done:]...), '"')
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
