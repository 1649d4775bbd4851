// Package decommission cleans nodes between tenants, reinstalls them, puts them
// aside and removes them from the inventory. It keeps the evidence of what was
// cleaned. Each operation is a job that goes through stages: package job holds
// what it shares with onboarding, and package bringup what it does to machines
// of MAAS. An operation owns its node until it ends: nobody else moves a node
// that is draining or removing.
package decommission
