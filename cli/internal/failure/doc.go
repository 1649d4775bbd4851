// Package failure is what a person or a script is told when a command fails: what happened, what to
// do about it, and the exit code. Exit codes are decided here and nowhere else.
package failure
