// Package journal is the agent's memory of its tasks. It turns several attempts
// of a task into one execution: an accepted task is finished even if the agent
// is killed, and a finished task is never done again.
//
// The journal is one append-only file of records, one a line, each with a
// checksum. A record that must not be lost is on the disk before its function
// returns. After a crash the last line may be torn; it is cut off. A damaged
// line elsewhere is reported and skipped, and a copy of the damaged file is
// kept. When the file has grown, the journal rewrites it from memory without
// the records that nobody will ask for.
//
// A journal belongs to one node. When the machine becomes another node, the old
// journal is kept aside and a new one begins.
//
// A full disk stops new tasks, not running ones: what could not be written
// stays in memory and is written with the next record that can be.
package journal
