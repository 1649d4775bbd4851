// Package table prints objects for people: a line per object, or a line per property of one.
package table
