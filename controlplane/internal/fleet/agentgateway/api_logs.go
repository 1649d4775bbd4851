package agentgateway

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"gpuaas/contract/agentwire"
)

// plainLogs decodes lines in the one form in which agents send them, which takes a
// fifth of the time of encoding/json: nothing else that nodes send is as much. It says
// false for everything else that may be JSON, and then the body is decoded as any other.
// What it does accept means the same there; a test compares them.
func plainLogs(body []byte) (out agentwire.LogsRequest, ok bool) {
	d := logScanner{rest: string(body)} // the lines are parts of this one text
	d.want(`{"attempt":`)
	out.Attempt = int(d.number())
	d.want(`,"lines":[`)
	for more := !d.skip(`]`); more && !d.odd; more = !d.skip(`]`) {
		if len(out.Lines) > 0 {
			d.want(`,`)
		} else {
			out.Lines = make([]agentwire.LogLine, 0, min(strings.Count(d.rest, `{"seq":`), agentwire.MaxLogLines))
		}
		out.Lines = append(out.Lines, d.line())
	}
	d.want(`}`)
	d.skip("\n")
	if d.odd || d.rest != "" || out.Lines == nil {
		return agentwire.LogsRequest{}, false
	}
	return out, true
}

// logScanner reads a text from its beginning. It is odd once something else came than
// was wanted.
type logScanner struct {
	rest string
	odd  bool
}

func (d *logScanner) skip(text string) bool {
	rest, found := strings.CutPrefix(d.rest, text)
	d.rest = rest
	return found
}

func (d *logScanner) want(text string) {
	if !d.skip(text) {
		d.odd = true
	}
}

func (d *logScanner) line() (l agentwire.LogLine) {
	d.want(`{"seq":`)
	l.Seq = d.number()
	d.want(`,"step":`)
	l.Step = d.text()
	d.want(`,"stream":`)
	l.Stream = d.text()
	d.want(`,"at":`)
	if at, escaped := d.literal(); d.odd || escaped || l.At.UnmarshalText([]byte(at)) != nil {
		d.odd = true
	}
	d.want(`,"text":`)
	l.Text = d.text()
	d.want(`}`)
	return l
}

// number reads a number without a sign that certainly fits.
func (d *logScanner) number() (n int64) {
	end := 0
	for end < len(d.rest) && '0' <= d.rest[end] && d.rest[end] <= '9' {
		n = n*10 + int64(d.rest[end]-'0')
		if end++; end > 18 {
			break
		}
	}
	if end == 0 || end > 18 || end > 1 && d.rest[0] == '0' {
		d.odd = true
		return 0
	}
	d.rest = d.rest[end:]
	return n
}

// text reads a string.
func (d *logScanner) text() string {
	text, escaped := d.literal()
	if escaped {
		return d.unescape(text)
	}
	return text
}

// literal reads a string as it is written, and says whether it holds escapes.
func (d *logScanner) literal() (text string, escaped bool) {
	d.want(`"`)
	for i := 0; i < len(d.rest); i++ {
		switch c := d.rest[i]; {
		case c == '"':
			text, d.rest = d.rest[:i], d.rest[i+1:]
			return text, escaped
		case c == '\\':
			escaped = true
			i++
		case c < ' ':
			d.odd = true
			return "", false
		}
	}
	d.odd = true
	return "", false
}

var shortEscapes = ['u']byte{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// unescape resolves the escapes of a string. Those of characters that need two leave it
// to encoding/json.
func (d *logScanner) unescape(text string) string {
	out := make([]byte, 0, len(text))
	for rest := text; ; {
		plain, after, found := strings.Cut(rest, `\`)
		out = append(out, plain...)
		if !found {
			return string(out)
		}
		switch {
		case after != "" && after[0] < 'u' && shortEscapes[after[0]] != 0:
			out, rest = append(out, shortEscapes[after[0]]), after[1:]
		case len(after) >= 5 && after[0] == 'u':
			r, err := strconv.ParseUint(after[1:5], 16, 16)
			if err != nil || !utf8.ValidRune(rune(r)) {
				return d.unquote(text)
			}
			out, rest = utf8.AppendRune(out, rune(r)), after[5:]
		default:
			return d.unquote(text)
		}
	}
}

func (d *logScanner) unquote(text string) (out string) {
	if json.Unmarshal([]byte(`"`+text+`"`), &out) != nil {
		d.odd = true
	}
	return out
}
