package decommission

import "go.temporal.io/sdk/worker"

// RegisterWorker adds the workflow and its activities to a worker.
func (s *Service) RegisterWorker(w worker.Registry) {
	s.runner.RegisterWorker(w, Workflow)
}
