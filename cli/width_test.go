package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"gpuaas/cli/internal/table"
)

// Lists are read in terminals of 120 columns: with names and reasons as long as they are in real
// life, too. What does not fit belongs into -o wide (table.Column: Wide, Brief, Long).
func TestListsFitATerminal(t *testing.T) {
	lists := 0
	for _, e := range errands {
		usual, err := os.ReadFile("testdata/output/" + e.name + ".golden")
		if err != nil {
			t.Fatal(err)
		}
		if len(tablesIn(string(usual))) == 0 || strings.Contains(e.args, "-o wide") {
			continue
		}
		lists++
		f := newFakeAPI(t)
		for op, answer := range f.answers {
			f.answers[op] = asInRealLife(answer)
		}
		got := signedIn(t, f).run(strings.Fields(inRealLife.Replace(e.args))...)
		f.Close()
		tables := tablesIn(got.stdout)
		if len(tables) == 0 {
			t.Errorf("%s printed no table: %s", e.args, got.err)
		}
		for _, line := range slices.Concat(tables...) {
			if n := utf8.RuneCountInString(line); n > table.Width {
				t.Errorf("%s: a line of %d columns:\n%s", e.args, n, line)
			}
		}
	}
	if lists < 80 {
		t.Errorf("%d lists were looked at: a heading is not understood", lists)
	}
}

// heading is the first line of a table: two or more titles.
var heading = regexp.MustCompile(`^[A-Z#][A-Z0-9#&-]*( [A-Z0-9#&-]+)*(  +[A-Z#][A-Z0-9#&-]*( [A-Z0-9#&-]+)*)+$`)

// tablesIn are the tables in an output, each with its heading.
func tablesIn(text string) (tables [][]string) {
	within, above := false, ""
	for _, line := range strings.Split(text, "\n") {
		switch {
		case heading.MatchString(line) && (above == "" || strings.HasPrefix(above, "$ ")):
			within, tables = true, append(tables, nil)
		case line == "", strings.HasPrefix(line, "-- "):
			within = false
		}
		above = line
		if within {
			tables[len(tables)-1] = append(tables[len(tables)-1], line)
		}
	}
	return slices.DeleteFunc(tables, func(lines []string) bool { return len(lines) < 2 })
}

// inRealLife makes the short names of the fake answers as long as those of a fleet.
var inRealLife = strings.NewReplacer(
	"c07u31", "gpu-rack12-node-00007", "c07u43", "gpu-rack12-node-00043", "c07u44", "gpu-rack12-node-00044",
	"gpu-1", "gpu-rack12-node-00001", "dc1", "frankfurt-1", "ada@example.com", "ada.lovelace@research.example.com",
)

// sentences are fields that hold what somebody wrote, or what went wrong.
var sentences = []string{
	"reason", "message", "last_error", "detail", "paused_because", "waiting_for", "failure", "summary",
	"close_reason", "withheld", "observed", "cause",
}

// asInRealLife is an answer with names and sentences of a usual length.
func asInRealLife(answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		was := httptest.NewRecorder()
		answer(was, r)
		body := was.Body.Bytes()
		var value any
		if dec := json.NewDecoder(bytes.NewReader(body)); strings.HasSuffix(was.Header().Get("Content-Type"), "json") {
			dec.UseNumber()
			if dec.Decode(&value) == nil {
				lengthen(value)
				var out bytes.Buffer
				enc := json.NewEncoder(&out)
				enc.SetEscapeHTML(false)
				if enc.Encode(value) == nil {
					body = []byte(inRealLife.Replace(out.String()))
				}
			}
		}
		for name, values := range was.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(was.Code)
		_, _ = w.Write(body) // the command says so if it is not complete
	}
}

func lengthen(value any) {
	const sentence = "the fan of the second power supply stopped, and the node was switched off at night"
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			lengthen(item)
		}
	case map[string]any:
		for key, item := range v {
			if text, ok := item.(string); ok && text != "" && slices.Contains(sentences, key) {
				v[key] = sentence
				continue
			}
			lengthen(item)
		}
	}
}
