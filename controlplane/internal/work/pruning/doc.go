// Package pruning deletes rows that grew old, by the policy of the settings: on its
// own now and then, or when an administrator asks. Each slice says which of its rows
// may go and deletes them itself; this package knows when, how much at a time, and
// records that it happened.
//
// Nothing here can delete audit entries, certificates about the cleaning of nodes or
// the evidence that these rest on: no slice offers them, and the database does not
// let the product delete them.
package pruning
