// Package ssh runs a few fixed commands on a machine that has just been
// deployed and has no agent yet.
//
// Commands are constants of the program: data goes to their standard input, so
// that no value can become part of a command line. The key of a machine is known
// before it is called, because the first boot gave it that key; only machines of
// the old form are trusted when they are first met, and have to show the same key
// from then on. Nothing waits longer than it was allowed to, whatever the other
// side does.
package ssh
