// Package sanitize erases block devices and finds out whether they are erased.
//
// It believes no device. Before it erases, it writes blocks of random bytes
// over the device and makes sure that they can be read back (canaries). Then it
// uses the best method that the device carries out. Then it looks for the
// canaries and reads samples. What counts as verified depends on what a method
// promises:
//
//   - Methods that leave zeroes (overwriting, discarding with that promise):
//     every canary and every sample must be zero. A device up to fullRead is
//     read whole.
//   - Methods that leave anything (a new key, erased cells): no sector of a
//     canary may come back, and no sample may equal what was read at the same
//     place before, unless that was blank. On a blank disk only the canaries
//     prove anything. This shows that the data cannot be read through the
//     device, not that its cells are empty: for that the device's word is all
//     there is, and the level of the method relies on it.
//
// A device that claims to have erased itself and still returns old data has
// failed. It is not tried again with a lesser method, because its claims are
// worth nothing.
//
// A Record holds everything that a repetition after a crash needs. Canaries are
// written once: as soon as the record says that they are there, they are only
// looked for.
package sanitize
