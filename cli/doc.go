// Package cli is the operator command line. It speaks to a control plane through its public
// API alone (contract/apiclient) and prints what it learns for people or for programs.
//
// A command group is one file that returns a *cobra.Command; nothing here is global. What a
// failure means to a script is decided in one place, exitCode.
package cli
