// Package terminal lets people work on a node from a browser or a shell. It
// issues single-use tokens, waits for the two ends of a session, and carries
// bytes between them.
//
// The user's end connects to the public listener with a token. The agent dials
// the node-facing listener with the node's end, because a signed task names the
// session. A session lives in one replica, the one that the user reached. The
// row of the session says how far it came; what is typed and shown is neither
// stored nor logged.
//
// The package never opens a session as root, and it decides nothing about
// accounts: the agent accepts only users that were provisioned on the node.
package terminal
