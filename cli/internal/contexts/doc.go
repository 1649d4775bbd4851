// Package contexts is the file in which somebody keeps the control planes they talk to, and their
// tokens. Only its owner can read it, and every change replaces it whole.
package contexts
