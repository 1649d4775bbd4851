package ssh

import (
	"errors"
	"testing"

	"golang.org/x/crypto/ssh"
)

// The library does not answer if the connection ends during the request.
func TestASessionOfAConnectionThatEndsIsNotWaitedFor(t *testing.T) {
	gone := make(chan struct{})
	asked, never := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(never) })
	go func() {
		<-asked
		close(gone)
	}()
	_, err := opened(gone, func() (*ssh.Session, error) {
		close(asked)
		<-never
		return nil, nil
	})
	if !errors.Is(err, errGone) {
		t.Errorf("got %v", err)
	}
}
