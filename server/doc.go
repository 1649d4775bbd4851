// Package server holds the commands of gpuaas that run or prepare a control plane rather than talk
// to one: up (everything on this machine), serve, migrate, config, admin, contract, and the
// simulators. It puts the control plane, the embedded stack and the simulators together and holds
// no rule of its own.
package server
