package frame_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"gpuaas/cli/internal/frame"
)

func screen(out *bytes.Buffer) *frame.App {
	return &frame.App{Program: frame.Program{Out: out, Err: out}, Env: map[string]string{"COLUMNS": "10", "LINES": "4"}}
}

func TestAPictureReplacesTheOneBefore(t *testing.T) {
	var out bytes.Buffer
	a := screen(&out)
	for _, picture := range []string{"one\ntwo\n", "three\n", "far too wide\n", "1\n2\n3\n4\n5\n"} {
		if err := a.Draw(picture); err != nil {
			t.Fatal(err)
		}
	}
	want := "\r\x1b[Jone\ntwo\n" + "\x1b[2A\r\x1b[Jthree\n" + "\x1b[1A\r\x1b[Jfar too w…\n" +
		"\x1b[1A\r\x1b[J1\n2\n… and 3 m…\n"
	if out.String() != want {
		t.Errorf("drawn: %q", out.String())
	}
}

func TestANoteStaysAboveTheNextPicture(t *testing.T) {
	var out bytes.Buffer
	a := screen(&out)
	if err := a.Draw("one\n"); err != nil {
		t.Fatal(err)
	}
	a.Note("away")
	show := func() error {
		a.Note("so far")
		_, err := fmt.Fprintln(a.Program.Out, "two")
		return err
	}
	for range 2 {
		if err := a.DrawWhat(show); err != nil {
			t.Fatal(err)
		}
	}
	want := "\r\x1b[Jone\naway\n" + "\r\x1b[Jso far\ntwo\n" + "\x1b[2A\r\x1b[Jso far\ntwo\n"
	if out.String() != want {
		t.Errorf("drawn: %q", out.String())
	}
	failed := errors.New("no answer")
	if err := a.DrawWhat(func() error { return failed }); !errors.Is(err, failed) || out.String() != want {
		t.Errorf("after a failure: %v, %q", err, out.String())
	}
}
