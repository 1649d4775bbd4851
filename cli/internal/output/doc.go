// Package output prints objects of the API for programs, as JSON or YAML, and makes text from
// elsewhere harmless to a terminal.
package output
