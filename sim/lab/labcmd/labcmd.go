// Package labcmd holds the commands for the lab of a gpuaas up. One makes a
// site of it; others make things happen to its machines past the API of MAAS.
package labcmd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/sim/lab"
	"gpuaas/sim/maas/region"
)

// addState names the gpuaas up whose lab is meant.
func addState(c *cobra.Command) *string {
	return c.PersistentFlags().String("state", cmp.Or(os.Getenv("GPUAAS_STATE"), ".gpuaas"),
		"state folder of the gpuaas up that has the lab (GPUAAS_STATE)")
}

func record(state string) (lab.Record, error) {
	r, err := lab.ReadRecord(lab.RecordFile(state))
	if err != nil {
		return r, fmt.Errorf("%w (start gpuaas up --rack lxd or --rack process, or name its folder with --state)", err)
	}
	return r, nil
}

const mostAnswer = 64 << 20

// control calls the control API of the lab, which a real MAAS does not have.
func control(ctx context.Context, r lab.Record, method, path string, in, out any) error {
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, r.ControlURL+path, &body)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return fmt.Errorf("ask the lab: %w (does its gpuaas up still run?)", err)
	}
	defer func() { _ = resp.Body.Close() }()
	content, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	if err != nil {
		return fmt.Errorf("read answer of the lab: %w", err)
	}
	if resp.StatusCode >= http.StatusBadRequest {
		var said struct{ Error string }
		if json.Unmarshal(content, &said) != nil || said.Error == "" {
			said.Error = resp.Status
		}
		return errors.New(said.Error)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(content, out); err != nil {
		return fmt.Errorf("read answer of the lab: %w", err)
	}
	return nil
}

func machines(ctx context.Context, r lab.Record) ([]region.Brief, error) {
	var all []region.Brief
	err := control(ctx, r, http.MethodGet, "/machines", nil, &all)
	return all, err
}
