// Package terminal lets people work on a node from a browser or a shell: it
// issues single-use tokens, waits for the two ends of a session, and carries
// bytes between them.
//
// The user's end comes in on the public listener with a token; the node's end
// is dialled by the agent on the node-facing listener, because of a signed task
// that names the session. A session lives in one replica, the one that the user
// reached. The row of the session says how far it came; what is typed and shown
// is neither kept nor logged.
//
// It never opens a session as root, and it decides nothing about accounts: the
// agent accepts only users that were provisioned on the node.
package terminal
