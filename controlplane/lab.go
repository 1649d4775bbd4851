package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/httpapi"
)

// labAudited writes what people do to the machines of a lab into the audit log,
// because the lab knows nothing of people.
func (p *parts) labAudited(lab http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", lab)
	for _, verb := range []string{"happen", "heal"} {
		mux.HandleFunc("POST /lab/machines/{name}/"+verb, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				httpapi.WriteProblem(r.Context(), w, httpapi.InvalidRequest("the body could not be read to its end"))
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			seen := &labAnswer{ResponseWriter: w, status: http.StatusOK}
			lab.ServeHTTP(seen, r)
			p.noteLab(r.Context(), "lab."+verb, r.PathValue("name"), body, seen.status)
		})
	}
	return mux
}

// noteLab runs afterwards, because only the lab knows whether it was done.
func (p *parts) noteLab(ctx context.Context, action, machine string, body []byte, status int) {
	entry := audit.Entry{
		Action: action, TargetKind: "lab_machine", TargetID: machine, Result: audit.Success,
		Metadata: map[string]any{},
	}
	var asked struct {
		What string `json:"what"`
	}
	if status >= http.StatusBadRequest { // then the requested action may be any text
		entry.Result, entry.Reason = audit.Failure, http.StatusText(status)
	} else if json.Unmarshal(body, &asked) == nil && asked.What != "" {
		entry.Metadata["what"] = asked.What
	}
	err := p.db.InTx(context.WithoutCancel(ctx),
		func(ctx context.Context, tx pgx.Tx) error { return audit.Record(ctx, tx, entry) })
	if err != nil {
		p.logger.ErrorContext(ctx, "what was done in the lab could not be audited", "action", action, "machine", machine,
			"error", err)
	}
}

// labAnswer remembers the status of an answer.
type labAnswer struct {
	http.ResponseWriter
	status int
}

// WriteHeader remembers the status.
func (a *labAnswer) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}
