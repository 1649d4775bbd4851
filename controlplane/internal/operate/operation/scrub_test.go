package operation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
)

// What is looked for first leaves nothing in that the expressions would take out.
func TestNoSecretFormIsPassedOver(t *testing.T) {
	t.Parallel()
	pieces := []string{
		"-----BEGIN RSA PRIVATE KEY-----", "-----", "Authorization: Bearer ", "authorization:basic ", "PassWord=", "passwd: ",
		"ſecret=", "secret", "token=", "to\u212aen=", "api_key=", "API-KEY: ", "apikey='", "ghp_", "gho-", "glpat-", "hf_",
		"hf-", "xoxb-", "AKIA", "akia", "eyJ", "abcdefghijklmnop", "ABCDEFGHIJ234567", "0123456789abcdef", ".", " ", "_", "é",
		"=", ":", "\"", "x", "-",
	}
	random, found := rand.New(rand.NewPCG(1, 2)), 0
	for range 50_000 {
		var line strings.Builder
		for range 1 + random.IntN(6) {
			line.WriteString(pieces[random.IntN(len(pieces))])
		}
		want := secretForms.ReplaceAllString(line.String(), "${1}${2}[redacted]")
		if want != line.String() {
			found++
		}
		if got := scrub(line.String()); got != want {
			t.Fatalf("%q became %q, want %q", line.String(), got, want)
		}
	}
	if found < 1000 {
		t.Errorf("only %d of the lines held a secret form", found)
	}
}

// What is packed is JSON, whatever the lines hold, and comes back as it was.
func TestPackedLinesComeBack(t *testing.T) {
	t.Parallel()
	var lines []agentwire.LogLine
	every := make([]byte, 0x80)
	for i := range every {
		every[i] = byte(i)
	}
	for i, text := range []string{"", "plain", string(every), `"\\"`, "ü 漢 😀 \u2028", strings.Repeat("long ", 1600)} {
		lines = append(lines, agentwire.LogLine{
			Seq: int64(i + 1), Step: `a"b`, Stream: agentwire.StreamStderr, At: time.Unix(int64(i), 5).UTC(), Text: text,
		})
	}
	for range 2 { // what packs is used again
		body, err := pack(lines)
		if err != nil {
			t.Fatal(err)
		}
		got, err := unpack(body)
		if err != nil || !slices.Equal(got, lines) {
			t.Errorf("%v: %+v", err, got)
		}
	}
	if _, err := pack([]agentwire.LogLine{{At: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}}); err == nil {
		t.Error("a time was packed that nobody can read")
	}
}

// BenchmarkKeepingLines measures what an API process does with what a step prints
// before the database keeps it.
func BenchmarkKeepingLines(b *testing.B) {
	lines, size := make([]agentwire.LogLine, 1000), 0
	for i := range lines {
		lines[i] = agentwire.LogLine{
			Seq: int64(i), Step: "one", Stream: agentwire.StreamStdout, At: time.Now(),
			Text: fmt.Sprintf("2026-11-18T06:00:00Z INFO worker[%d]: epoch=%d loss=0.%06d throughput=%d device=cuda:%d path=/shard-%05d",
				i%8, i/100, i*7919%1_000_000, 1000+i%997, i%8, i%4096),
		}
		size += len(lines[i].Text)
	}
	for name, do := range map[string]func(){
		"scrub": func() {
			for _, l := range lines {
				scrub(clean(l.Text, agentwire.MaxLogText))
			}
		},
		"pack": func() {
			if _, err := pack(lines); err != nil {
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
