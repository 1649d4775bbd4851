// Package sanitize erases block devices and finds out whether they are erased.
//
// It believes no device. Before it erases, it writes blocks of random bytes
// over the device and makes sure that they come back (canaries); then it takes
// the best method that the device carries out; then it looks for the canaries
// and reads samples. What counts as verified depends on what a method promises:
//
//   - Methods that leave zeroes (overwriting, discarding with that promise): every
//     canary and every sample must be zero. A device up to fullRead is read whole.
//   - Methods that leave anything (a new key, erased cells): no sector of a canary
//     may come back, and no sample may be what was read at the same place before,
//     unless that was blank: on a blank disk the canaries are all that speaks. It
//     shows that the data is not to be had through the device, not that its cells
//     are empty: that is what the device says, and the level of the method stands
//     on it.
//
// A device that says that it erased itself and still gives old data back has
// failed. It is not tried again with a lesser method: what it says is worth
// nothing.
//
// Everything that a repetition after a crash needs is in a Record. Canaries are
// written once: as soon as the record says that they are there, they are only
// looked for.
package sanitize
