// Package stacktest gives tests real engines, started by the same code as in
// production.
//
// All test processes of a run share one stack when the run was started through
// stack/cmd/withstack. Without it each test process starts what it needs, once
// and on first use; those engines die with the process, and the next process
// removes the folders they left.
package stacktest
