// Package e2e tests the product from outside, as processes on real engines:
// through its API, its command line, its event feed and its signals. One file
// is one scenario.
package e2e
