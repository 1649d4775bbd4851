package selfcheck

import "testing"

// Whoever reads a check learns which components each step went through.
func TestEveryStepNamesItsComponents(t *testing.T) {
	for _, name := range append([]string{StepWorkflow}, steps...) {
		shown := wire(Check{Steps: []Step{{Name: name, OK: true}, {Name: name, Message: "refused"}}}).Steps
		if shown[0].Components == "" || shown[0].Message == "" {
			t.Errorf("%s: %+v", name, shown[0])
		}
		if shown[1].Message != "refused" {
			t.Errorf("%s: what is wrong was replaced: %+v", name, shown[1])
		}
	}
}
