// Package rack gives machines to everybody who has none: Linux systems that
// boot with a payload of cloud-init, as servers do that MAAS has installed.
//
// There are two kinds. [LXD] machines are system containers: real systemd, real
// cloud-init, real sshd, real users. [Process] machines are a folder that looks
// like the disk of a host plus one agent process; they need no privileges and
// no programs, and show only the agent.
//
// The folder identifies a rack. Close stops its machines; Remove deletes them
// and all that was made for them. RemoveAll does that for every rack of this
// system, also for those whose process was killed. Everything that a rack
// leaves outside its folder is named gpuaas-….
//
// The package must not know the control plane, and nothing of it may be linked
// into the agent.
package rack
