package faults

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// canaryOf returns a secret that occurs nowhere by chance.
func canaryOf(seed uint64, what string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "canary %s %d", what, seed))
	return "Canary" + hex.EncodeToString(sum[:12])
}

// Places shows every place where no secret may be. Whoever runs the engines
// provides it.
type Places func(ctx context.Context, show func(place string, content []byte)) error

// Leak is a secret where it does not belong.
type Leak struct{ Secret, Place string }

// Search is the result of looking for secrets.
type Search struct {
	Secrets, Places int
	Bytes           int64
	Leaks           []Leak
	Blind           []string // places in which not even the known non-secret was found
}

// search looks for everything that only the secrets engine, the machine and
// MAAS may know.
//
// The ids of jobs are no secret. They must be found in every place that telling
// names; if they are not, secrets would not be found there either.
func (w *World) search(ctx context.Context, places Places, telling []string) (Search, error) {
	known := w.sought()
	out := Search{Secrets: known.count}
	told := map[string]bool{}
	err := places(ctx, func(place string, content []byte) {
		out.Places++
		out.Bytes += int64(len(content))
		for _, what := range known.in(content) {
			if what == witness {
				for _, t := range telling {
					told[t] = told[t] || strings.Contains(place, t)
				}
				continue
			}
			if leak := (Leak{what, place}); !slices.Contains(out.Leaks, leak) {
				out.Leaks = append(out.Leaks, leak)
			}
		}
	})
	for _, t := range telling {
		if !told[t] {
			out.Blind = append(out.Blind, t)
		}
	}
	if err != nil {
		err = fmt.Errorf("look for secrets: %w", err)
	}
	return out, err
}

// witness is found wherever the work of a job leaves a trace.
const witness = "the id of a job"

// head is how many bytes of a secret are compared at first.
const head = 8

type form struct {
	what string
	text []byte
}

// sought holds secrets, by the first bytes of each form in which they can
// appear.
type sought struct {
	count int
	forms map[uint64][]form
}

// add looks for a secret in each form in which it may be written: plain, in
// base64, and as databases show bytes.
func (s *sought) add(what string, secret []byte) {
	s.count++
	for form, text := range map[string][]byte{
		"": secret, " in base64": []byte(base64.RawStdEncoding.EncodeToString(secret[:len(secret)/3*3])),
		" as bytes": []byte(hex.EncodeToString(secret)),
	} {
		s.one(what+form, text)
	}
}

func (s *sought) one(what string, text []byte) {
	if len(text) < 2*head {
		return // too short: it could occur by chance
	}
	key := binary.LittleEndian.Uint64(text)
	s.forms[key] = append(s.forms[key], form{what, text})
}

func (s *sought) in(content []byte) []string {
	var out []string
	for i := 0; i+head <= len(content); i++ {
		for _, f := range s.forms[binary.LittleEndian.Uint64(content[i:])] {
			if bytes.HasPrefix(content[i:], f.text) {
				out = append(out, f.what)
			}
		}
	}
	return out
}

// privateKey matches a key in OpenSSH's form; its own part begins in the fourth
// line.
var privateKey = regexp.MustCompile(
	`b3BlbnNzaC1rZXktdjE[A-Za-z0-9+/]{45}(?:\s+[A-Za-z0-9+/]{64}){2}\s+([A-Za-z0-9+/]{64})`)

// piece is how much of user data is looked for.
const piece = 63

func (w *World) sought() *sought {
	s := &sought{forms: map[uint64][]form{}}
	w.mu.Lock()
	for what, secret := range w.canary {
		s.add(what, []byte(secret))
	}
	for job := range w.news {
		s.one(witness, []byte(job))
		s.one(witness, []byte(hex.EncodeToString([]byte(job))))
	}
	w.mu.Unlock()
	w.boots.mu.Lock()
	defer w.boots.mu.Unlock()
	for hostname, tokens := range w.boots.tokens {
		for _, t := range tokens {
			s.add("enrolment token of "+hostname, []byte(t))
		}
	}
	for _, data := range w.boots.data {
		if key := privateKey.FindSubmatch(data); key != nil {
			s.add("host key of a machine", key[1])
		}
		if middle := len(data) / 2 / 3 * 3; middle > piece {
			s.add("rendered user data", data[middle:middle+piece])
		}
	}
	return s
}
