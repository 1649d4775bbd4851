// Package moment reads times as people type them and says durations as people read them.
package moment
