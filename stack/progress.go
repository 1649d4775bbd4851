package stack

import (
	"sync"
	"time"
)

// Phase says how far an engine has come.
type Phase string

// The phases.
const (
	Starting   Phase = "starting"
	Ready      Phase = "ready"
	Restarting Phase = "restarting"
	Stopped    Phase = "stopped"
)

// Progress is one step of one engine.
type Progress struct {
	Engine  Engine
	Phase   Phase
	Detail  string        // what is being done, what went wrong, or where it listens
	Elapsed time.Duration // since the engine began to start, or to stop
}

// reporter passes progress on, one call at a time, although engines start in
// parallel.
type reporter struct {
	mu   sync.Mutex
	tell func(Progress)
}

func (r *reporter) of(e Engine) *engineReport {
	return &engineReport{to: r, engine: e, began: time.Now()}
}

// engineReport belongs to the goroutine that starts or watches the engine.
type engineReport struct {
	to     *reporter
	engine Engine
	began  time.Time
}

func (r *engineReport) say(phase Phase, detail string) {
	if r.to.tell == nil {
		return
	}
	r.to.mu.Lock()
	defer r.to.mu.Unlock()
	r.to.tell(Progress{Engine: r.engine, Phase: phase, Detail: detail, Elapsed: time.Since(r.began)})
}
