// Package ipmi gives the machines of a simulated region BMCs that speak IPMI
// over the network: OpenIPMI's ipmi_sim serves them on the loopback interface,
// and the region switches machines through it as MAAS does, with a session of
// IPMI 2.0. Whatever else speaks IPMI sees the same machines.
//
// One ipmi_sim serves all BMCs: each is a management controller of its own with
// a port, an account and a chassis. ipmi_sim asks a program for the power of a
// chassis; that program is the simulator itself, which then runs Chassis.
//
// The accounts are those the BMCs are started with. The account that
// commissioning makes exists in the region's record alone, so a machine that
// keeps it loses its BMC: commission with skip_bmc_config.
package ipmi
