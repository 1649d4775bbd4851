package hostexec

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAFakeMachineBorrowsTheShellOfThisOne(t *testing.T) {
	h := Host{Root: t.TempDir()}
	folder := h.Path("/bin")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	want, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/bin/sh", filepath.Join(folder, "linked")); err != nil {
		t.Fatal(err)
	}
	for program, runs := range map[string]string{"/bin/linked": want, "/bin/missing": "/bin/missing"} {
		if got := h.borrowed(program); got != runs {
			t.Errorf("%s of a fake machine runs %s, not %s", program, got, runs)
		}
	}
}
