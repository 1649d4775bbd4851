package cli

import (
	"errors"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/spf13/cobra"

	"gpuaas/testkit"
)

// A process may run many command lines, as the tests here do: none is kept when it is over.
func TestACommandTreeIsNotKept(t *testing.T) {
	b := newBench(t)
	built := func() weak.Pointer[cobra.Command] {
		return weak.Make(newApp(Program{Version: "1.2.3", Server: serverCommands()}, b.around).root())
	}()
	testkit.Succeeds(t, "the commands to be collected", time.Minute, func() error {
		runtime.GC()
		if built.Value() != nil {
			return errors.New("something still holds them")
		}
		return nil
	})
}
