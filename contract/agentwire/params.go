package agentwire

import (
	"errors"
	"fmt"
	"regexp"
)

// Forms that parameters of several types have.
var (
	userName = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)
	uuidForm = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
)

func account(allocation, user string) error {
	if !uuidForm.MatchString(allocation) {
		return errors.New("allocation_id is not a UUID")
	}
	if !userName.MatchString(user) || user == "root" {
		return fmt.Errorf("%q cannot be the user of an allocation", user)
	}
	return nil
}

func limit(name, value string, n int) error {
	if len(value) > n {
		return fmt.Errorf("%s has more than %d characters", name, n)
	}
	return nil
}
