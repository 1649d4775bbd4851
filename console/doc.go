// Package console carries the operator console, built from the sources beside
// it, and serves it: files from memory, one page for every address that a person
// can open, and a policy that lets the page load and ask nothing but its origin.
package console
