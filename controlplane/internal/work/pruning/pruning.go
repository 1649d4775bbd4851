package pruning

import (
	"context"
	"time"
)

// Rows are rows of one slice that may be deleted when they are old. The newest of
// each node stay, as many as keep says.
type Rows interface {
	CountPrunable(ctx context.Context, before time.Time, keep int32) (int64, error)
	// Prune deletes at most batch of them and returns how many.
	Prune(ctx context.Context, before time.Time, keep, batch int32) (int64, error)
}

// Kind is a kind of rows and how long they are kept.
type Kind struct {
	Name string
	What string        // in words, for people
	Keep time.Duration // rows that ended longer ago are deleted; 0: all are kept
	Rows Rows
}

// Policy is what is deleted when.
type Policy struct {
	Every      time.Duration // how often it happens by itself; 0: never
	KeepNewest int32         // how many of the newest rows of each node stay, whatever their age
	Kinds      []Kind
}

// Pruned is how much of a kind is to be deleted, or was.
type Pruned struct {
	Name   string     `json:"name" doc:"kind of rows, named as in the settings"`
	What   string     `json:"what" doc:"what these rows are"`
	Before *time.Time `json:"before,omitempty" doc:"rows that ended before this are deleted; absent: all are kept"`
	Rows   int64      `json:"rows" doc:"how many rows are to be deleted, or were"`
}

// pruned says what a kind comes to at a moment.
func (k Kind) pruned(now time.Time) Pruned {
	p := Pruned{Name: k.Name, What: k.What}
	if k.Keep > 0 {
		before := now.Add(-k.Keep).UTC()
		p.Before = &before
	}
	return p
}
