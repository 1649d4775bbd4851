// Package archtest holds the rules of docs/architecture.md as tests. A rule is
// changed here and there in the same commit.
package archtest
