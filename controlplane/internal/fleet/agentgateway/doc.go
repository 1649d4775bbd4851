// Package agentgateway is the door that nodes come in by: a TLS listener of its
// own, apart from the public API. It serves the bootstrap of a machine (script,
// agent package, enrolment), renews certificates, and carries tasks to agents
// and their results back.
//
// Who a node is, is decided at the TLS layer and nowhere else: the identity in
// the client certificate must be the node in the path. Certificates are asked
// for, and verified here instead of by the handshake, so that every refusal is
// a problem document with a code that an agent can act on. Only bootstrap and
// enrolment work without one, by a token that works nowhere else.
//
// The gateway owns no table and no state of a node: it asks the packages node,
// agenttask and signer. A poll that finds nothing costs two queries and holds
// no database connection while it waits.
//
// The listener speaks HTTP/1.1 only: an agent has one long poll open and little
// else, and a held request of HTTP/2 costs about a fifth more memory than one
// of HTTP/1.1 while there is nothing to multiplex.
package agentgateway
