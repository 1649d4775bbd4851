// Package rackcmd lets people use the machines of a virtual rack that another
// process holds. That process serves the rack on a socket in its state folder,
// and `gpuaas sim rack` asks there. Whoever may open the socket may do
// everything to the machines, so only the owner of the folder can open it.
package rackcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gpuaas/sim/rack"
)

// Socket returns where the rack of a state folder is served.
func Socket(state string) string { return filepath.Join(state, "rack.sock") }

// machineView is a machine as the socket shows it.
type machineView struct {
	Name    string `json:"name"`
	Running bool   `json:"running"`
	Address string `json:"address,omitempty"`
}

type addRequest struct {
	Name     string `json:"name"`
	UserData []byte `json:"user_data,omitempty"`
	Wait     bool   `json:"wait"` // wait until it has booted
}

type execRequest struct {
	Argv  []string `json:"argv"`
	Stdin []byte   `json:"stdin,omitempty"`
}

type execAnswer struct {
	Output string `json:"output"`
	Errors string `json:"errors,omitempty"`
	Code   int    `json:"code"`
}

// most limits what is sent over the socket at once.
const most = 8 << 20

// Serve answers on the socket until the context ends.
func Serve(ctx context.Context, socket string, r rack.Rack) error {
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove old socket of the rack: %w", err)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("serve rack: %w", err)
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		return fmt.Errorf("protect socket of the rack: %w", err)
	}
	server := &http.Server{
		Handler: routes(r), ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve rack: %w", err)
	}
	return nil
}

func routes(r rack.Rack) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /machines", func(w http.ResponseWriter, req *http.Request) {
		machines, err := r.Machines(req.Context())
		views := make([]machineView, 0, len(machines))
		for _, m := range machines {
			views = append(views, view(req.Context(), m))
		}
		reply(w, views, err)
	})
	mux.HandleFunc("POST /machines", func(w http.ResponseWriter, req *http.Request) {
		var in addRequest
		if !read(w, req, &in) {
			return
		}
		m, err := r.Machine(req.Context(), rack.Spec{Name: in.Name, UserData: in.UserData})
		if err == nil && in.Wait {
			err = m.Booted(req.Context())
		}
		if err != nil {
			reply(w, nil, err)
			return
		}
		reply(w, view(req.Context(), m), nil)
	})
	mux.HandleFunc("POST /machines/{name}/exec", func(w http.ResponseWriter, req *http.Request) {
		var in execRequest
		m, err := r.Find(req.Context(), req.PathValue("name"))
		if err != nil || !read(w, req, &in) {
			reply(w, nil, err)
			return
		}
		out, err := m.Exec(req.Context(), strings.NewReader(string(in.Stdin)), in.Argv...)
		var failed *rack.ExitError
		if errors.As(err, &failed) {
			reply(w, execAnswer{Output: out, Errors: failed.Output, Code: failed.Code}, nil)
			return
		}
		reply(w, execAnswer{Output: out}, err)
	})
	act := func(pattern string, do func(context.Context, rack.Machine) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, req *http.Request) {
			m, err := r.Find(req.Context(), req.PathValue("name"))
			if err == nil {
				err = do(req.Context(), m)
			}
			reply(w, struct{}{}, err)
		})
	}
	act("POST /machines/{name}/start", func(ctx context.Context, m rack.Machine) error { return m.Start(ctx) })
	act("POST /machines/{name}/stop", func(ctx context.Context, m rack.Machine) error { return m.Stop(ctx) })
	act("POST /machines/{name}/kill", func(ctx context.Context, m rack.Machine) error { return m.Kill(ctx) })
	act("DELETE /machines/{name}", func(ctx context.Context, m rack.Machine) error { return m.Delete(ctx) })
	return mux
}

func view(ctx context.Context, m rack.Machine) machineView {
	v := machineView{Name: m.Name()}
	v.Running, _ = m.Running(ctx) // if unknown, it is left out
	if v.Running {
		v.Address, _ = m.Address(ctx) // if unknown, it is left out
	}
	return v
}

func read(w http.ResponseWriter, req *http.Request, into any) bool {
	if err := json.NewDecoder(http.MaxBytesReader(w, req.Body, most)).Decode(into); err != nil {
		reply(w, nil, err)
		return false
	}
	return true
}

func reply(w http.ResponseWriter, body any, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // a caller that has gone needs no answer
}
