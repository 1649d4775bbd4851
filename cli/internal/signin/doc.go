// Package signin waits on this machine for a person who signs in with a browser.
package signin
