// Package decommission cleans nodes between tenants, installs them anew, puts
// them aside and takes them out of the inventory, and keeps the evidence of
// what was cleaned. Each operation is a job that goes through stages: what it
// shares with onboarding is in package job, what it does to machines of MAAS in
// package bringup. An operation owns its node while it lasts: nobody else moves
// a node that is draining or removing.
package decommission
