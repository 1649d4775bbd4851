package httpapi

import (
	"compress/gzip"
	"net/http"

	"github.com/klauspost/compress/gzhttp"
)

// compressed compresses large answers for clients that accept it: the map of a
// large fleet shrinks to a seventh, and operators also look at it from home. It
// leaves streams alone, because they would arrive in lumps.
func compressed(handler http.Handler) http.Handler {
	wrap, err := gzhttp.NewWrapper(
		gzhttp.MinSize(4<<10),
		gzhttp.CompressionLevel(gzip.BestSpeed), // the networks are fast too
		gzhttp.ExceptContentTypes([]string{streamType}),
	)
	if err != nil { // the settings above contradict each other: a defect
		panic(err)
	}
	return wrap(handler)
}
