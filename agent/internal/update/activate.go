package update

import (
	"context"
	"fmt"
)

// Activate makes a staged version the next one to start, on trial.
func (s *Store) Activate(task string, p Package, name string) error {
	return s.change(Change{TaskID: task, To: p.Version, Digest: p.Digest, Folder: name})
}

// Return makes the previous version the next one to start, also on trial.
func (s *Store) Return(ctx context.Context, task string) error {
	back := s.link(previous)
	if last, again, err := s.interrupted(task); err != nil {
		return err
	} else if again {
		back = last.Folder // the link may already name the running version
	}
	if back == "" || back == s.link(current) || !s.exists(back) {
		return ErrNoPrevious
	}
	version, err := s.ask(ctx, back)
	if err != nil {
		return err
	}
	return s.change(Change{TaskID: task, To: version, Digest: s.digest(back), Folder: back, Back: true})
}

// interrupted returns the change of a task that was stored but did not lead to
// a start of the new version.
func (s *Store) interrupted(task string) (Change, bool, error) {
	last, ok, err := s.Last()
	return last, ok && last.State == OnTrial && last.TaskID == task, err
}

// change writes the record first: a changed link without a record would be a
// version without a trial.
func (s *Store) change(c Change) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.From, c.Home, c.State, c.At = s.running, s.link(current), OnTrial, s.now()
	if c.Home == "" {
		return fmt.Errorf("this agent was not installed below %s, so that it cannot be exchanged", folder)
	}
	last, again, err := s.interrupted(c.TaskID)
	if err != nil {
		return err
	}
	if again && last.Home == c.Home {
		c.Before = last.Before
	} else if before := s.link(previous); before != c.Home {
		c.Before = before
	}
	if err := s.save(c); err != nil {
		return err
	}
	if err := s.point(previous, c.Home); err != nil {
		return err
	}
	return s.point(current, c.Folder)
}
