// Package ipmi gives the machines of a simulated region BMCs that speak IPMI
// over the network. OpenIPMI's ipmi_sim serves them on the loopback interface,
// and the region switches machines through it as MAAS does, with a session of
// IPMI 2.0. Other IPMI clients see the same machines.
//
// One ipmi_sim serves all BMCs: each is a management controller with its own
// port, account and chassis. ipmi_sim asks a program for the power of a
// chassis; that program is the simulator itself, which then runs Chassis.
//
// The accounts are those with which the BMCs are started. The account that
// commissioning makes exists only in the region's record, so a machine that
// keeps it loses its BMC: commission with skip_bmc_config.
package ipmi
