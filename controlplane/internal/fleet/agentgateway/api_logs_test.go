package agentgateway

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gpuaas/contract/agentwire"
)

func printed(texts ...string) agentwire.LogsRequest {
	r := agentwire.LogsRequest{Attempt: 1}
	for i, text := range texts {
		r.Lines = append(r.Lines, agentwire.LogLine{
			Seq: int64(i + 1), Step: "one", Stream: agentwire.StreamStdout, At: time.Now().UTC(), Text: text,
		})
	}
	return r
}

func encoded(tb testing.TB, r agentwire.LogsRequest) []byte {
	tb.Helper()
	body, err := json.Marshal(r)
	if err != nil {
		tb.Fatal(err)
	}
	return body
}

// What agents send is decoded the quick way: if it were not, nobody would notice but
// those who wait.
func TestWhatAgentsPrintIsDecodedQuickly(t *testing.T) {
	t.Parallel()
	r := printed("", `{"level":"info","msg":"a <b> & \"c\""}`, "tab\tand\x1bescape", "ü 漢 😀", "\u2028", `C:\new`)
	for name, body := range map[string][]byte{
		"as it is": encoded(t, r), "with a line break": append(encoded(t, r), '\n'),
	} {
		got, ok := plainLogs(body)
		if !ok || !reflect.DeepEqual(got, r) {
			t.Errorf("%s: %v, %+v", name, ok, got)
		}
	}
}

// FuzzPlainLogs looks for a body that means something else when it is decoded the quick
// way.
func FuzzPlainLogs(f *testing.F) {
	line := `{"seq":1,"step":"s","stream":"stdout","at":"2026-11-18T09:00:00.5Z","text":"x"}`
	for _, body := range []string{
		`{"attempt":1,"lines":[` + line + `]}`, `{"attempt":1,"lines":[]}`, `{"attempt":1,"lines":null}`, `{}`, ``,
		`{"attempt":1,"lines":[` + line + `,` + line + "]}\n", `{"attempt":1,"lines":[` + line + `,]}`,
		`{"attempt":1,"lines":[` + line + line + `]}`, `{"attempt":1,"lines":[` + line + `]}{}`, `{"attempt":1,"lines":[,` + line + `]}`,
		`{"attempt":01,"lines":[` + line + `]}`, `{"attempt":-1,"lines":[` + line + `]}`, `{"attempt":1e2,"lines":[` + line + `]}`,
		strings.Replace(`{"attempt":1,"lines":[`+line+`]}`, `"x"`, `"\ud83d\ude00\u00e9\ud800\n\/"`, 1),
		strings.Replace(`{"attempt":1,"lines":[`+line+`]}`, `"x"`, `"\q"`, 1),
		strings.Replace(`{"attempt":1,"lines":[`+line+`]}`, `"x"`, `"\u12"`, 1),
		strings.Replace(`{"attempt":1,"lines":[`+line+`]}`, `2026-`, `2026\u002d`, 1),
		strings.Replace(`{"attempt":1,"lines":[`+line+`]}`, `.5Z`, `.5+02:00`, 1),
		strings.Replace(`{"attempt":1,"lines":[`+line+`]}`, `:1,"step`, `:9223372036854775808,"step`, 1),
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if !utf8.Valid(body) {
			return // refused before
		}
		got, ok := plainLogs(body)
		if !ok {
			return
		}
		var want agentwire.LogsRequest
		if err := decode(body, &want); err != nil {
			t.Fatalf("%q is no body: %v", body, err)
		}
		if fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) {
			t.Errorf("%q became %#v, want %#v", body, got, want)
		}
	})
}

// BenchmarkDecodingLines measures what an API process does with the body of lines that a
// node sends.
func BenchmarkDecodingLines(b *testing.B) {
	texts, size := make([]string, agentwire.MaxLogLines), 0
	for i := range texts {
		texts[i] = fmt.Sprintf("2026-11-18T06:00:00Z INFO worker[%d]: epoch=%d loss=0.%06d throughput=%d samples/s path=/shard-%05d",
			i%8, i/100, i*7919%1_000_000, 1000+i%997, i%4096)
		size += len(texts[i])
	}
	body := encoded(b, printed(texts...))
	for name, do := range map[string]func(){
		"plain": func() {
			if _, ok := plainLogs(body); !ok {
				b.Fatal("not plain")
			}
		},
		"any": func() {
			var in agentwire.LogsRequest
			if err := decode(body, &in); err != nil {
				b.Fatal(err)
			}
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				do()
			}
		})
	}
}
