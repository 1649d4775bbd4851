// Package lab is a data centre for everybody who has none: a simulated MAAS
// region whose machines, once deployed, run. They boot on a virtual rack, or by
// the thousand as simulated agents inside this process, with the user data that
// they were deployed with; they become nodes, report their hardware to MAAS and
// can be reached over SSH.
//
// The addresses that MAAS gives its machines exist nowhere, so the lab offers a
// SOCKS5 proxy that leads port 22 of such an address to the machine that has it:
// to its sshd where it is a container, else to a small SSH server here, which
// knows the few commands that a control plane sends and nothing else.
//
// The package must not know the control plane.
package lab
