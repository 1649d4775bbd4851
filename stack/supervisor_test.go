package stack

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestAnEngineThatIsLateSaysWhatToDo(t *testing.T) {
	over, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	cause := errors.New("ping: no answer")
	err := late(over, Temporal, cause)
	if !errors.Is(err, cause) || !strings.Contains(err.Error(), "logs/temporal.log") ||
		!strings.Contains(err.Error(), "run the command again") {
		t.Error(err)
	}
	if err := late(t.Context(), Temporal, cause); err.Error() != cause.Error() {
		t.Errorf("an error in time was changed: %v", err)
	}
}
