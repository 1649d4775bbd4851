package api

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func FuzzIndented(f *testing.F) {
	for _, s := range []string{
		`{}`, `[]`, `null`, `"a\"b{"`, strings.Repeat("[", 20) + strings.Repeat("]", 20),
		`{"a":[1,{"b":[]},"\\"],"c":{"d":1.5e3,"e":true}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var v any
		if json.Unmarshal(in, &v) != nil {
			return
		}
		compact, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		if err := json.Indent(&want, compact, "", step); err != nil {
			t.Fatal(err)
		}
		if got := indented(compact); !bytes.Equal(got, want.Bytes()) {
			t.Errorf("got %s\nwant %s", got, want.Bytes())
		}
	})
}
