// Package listing reads lists of the API page by page and prints them, once or again and again.
package listing
