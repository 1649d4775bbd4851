package operation

import (
	"context"

	"gpuaas/agent/internal/blob"
	"gpuaas/agent/internal/task"
	"gpuaas/agent/internal/transport"
	"gpuaas/contract/agentwire"
)

// door asks the control plane for access to what the step fetches, where a source does not
// give it to everybody. What it gets stays in memory, and is hidden wherever it is written.
func (s *Step) door(kind string, places []string, intent func(place string) map[string]string) *blob.Door {
	minter, ok := s.run.task.Credentials.(task.StepCredentials)
	if !ok {
		return nil
	}
	return &blob.Door{Places: places, Ask: func(ctx context.Context, place string) (blob.Access, error) {
		c, err := minter.MintForStep(ctx, s.run.params.OperationID, s.ID, kind, intent(place))
		if err != nil {
			return blob.Access{}, notNow(err)
		}
		for name, value := range c.Values {
			s.run.secrets.keep(s.ID, name, value)
		}
		return blob.Access{Address: c.Values[agentwire.ValueURL], Token: c.Values[agentwire.ValueToken]}, nil
	}}
}

// notNow says of a control plane that does not answer that it may do so later.
func notNow(err error) error {
	switch transport.KindOf(err) {
	case transport.Unreachable, transport.Unavailable:
		return &blob.Error{Reason: blob.Unreachable, Cause: err}
	default:
		return err
	}
}
