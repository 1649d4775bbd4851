// Package bmc makes a server boot from the network through its BMC, with IPMI
// 2.0 over the network. It is for servers that MAAS cannot switch yet; all
// others are switched by MAAS.
package bmc
