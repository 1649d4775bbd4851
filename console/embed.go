package console

import (
	"embed"
	"io/fs"
	"log/slog"
	"net/http"
)

// A tree that was never built has only .keep in it, and compiles all the same.
//
//go:embed all:dist
var embedded embed.FS

// Handler serves the console that was built into the program, and gives what is
// none of the console's to missing. A program without one says how to build it.
func Handler(logger *slog.Logger, missing http.Handler) http.Handler {
	built, err := fs.Sub(embedded, "dist")
	if err != nil {
		panic("console: " + err.Error()) // the name is a constant
	}
	s, err := newSite(built, missing)
	if err != nil {
		panic("console: " + err.Error()) // what is embedded can be read
	}
	if s.page == nil {
		logger.Warn("the console was not built into this program; build it with make console")
	}
	return s
}
