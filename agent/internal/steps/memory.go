package steps

import (
	"encoding/json"
	"fmt"

	"gpuaas/agent/internal/task"
)

// outputKey holds the output of a task whose work leaves no other trace. After
// a crash before the result was stored, the work is not done again.
const outputKey = "output"

func remember(t *task.Task, output any) error {
	raw, err := json.Marshal(output)
	if err != nil {
		return fmt.Errorf("encode output of task %s: %w", t.TaskID, err)
	}
	if err := t.Reporter.Checkpoint(outputKey, string(raw)); err != nil {
		return fmt.Errorf("remember output of task %s: %w", t.TaskID, err)
	}
	return nil
}

func recall[O any](t *task.Task) (any, bool, error) {
	raw := t.Reporter.Recall(outputKey)
	if raw == "" {
		return nil, false, nil
	}
	var output O
	if err := json.Unmarshal([]byte(raw), &output); err != nil {
		return nil, false, fmt.Errorf("read output of task %s: %w", t.TaskID, err)
	}
	return output, true, nil
}
