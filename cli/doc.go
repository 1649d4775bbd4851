// Package cli is the operator command line. It speaks to a control plane through its public
// API alone (contract/apiclient) and prints what it learns for people or for programs.
//
// A file holds the commands of one noun, or of a part of one (node.go, node_task.go), and nothing
// here is global. What commands stand in is below internal: frame (runs and sessions), failure (exit
// codes), table and output (how to print), listing and watch, contexts, signin, moment.
package cli
