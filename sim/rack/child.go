package rack

import (
	"os/exec"
	"runtime"
	"sync"
)

// spawner starts children from one thread that lives as long as the process:
// the kernel sends the parent-death signal when the thread that forked ends.
var spawner = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

func startChild(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	spawner() <- func() { result <- cmd.Start() }
	return <-result
}
