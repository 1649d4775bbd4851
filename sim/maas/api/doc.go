// Package api is the HTTP face of a simulated region: paths, operations,
// authentication, the shapes of answers and of refusals, the number of requests
// that a region works on at once, and what a listing costs.
package api
