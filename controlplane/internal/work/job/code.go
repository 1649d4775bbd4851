package job

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Code is one way in which stages fail, under a name that programs rely on.
// Every code is declared once, by DeclareCode: in the file of the stage that
// fails with it, or in codes.go if several stages do.
type Code struct {
	Name string // stable, snake_case: rows, events and the API have it
	// Class is the usual class of failures with this code. If empty, the stage
	// that fails sets it.
	Class  FailureClass
	Cause  string // what is usually behind it, for people
	Remedy string // what to do about it, where the failure itself says nothing better
	// Runbook is the page of docs/runbooks that says more, without its ending.
	Runbook string
	// Mends is the action that mends it best, where the class does not say it well
	// enough.
	Mends Mends
	// Rewind is the stage to which a job goes back when it is parked with this
	// code, because repeating the stage that failed would prove nothing. If
	// empty, the job stays where it is.
	Rewind string
	// WakesOn is the signal that says that what was missing has come. A job
	// that is parked with this code then goes on by itself. Empty if there is
	// no such signal.
	WakesOn string
	// Fault: it is the code of a fault of an adapter or a noun, which Classify makes
	// a failure of this class.
	Fault bool
}

// Mends is an action by the noun of the family; the key AnyFamily stands for all
// families that are not named.
type Mends map[string]Trigger

// AnyFamily is the key of Mends for the families that it does not name.
const AnyFamily = ""

// codes are all codes that were declared, by their names.
var codes = map[string]*Code{}

// DeclareCode makes a code known when the program starts. It panics if there is
// one of that name: explanations could not tell them apart.
func DeclareCode(c Code) *Code {
	if _, twice := codes[c.Name]; twice {
		panic(fmt.Sprintf("failure code %s is declared twice", c.Name))
	}
	codes[c.Name] = &c
	return &c
}

// Codes lists all declared codes by name.
func Codes() []*Code {
	return slices.SortedFunc(maps.Values(codes), func(a, b *Code) int { return cmp.Compare(a.Name, b.Name) })
}

// CodeNamed finds a code by a name that comes from elsewhere: a row, a fault or
// an agent. A name that nobody declared is a code of which nothing else is known.
func CodeNamed(name string) *Code {
	if c, known := codes[name]; known {
		return c
	}
	return &Code{Name: name}
}

// String returns the name.
func (c *Code) String() string {
	if c == nil {
		return ""
	}
	return c.Name
}

// Failed makes a failure of the code, of its class and with its remedy.
func (c *Code) Failed(format string, args ...any) *Failure {
	return c.FailedAs(c.Class, format, args...)
}

// FailedAs makes a failure of the code whose class is chosen here.
func (c *Code) FailedAs(class FailureClass, format string, args ...any) *Failure {
	return &Failure{Class: class, Code: c, Message: fmt.Sprintf(format, args...), Remedy: c.Remedy}
}

// mends returns the action that best repairs the failure in a family, or "" if
// its class decides.
func (c *Code) mends(noun string) Trigger { return cmp.Or(c.Mends[noun], c.Mends[AnyFamily]) }
