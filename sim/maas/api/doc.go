// Package api is the HTTP interface of a simulated region: paths, operations,
// authentication, the form of answers and refusals, the number of requests that
// a region works on at once, and what a listing costs.
package api
