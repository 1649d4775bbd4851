package fleet

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"gpuaas/contract/agentwire"
)

// look takes over what the control plane has signed for this agent to trust, as
// real agents do. Nothing else makes it trust another key or CA.
func (a *Agent) look(ctx context.Context) error {
	var answer agentwire.TrustAnswer
	if _, err := a.line.call(ctx, http.MethodGet, a.path(agentwire.PathTrust, ""), nil, &answer, time.Minute); err != nil {
		return fmt.Errorf("ask what to trust: %w", err)
	}
	for _, st := range answer.Statements {
		var present int64
		switch st.About {
		case agentwire.AboutVerifiers:
			present = a.verifiers.Version
		case agentwire.AboutBundle:
			present = a.bundle
		default:
			continue
		}
		newer, refusal := a.verifiers.Believe(st, a.domain, present)
		if refusal != nil {
			return refusal
		}
		if newer {
			a.take(st)
		}
	}
	return nil
}

func (a *Agent) take(st agentwire.Statement) {
	if st.About == agentwire.AboutVerifiers {
		a.verifiers = *st.Verifiers
		a.line.header.Set(agentwire.HeaderVerifierVersion, strconv.FormatInt(st.Version, 10))
		return
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(st.PEM))
	a.line.config.RootCAs, a.bundle = roots, st.Version
	a.line.header.Set(agentwire.HeaderTrustBundle, agentwire.BundleFingerprint(st.PEM))
}
