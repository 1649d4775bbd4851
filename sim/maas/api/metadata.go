package api

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/region"
)

const mostReport = 8 << 20

// serveMetadata answers booted nodes. They sign with the key of their machine.
func (s *Server) serveMetadata(w http.ResponseWriter, q *http.Request) {
	caller, err := s.region.Authenticate(q.Header.Get("Authorization"))
	if err != nil {
		refuse(w, err)
		return
	}
	if caller.Machine == "" {
		framed(w)
		plainAnswer(w, http.StatusUnauthorized, "Forbidden")
		return
	}
	q.Body = http.MaxBytesReader(w, q.Body, mostReport)
	path := strings.TrimPrefix(q.URL.Path, metadata)
	result, err := s.metadata(q, caller.Machine, path)
	if err != nil {
		refuse(w, err)
		return
	}
	if result == nil { // no user data
		framed(w)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(http.StatusNotFound)
		return
	}
	write(w, result, fault.Action{})
}

func (s *Server) metadata(q *http.Request, machine, path string) (any, error) {
	if strings.HasPrefix(path, "status/") && q.Method == http.MethodPost {
		var p region.Report
		b, err := io.ReadAll(q.Body)
		if err == nil {
			err = json.Unmarshal(b, &p)
		}
		if err != nil {
			return nil, &region.RefusalError{Status: http.StatusBadRequest, Text: "Failed to decode status message: " +
				err.Error()}
		}
		if err := s.region.Receive(machine, p); err != nil {
			return nil, err
		}
		return nothing{}, nil
	}
	version, rest, _ := strings.Cut(path, "/")
	if version != "2012-03-01" && version != "latest" {
		return nil, &region.RefusalError{
			Status: http.StatusNotFound, Text: "Unknown metadata version: " + version,
			Missing: true,
		}
	}
	switch {
	case rest == "" && q.Method == http.MethodPost:
		return text("OK"), s.signal(q, machine)
	case rest == "user-data":
		body, found, err := s.region.UserData(machine)
		if err != nil || !found {
			return nil, err
		}
		return raw{"application/octet-stream", body}, nil
	case strings.HasPrefix(rest, "meta-data/"):
		v, err := s.region.Metadata(machine, strings.TrimPrefix(rest, "meta-data/"))
		return text(v), err
	case rest == "":
		return text("meta-data\nuser-data"), nil
	}
	return nil, &region.RefusalError{Status: http.StatusNotFound, Text: "Unknown metadata path.", Missing: true}
}

func (s *Server) signal(q *http.Request, machine string) error {
	if err := q.ParseMultipartForm(mostReport); err != nil && q.PostForm == nil { //nolint:gosec // the body is bounded by the caller
		return &region.RefusalError{Status: http.StatusBadRequest, Text: err.Error()}
	}
	op := q.Form.Get("op")
	switch op {
	case "signal":
		return s.region.Signal(machine, q.Form.Get("status"))
	case "netboot_off":
		return s.region.NetbootOff(machine)
	}
	return unrecognised(q.Method, op)
}
