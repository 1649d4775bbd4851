// Package firstboot writes down what a machine does when it boots for the first
// time: ordered, versioned layers, composed into one document for cloud-init.
// Values go in, text comes out; nothing here reaches a database or a network.
//
// cloud-init only stores the layers in a folder of root and starts a runner.
// The runner installs the files of a layer and runs its commands, keeps a
// record for each layer, and stops at the first that fails: a failure belongs
// to one layer, and nothing of a later layer has happened but the account by
// which somebody can look. A layer that has succeeded is not repeated.
//
// The document takes the place of the write_files and runcmd that MAAS itself
// hands out for hardware sync, since cloud-init prefers user data to vendor
// data. That is why hardware sync is a layer here.
package firstboot
