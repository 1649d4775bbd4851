// Package ssh runs a few fixed commands on a machine that has just been
// deployed and has no agent yet.
//
// Commands are constants of the program. Data goes to their standard input, so
// no value can become part of a command line. The host key is known before the
// machine is called, because the first boot installed it. Only machines of the
// old form are trusted when they are first met, and must show the same key from
// then on. Nothing waits longer than its limit, whatever the other side does.
package ssh
