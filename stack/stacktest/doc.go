// Package stacktest gives tests real engines, started by the same code as in
// production.
//
// If the run was started through stack/cmd/withstack, all its test processes
// share one stack. Otherwise each test process starts what it needs, once and
// on first use. Those engines die with the process, and the next process
// removes the folders they left.
package stacktest
