package controlplane

import (
	"gpuaas/controlplane/internal/operate/operation"
)

// newRuns puts together what is run on nodes.
func (p *parts) newRuns() {
	p.operations = operation.New(operation.Config{
		DB: p.db, Tasks: p.fleet.tasks, Members: p.identity, Logger: p.logger,
	})
	p.fleet.logs = p.operations
}
