package job_test

import (
	"slices"
	"testing"

	"gpuaas/controlplane/internal/work/job"
)

func TestACatalogKnowsWhatWasDeclared(t *testing.T) {
	var c job.Catalog[func() string]
	c.Declare(job.Stage{Name: "wash", Title: "Wash"}, func() string { return "washed" })
	c.Declare(job.Stage{Name: "dry"}, func() string { return "dried" })
	if s := c.Of("wash"); s.Title != "Wash" {
		t.Errorf("%+v", s)
	}
	if perform, known := c.Performer("dry"); !known || perform() != "dried" {
		t.Error("nobody dries")
	}
	if _, known := c.Performer("iron"); known {
		t.Error("somebody irons")
	}
	if names := c.Names(); !slices.Equal(names, []string{"dry", "wash"}) {
		t.Error(names)
	}
	for name, mistake := range map[string]func(){
		"a stage is declared twice":          func() { c.Declare(job.Stage{Name: "dry"}, nil) },
		"an order names what does not exist": func() { c.Of("iron") },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("the program starts all the same")
				}
			}()
			mistake()
		})
	}
}
