package job

import (
	"fmt"
	"maps"
	"slices"
)

// Catalog holds the stages of a package. Each stage declares itself in a file of
// its own, stage_<name>.go: what it says and the function of type F that performs
// it. Orders of stages name them. The zero value is an empty catalog.
type Catalog[F any] struct {
	declared map[string]declaration[F]
}

type declaration[F any] struct {
	stage   Stage
	perform F
}

// Declare adds a stage when the program starts. It panics if the catalog has a
// stage of that name, because one of the two would never run.
func (c *Catalog[F]) Declare(s Stage, perform F) Stage {
	if _, twice := c.declared[s.Name]; twice {
		panic(fmt.Sprintf("stage %s is declared twice", s.Name))
	}
	if c.declared == nil {
		c.declared = map[string]declaration[F]{}
	}
	c.declared[s.Name] = declaration[F]{stage: s, perform: perform}
	return s
}

// Of finds a stage by its name. It panics if nobody declared one: orders of
// stages are laid out when the program starts, so an order that names a stage
// that does not exist stops the program there.
func (c *Catalog[F]) Of(name string) Stage {
	d, known := c.declared[name]
	if !known {
		panic(fmt.Sprintf("there is no stage %s", name))
	}
	return d.stage
}

// Performer finds the function that performs a stage.
func (c *Catalog[F]) Performer(name string) (perform F, known bool) {
	d, known := c.declared[name]
	return d.perform, known
}

// Names lists the names of all declared stages, sorted.
func (c *Catalog[F]) Names() []string { return slices.Sorted(maps.Keys(c.declared)) }
