// Package firstboot writes what a machine does at its first boot: ordered,
// versioned layers, composed into one document for cloud-init. Values go in,
// text comes out; nothing here reaches a database or a network.
//
// cloud-init only stores the layers in a folder of root and starts a runner.
// The runner installs the files of a layer and runs its commands, keeps a
// record for each layer, and stops at the first one that fails. So a failure
// belongs to one layer, and of the later layers only the account has been made
// with which somebody can look. A layer that has succeeded is not repeated.
//
// The document replaces the write_files and runcmd that MAAS itself hands out
// for hardware sync, because cloud-init prefers user data to vendor data. That
// is why hardware sync is a layer here.
package firstboot
