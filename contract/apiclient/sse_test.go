package apiclient

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

type read struct{ ID, Name, Data string }

func readAll(r io.Reader) (out []read, retry time.Duration, err error) {
	in := newMessages(r)
	for {
		m, err := in.next()
		if err != nil {
			return out, in.retry, err
		}
		out = append(out, read{m.id, m.name, string(m.data)})
	}
}

func TestMessages(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want []read
	}{
		"one":                      {"id: 7\nevent: event\ndata: {}\n\n", []read{{"7", "event", "{}"}}},
		"several lines of data":    {"data: a\ndata: b\n\n", []read{{"", "", "a\nb"}}},
		"id stays":                 {"id: 7\ndata: a\n\ndata: b\n\n", []read{{"7", "", "a"}, {"7", "", "b"}}},
		"id without data counts":   {"id: 9\n\ndata: b\n\n", []read{{"9", "", "b"}}},
		"empty id resets":          {"id: 7\ndata: a\n\nid\ndata: b\n\n", []read{{"7", "", "a"}, {"", "", "b"}}},
		"id with NUL is ignored":   {"id: 7\ndata: a\n\nid: \x00\ndata: b\n\n", []read{{"7", "", "a"}, {"7", "", "b"}}},
		"comments":                 {": alive\n\n: alive\ndata: a\n\n", []read{{"", "", "a"}}},
		"half a message":           {"data: a\n\nid: 8\ndata: b", []read{{"", "", "a"}}},
		"half a message with line": {"data: a\n\nid: 8\ndata: b\n", []read{{"", "", "a"}}},
		"all line ends": {
			"data: a\r\n\r\ndata: b\r\rdata: c\n\n",
			[]read{{"", "", "a"}, {"", "", "b"}, {"", "", "c"}},
		},
		"one space is cut":        {"data:  a\n\ndata:a\n\n", []read{{"", "", " a"}, {"", "", "a"}}},
		"byte order mark":         {"\xef\xbb\xbfdata: a\n\n", []read{{"", "", "a"}}},
		"unknown fields":          {"colour: red\ndata: a\n\n", []read{{"", "", "a"}}},
		"empty data is a message": {"data\n\n", []read{{"", "", ""}}},
		"name without data":       {"event: x\n\ndata: a\n\n", []read{{"", "", "a"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, err := readAll(strings.NewReader(c.in))
			if !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMessagesRetry(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"retry: 1500\n\n": 1500 * time.Millisecond, "retry: +5\n\n": 0, "retry: soon\n\n": 0, "retry:\n\n": 0,
		"retry: 99999999999999\n\n": 0,
	} {
		if _, got, _ := readAll(strings.NewReader(in)); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func TestMessagesBound(t *testing.T) {
	long := "data: " + strings.Repeat("x", 1<<20) + "\n"
	for name, in := range map[string]string{
		"one line": "data: " + strings.Repeat("x", largestMessage+1) + "\n\n", "many lines": strings.Repeat(long, 5) + "\n",
	} {
		if _, _, err := readAll(strings.NewReader(in)); !errors.Is(err, errMessageTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMessagesBrokenConnection(t *testing.T) {
	broken := errors.New("connection reset")
	got, _, err := readAll(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}

// However the bytes arrive, the messages are the same, and reading ends.
func FuzzMessages(f *testing.F) {
	for _, seed := range []string{
		"id: 7\nevent: event\ndata: {}\n\n", "data: a\r\n\r\n: x\rdata\n\n",
		"\xef\xbb\xbfid\n\nretry: 3\n", "data: \x00\xff\n\n\n\r\r",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		whole, retry, err := readAll(bytes.NewReader(b))
		bytewise, retry2, err2 := readAll(iotest.OneByteReader(bytes.NewReader(b)))
		if diff := cmp.Diff(whole, bytewise); diff != "" || retry != retry2 || !errors.Is(err, io.EOF) ||
			!errors.Is(err2, io.EOF) {
			t.Fatalf("%v %v\n%s", err, err2, diff)
		}
		for _, m := range whole {
			if strings.ContainsAny(m.ID+m.Name, "\r\n") || strings.Contains(m.Data, "\r") {
				t.Errorf("a line end got through: %q", m)
			}
		}
		var again strings.Builder
		for _, m := range whole {
			_, _ = fmt.Fprintf(&again, "id: %s\nevent: %s\ndata: %s\n\n", m.ID, m.Name,
				strings.ReplaceAll(m.Data, "\n", "\ndata: "))
		}
		same, _, _ := readAll(strings.NewReader(again.String()))
		if diff := cmp.Diff(whole, same); diff != "" {
			t.Errorf("written again it reads otherwise:\n%s", diff)
		}
	})
}
