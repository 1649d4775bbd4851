package maas

import (
	"bytes"
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
)

// MAAS sends three times as much about a machine as is used here, indented, and
// decoding is the largest cost of a read. prune copies only the fields that a
// type has, in one pass that looks only at structure, and the decoder does the
// rest.

// pruneFrom is the size from which pruning pays.
const pruneFrom = 2 << 10

// shape says which parts of a value a type has. Nil stands for all of it.
type shape struct {
	fields map[string]*shape // of an object
	elem   *shape            // of an array
}

var shapes sync.Map // reflect.Type → *shape

func shapeFor(t reflect.Type) *shape {
	if known, ok := shapes.Load(t); ok {
		return known.(*shape) //nolint:forcetypeassert // nothing else is stored
	}
	s := newShape(t)
	shapes.Store(t, s)
	return s
}

var (
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func newShape(t reflect.Type) *shape {
	if p := reflect.PointerTo(t); p.Implements(jsonUnmarshaler) || p.Implements(textUnmarshaler) {
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return newShape(t.Elem())
	case reflect.Slice:
		if elem := newShape(t.Elem()); elem != nil {
			return &shape{elem: elem}
		}
	case reflect.Struct:
		s := &shape{fields: map[string]*shape{}}
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			if name != "" && name != "-" {
				s.fields[name] = newShape(t.Field(i).Type)
			}
		}
		return s
	default:
	}
	return nil
}

// prune returns the parts of a JSON value that a shape has, in the memory of
// buf. If it does not understand the value, it returns it unchanged, so that
// the decoder reports the error.
func prune(buf *bytes.Buffer, src []byte, s *shape) []byte {
	if s == nil || len(src) < pruneFrom {
		return src
	}
	buf.Reset()
	buf.Grow(len(src)) // the result is never longer
	p := pruner{src: src, out: buf.AvailableBuffer()}
	p.value(s)
	p.space()
	if p.bad || p.at != len(src) {
		return src
	}
	return p.out
}

type pruner struct {
	src []byte
	at  int
	out []byte
	bad bool
}

func (p *pruner) space() {
	for p.at < len(p.src) && (p.src[p.at] == ' ' || p.src[p.at] == '\n' || p.src[p.at] == '\r' || p.src[p.at] == '\t') {
		p.at++
	}
}

// next returns the first byte that is not space, or 0 at the end.
func (p *pruner) next() byte {
	p.space()
	if p.at >= len(p.src) {
		p.bad = true
		return 0
	}
	return p.src[p.at]
}

// take copies one byte of structure.
func (p *pruner) take(c byte) {
	if p.next() != c {
		p.bad = true
		return
	}
	p.at++
	p.out = append(p.out, c)
}

func (p *pruner) value(s *shape) {
	switch c := p.next(); {
	case c == '{' && s != nil && s.fields != nil:
		p.object(s)
	case c == '[' && s != nil && s.elem != nil:
		p.array(s)
	default:
		from := p.at
		p.skip()
		p.out = append(p.out, p.src[from:p.at]...)
	}
}

func (p *pruner) array(s *shape) {
	p.take('[')
	if p.next() == ']' {
		p.take(']')
		return
	}
	for !p.bad {
		p.value(s.elem)
		if p.next() == ']' {
			p.take(']')
			return
		}
		p.take(',')
	}
}

func (p *pruner) object(s *shape) {
	p.take('{')
	kept := false
	for first := true; !p.bad; first = false {
		c := p.next()
		if c == '}' {
			p.take('}')
			return
		}
		if !first {
			if c != ',' {
				p.bad = true
				return
			}
			p.at++
		}
		key := p.key()
		inner, wanted := s.fields[string(key)]
		if !wanted {
			p.next()
			p.skip()
			continue
		}
		if kept {
			p.out = append(p.out, ',')
		}
		kept = true
		p.out = append(append(append(p.out, '"'), key...), '"', ':')
		p.value(inner)
	}
}

// key reads a name and the colon after it.
func (p *pruner) key() []byte {
	if p.next() != '"' {
		p.bad = true
		return nil
	}
	from := p.at
	p.text()
	key := p.src[from:p.at]
	if p.bad || p.next() != ':' {
		p.bad = true
		return nil
	}
	p.at++
	return key[1 : len(key)-1]
}

// text skips a string.
func (p *pruner) text() {
	for i := p.at + 1; ; i++ {
		n := bytes.IndexByte(p.src[i:], '"')
		if n < 0 {
			p.bad = true
			p.at = len(p.src)
			return
		}
		i += n
		slashes := 0
		for p.src[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			p.at = i + 1
			return
		}
	}
}

// structural are the bytes at which the depth of a value can change or end.
var structural = func() (t [256]bool) {
	for _, c := range []byte(`"{}[],`) {
		t[c] = true
	}
	return t
}()

// skip skips a value of any kind.
func (p *pruner) skip() {
	for depth := 0; p.at < len(p.src); {
		c := p.src[p.at]
		switch {
		case !structural[c]:
			p.at++
			continue
		case c == '"':
			p.text()
		case c == '{' || c == '[':
			depth++
			p.at++
		case depth == 0: // a comma, or the end of the enclosing value
			return
		case c == ',':
			p.at++
			continue
		default:
			depth--
			p.at++
		}
		if depth == 0 {
			return
		}
	}
	p.bad = true
}
