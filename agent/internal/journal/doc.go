// Package journal is the agent's memory of its tasks. It makes several
// attempts at a task one execution: what was accepted is finished even when
// the agent is killed, and what was finished is never done again.
//
// It is one append-only file of records, one a line, each with a checksum. A
// record that must not be lost is on the disk before its function returns. A
// torn last line is what a crash leaves and is cut off; a damaged line
// elsewhere is reported and passed over, and the damaged file is kept aside.
// The file is rewritten from memory when it has grown, without what nobody
// will ask for any more.
//
// A journal belongs to one node. When the machine becomes another node, what
// is in it is no business of the new one: it is kept aside, and a new journal
// begins.
//
// A full disk stops new tasks, not running ones: what could not be written is
// kept in memory and written with the next record that can be.
package journal
