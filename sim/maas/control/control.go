// Package control is the control API of a simulated region: through it a person
// or a test makes things go wrong, lets things happen past the API, and moves
// time. It is served only on request, and answers only who knows its password.
package control

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/region"
)

const mostBody = 1 << 20

type server struct {
	region *region.Region
	plan   *fault.Plan
}

// User is the name that callers give; the password tells them apart from others.
const User = "control"

// New returns the control API of a region, for callers who know the password.
func New(r *region.Region, plan *fault.Plan, password string) http.Handler {
	s := &server{r, plan}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", s.status)
	mux.HandleFunc("GET /faults", s.faults)
	mux.HandleFunc("POST /faults", s.addFault)
	mux.HandleFunc("DELETE /faults", s.clearFaults)
	mux.HandleFunc("DELETE /faults/{id}", s.removeFault)
	mux.HandleFunc("POST /scenario", s.scenario)
	mux.HandleFunc("GET /machines", s.machines)
	mux.HandleFunc("POST /machines/{name}/{happening}", s.happen)
	mux.HandleFunc("POST /racks/{health}", s.racks)
	mux.HandleFunc("POST /clock/advance", s.advance)
	return guarded(mux, password)
}

// guarded keeps other accounts of the machine out, and pages that a browser on
// it happens to show.
func guarded(h http.Handler, password string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		_, given, _ := q.BasicAuth()
		if password == "" || subtle.ConstantTimeCompare([]byte(given), []byte(password)) != 1 {
			complain(w, http.StatusUnauthorized, errors.New("the control API wants its password: use the whole address, which lab.json or the output of gpuaas sim maas holds"))
			return
		}
		h.ServeHTTP(w, q)
	})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a caller that has gone cannot be told
}

func complain(w http.ResponseWriter, status int, err error) {
	answer(w, status, map[string]string{"error": err.Error()})
}

func read(w http.ResponseWriter, q *http.Request, v any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, q.Body, mostBody))
	d.DisallowUnknownFields() // a misspelt field would make another fault than the one asked for
	err := d.Decode(v)
	if err != nil {
		complain(w, http.StatusBadRequest, err)
	}
	return err == nil
}

func (s *server) status(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]any{
		"version": region.Version, "machines": s.region.Count(),
		"requests": s.plan.Requests(), "machine_records": s.region.Rendered(), "faults": len(s.plan.Rules()),
		"time": s.region.Clock().Now(),
	})
}

func (s *server) faults(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, s.plan.Rules())
}

func (s *server) addFault(w http.ResponseWriter, q *http.Request) {
	var r fault.Rule
	if !read(w, q, &r) {
		return
	}
	id, err := s.plan.Add(r)
	if err != nil {
		complain(w, http.StatusBadRequest, err)
		return
	}
	answer(w, http.StatusCreated, map[string]int{"id": id})
}

func (s *server) clearFaults(w http.ResponseWriter, _ *http.Request) {
	s.plan.Clear()
	w.WriteHeader(http.StatusNoContent)
}

func (s *server) removeFault(w http.ResponseWriter, q *http.Request) {
	id, err := strconv.Atoi(q.PathValue("id"))
	if err != nil || !s.plan.Remove(id) {
		complain(w, http.StatusNotFound, errors.New("there is no such fault"))
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// scenario accepts a scenario file as it is.
func (s *server) scenario(w http.ResponseWriter, q *http.Request) {
	b, err := io.ReadAll(http.MaxBytesReader(w, q.Body, mostBody))
	var sc *fault.Scenario
	if err == nil {
		sc, err = fault.ReadScenario(b)
	}
	if err != nil {
		complain(w, http.StatusBadRequest, err)
		return
	}
	for _, r := range sc.Faults {
		if _, err := s.plan.Add(r); err != nil {
			complain(w, http.StatusBadRequest, err)
			return
		}
	}
	for _, h := range sc.Happenings {
		s.region.HappenLater(time.Duration(h.After), h.Machine, h.Do)
	}
	answer(w, http.StatusCreated, map[string]int{"faults": len(sc.Faults), "happenings": len(sc.Happenings)})
}

func (s *server) machines(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, s.region.Overview())
}

func (s *server) happen(w http.ResponseWriter, q *http.Request) {
	name, what := q.PathValue("name"), q.PathValue("happening")
	let := func() error { return s.region.Happen(name, what) }
	if what == "heal" {
		let = func() error { return Heal(s.region, s.plan, name) }
	}
	if err := let(); err != nil {
		complain(w, http.StatusBadRequest, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *server) racks(w http.ResponseWriter, q *http.Request) {
	switch q.PathValue("health") {
	case "healthy":
		s.region.SetRackHealth(true)
	case "dead":
		s.region.SetRackHealth(false)
	default:
		complain(w, http.StatusBadRequest, errors.New("racks are healthy or dead"))
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// advance moves time, if time is moved by hand.
func (s *server) advance(w http.ResponseWriter, q *http.Request) {
	clock, ok := s.region.Clock().(interface{ Advance(d time.Duration) })
	if !ok {
		complain(w, http.StatusConflict, errors.New("this simulator runs on the wall clock"))
		return
	}
	var in struct {
		By fault.Duration `json:"by"`
	}
	if !read(w, q, &in) {
		return
	}
	clock.Advance(time.Duration(in.By))
	answer(w, http.StatusOK, map[string]any{"time": s.region.Clock().Now()})
}
