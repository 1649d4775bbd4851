// Package agentwire is what the control plane and the agent on a node agree on:
// the calls between them, the signed envelope of a task, and the catalog of
// tasks with their parameters and results. Both sides are compiled from it. It
// depends only on the standard library.
//
// A node is told what to do, never how: a task names a type of the catalog and
// gives typed parameters. Parameters never hold secrets; a handler that needs
// one asks for it under the identity of its task.
package agentwire
