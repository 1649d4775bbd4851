// Package ssh runs a few fixed commands on a machine that has just been
// deployed and has no agent yet.
//
// Commands are constants of the program: data goes to their standard input, so
// that no value can become part of a command line. The key of a machine is
// trusted when it is first met, and has to be the same from then on. Nothing
// waits longer than it was allowed to, whatever the other side does.
package ssh
