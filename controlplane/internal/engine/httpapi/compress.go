package httpapi

import (
	"compress/gzip"
	"net/http"

	"github.com/klauspost/compress/gzhttp"
)

// compressed sends large answers to those who understand it compressed: the map
// of a large fleet is a seventh of its size then, and operators look at it from
// home. Streams are left alone, which would otherwise arrive in lumps.
func compressed(handler http.Handler) http.Handler {
	wrap, err := gzhttp.NewWrapper(
		gzhttp.MinSize(4<<10),
		gzhttp.CompressionLevel(gzip.BestSpeed), // the networks are fast, too
		gzhttp.ExceptContentTypes([]string{streamType}),
	)
	if err != nil { // the settings contradict each other, which no caller can mend
		panic(err)
	}
	return wrap(handler)
}
