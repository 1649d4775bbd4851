// Package lab is a data centre for everybody who has none: a simulated MAAS
// region whose machines really run once they are deployed. They boot on a
// virtual rack, or by the thousand as simulated agents inside this process,
// with the user data that they were deployed with. They become nodes, report
// their hardware to MAAS and can be reached over SSH.
//
// The addresses that MAAS gives its machines do not exist. So the lab offers a
// SOCKS5 proxy that connects port 22 of such an address to the machine that has
// it: to its sshd if it is a container, otherwise to a small SSH server here,
// which knows only the few commands that a control plane sends.
//
// The package must not know the control plane.
package lab
