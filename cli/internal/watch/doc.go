// Package watch shows what changes: a list in place or as it grows, or one object until it ends.
package watch
