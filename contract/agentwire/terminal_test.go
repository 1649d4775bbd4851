package agentwire_test

import (
	"reflect"
	"strings"
	"testing"

	"gpuaas/contract/agentwire"
)

func TestControlFramesAreReadStrictly(t *testing.T) {
	for raw, want := range map[string]string{
		`{"type":"resize","cols":80,"rows":24}`:     "",
		`{"type":"resize","cols":1000,"rows":1}`:    "",
		`{"type":"close"}`:                          "",
		`{"type":"session_closed","exit_status":0}`: "",
		`{"type":"resize","cols":0,"rows":24}`:      "between 1 and 1000",
		`{"type":"resize","cols":80,"rows":1001}`:   "between 1 and 1000",
		`{"type":"resize"}`:                         "between 1 and 1000",
		`{"type":"exec","cols":80,"rows":24}`:       "not a type",
		`{"type":""}`:                               "not a type",
		`{"type":"close","command":"id"}`:           "unknown field",
		`{"type":"close"}{"type":"close"}`:          "more than one",
		`{"type":"resize","cols":80.5,"rows":24}`:   "control frame",
		``:   "control frame",
		`[]`: "control frame",
		`{"type":"close"` + strings.Repeat(" ", 5000) + `}`: "more than 4096 bytes",
	} {
		_, err := agentwire.DecodeTerminalFrame([]byte(raw))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.60q: got %v, want %q", raw, err, want)
		}
	}
}

func FuzzDecodeTerminalFrame(f *testing.F) {
	f.Add([]byte(`{"type":"resize","cols":80,"rows":24}`))
	f.Add([]byte(`{"type":"session_closed","reason":"shell_ended","exit_status":-1}`))
	f.Add([]byte(`{"type":"session_error","code":"x","message":"y","retryable":true}`))
	f.Add([]byte(`{"TYPE":"close"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		frame, err := agentwire.DecodeTerminalFrame(raw)
		if err != nil {
			return
		}
		if frame.Type == agentwire.FrameResize &&
			(frame.Columns < 1 || frame.Columns > 1000 || frame.Rows < 1 || frame.Rows > 1000) {
			t.Fatalf("accepted a terminal of %d by %d", frame.Columns, frame.Rows)
		}
		again, err := agentwire.DecodeTerminalFrame(frame.Encode())
		if err != nil && len(frame.Encode()) > 4096 {
			return // escaping has made it longer
		}
		if err != nil || !reflect.DeepEqual(again, frame) {
			t.Fatalf("%q reads as %+v, and written again as %+v (%v)", raw, frame, again, err)
		}
	})
}
