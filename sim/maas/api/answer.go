package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/region"
)

// text is an answer in plain text.
type text string

// nothing is an answer without a body.
type nothing struct{}

// bare is JSON that a handler wrote itself, without the charset.
type bare struct{ value any }

// made is a JSON answer for something new.
type made struct{ value any }

// raw is an answer of another type.
type raw struct {
	contentType string
	body        []byte
}

// framed sets the headers of answers that come through the API framework.
func framed(w http.ResponseWriter) {
	w.Header().Set("Vary", "Authorization, Cookie")
	w.Header().Set("X-MAAS-API-Hash", hash)
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("write answer: %w", err)
	}
	return indented(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

const step = "    "

var margin = "\n" + strings.Repeat(step, 16)

// indented formats compact JSON as MAAS does. It trusts its input, so it is
// several times as fast as the library's function.
func indented(in []byte) []byte {
	out := make([]byte, 0, 5*len(in)/2)
	depth := 0
	line := func() {
		if depth < 16 {
			out = append(out, margin[:1+depth*len(step)]...)
			return
		}
		out = append(out, '\n')
		out = append(out, strings.Repeat(step, depth)...)
	}
	for i := 0; i < len(in); i++ {
		switch c := in[i]; c {
		case '"':
			end := i + 1
			for in[end] != '"' {
				if in[end] == '\\' {
					end++
				}
				end++
			}
			out = append(out, in[i:end+1]...)
			i = end
		case '{', '[':
			out = append(out, c)
			if in[i+1] == '}' || in[i+1] == ']' {
				i++
				out = append(out, in[i])
				continue
			}
			depth++
			line()
		case '}', ']':
			depth--
			line()
			out = append(out, c)
		case ',':
			out = append(out, c)
			line()
		case ':':
			out = append(out, ':', ' ')
		default:
			out = append(out, c)
		}
	}
	return out
}

func write(w http.ResponseWriter, result any, act fault.Action) {
	framed(w)
	status, contentType := http.StatusOK, "application/json; charset=utf-8"
	var body []byte
	var err error
	switch v := result.(type) {
	case text:
		contentType, body = "text/plain", []byte(v)
	case nothing:
		contentType, status = "text/plain", http.StatusNoContent
	case raw:
		contentType, body = v.contentType, v.body
	case bare:
		contentType = "application/json"
		body, err = encode(v.value)
	case made:
		status = http.StatusCreated
		body, err = encode(v.value)
	default:
		body, err = encode(v)
	}
	if err == nil {
		body, err = act.Bend(body)
	}
	if err != nil {
		refuse(w, &region.RefusalError{Status: http.StatusInternalServerError, Text: err.Error()})
		return
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = w.Write(body) //nolint:gosec // JSON or plain text; a caller who has gone cannot be told
}

// refuse sends a refusal in MAAS's own form.
func refuse(w http.ResponseWriter, err error) {
	var challenge *region.ChallengeError
	if errors.As(err, &challenge) {
		w.Header().Set("Vary", "Cookie")
		w.Header().Set("WWW-Authenticate", `OAuth realm="OAuth"`)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(challenge.Error()))
		return
	}
	var r *region.RefusalError
	if !errors.As(err, &r) {
		r = &region.RefusalError{Status: http.StatusInternalServerError, Text: err.Error()}
	}
	w.Header().Del("X-MAAS-API-Hash")
	w.Header().Set("Vary", "Cookie")
	if r.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(r.RetryAfter))
	}
	contentType, body := "text/plain; charset=utf-8", []byte(r.Text)
	switch {
	case r.Missing:
		framed(w)
		contentType = "text/plain"
	case r.Fields != nil:
		contentType = "application/json; charset=utf-8"
		if r.Bare {
			contentType = "application/json"
		}
		if b, err := json.Marshal(r.Fields); err == nil {
			body = b
		}
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(r.Status)
	_, _ = w.Write(body)
}
