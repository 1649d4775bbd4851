// Package testkit holds what the tests of all programs share: how to wait. It
// uses nothing but the standard library, and only tests use it.
package testkit

import (
	"testing"
	"time"
)

// Patience is how long a test waits for something that will happen. It is long
// because machines that run tests are busy, and costs time only when a test fails.
const Patience = 90 * time.Second

// Eventually waits until something holds that nobody tells the test of.
func Eventually(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	if !look(Patience, holds) {
		tb.Fatalf("waited %s in vain for %s", Patience, what)
	}
}

// Succeeds waits until check returns no error. If that takes too long, the test
// fails with the last error.
func Succeeds(tb testing.TB, what string, within time.Duration, check func() error) {
	tb.Helper()
	var err error
	if !look(within, func() bool { err = check(); return err == nil }) {
		tb.Fatalf("waited %s in vain for %s: %v", within, what, err)
	}
}

// look asks often at first, because most things happen at once, and then less
// often, because asking can be work: what takes long is noticed a twentieth later.
func look(within time.Duration, holds func() bool) bool {
	const least, most = 50 * time.Millisecond, 250 * time.Millisecond
	began := time.Now()
	for pause := time.Millisecond; !holds(); {
		waited := time.Since(began)
		if waited > within {
			return false
		}
		<-time.After(pause)
		pause = min(pause*3/2, max(least, waited/20), most)
	}
	return true
}

// Receive waits for a value from a channel. A closed channel gives the zero value.
func Receive[T any](tb testing.TB, what string, from <-chan T) T {
	tb.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(Patience):
		tb.Fatalf("waited %s in vain for %s", Patience, what)
		panic("unreachable")
	}
}
