// Package bmc makes a server boot from the network through its BMC, with IPMI
// 2.0 over the network. It is only for servers that MAAS cannot switch on and
// off yet.
package bmc
