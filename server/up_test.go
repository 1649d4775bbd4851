package server

import (
	"io"
	"net"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// What no engine could make right is refused before one is started.
func TestUpRefusesBeforeItStartsEngines(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"rack":     {[]string{"--rack", "foo"}, `there is no rack "foo"`},
		"temporal": {[]string{"--temporal-address", "temporal.example.com:7233"}, "temporal.address"},
		"roles":    {[]string{"--roles", "cook"}, `roles: "cook"`},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := upCommand("test")
			cmd.SetArgs(append(c.args, "--state", t.TempDir(), "--servers", "/nonexistent"))
			cmd.SetOut(io.Discard)
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestUpRefusesNothingThatItFillsInItself(t *testing.T) {
	u := &up{rack: noRack}
	cmd := &cobra.Command{Use: "up"}
	u.settings = addSettings(cmd)
	if err := u.refuseEarly(cmd); err != nil {
		t.Error(err)
	}
}

// Only an address that nobody chose may move.
func TestAnAddressThatSomebodyChoseIsNotReplaced(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, err = listen(t.Context(), taken.Addr().String(), true)
	if err == nil || !strings.Contains(err.Error(), "that you chose") {
		t.Errorf("got %v", err)
	}
	moved, err := listen(t.Context(), taken.Addr().String(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer moved.Close()
}
