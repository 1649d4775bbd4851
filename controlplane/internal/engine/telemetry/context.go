package telemetry

import "context"

type correlationKey struct{}

// WithCorrelation puts a correlation id into a context. It connects everything
// that one request causes: log lines, audit entries, events, workflows and
// tasks.
func WithCorrelation(ctx context.Context, correlationID string) context.Context {
	return context.WithValue(ctx, correlationKey{}, correlationID)
}

// Correlation returns the correlation id of a context. It is empty if there is
// none.
func Correlation(ctx context.Context) string {
	s, _ := ctx.Value(correlationKey{}).(string)
	return s
}

type clientAddrKey struct{}

// WithClientAddr puts the address a request came from into a context, for the
// audit entries it causes.
func WithClientAddr(ctx context.Context, addr string) context.Context {
	return context.WithValue(ctx, clientAddrKey{}, addr)
}

// ClientAddr returns the address that a request came from. It is empty if there
// was none.
func ClientAddr(ctx context.Context) string {
	s, _ := ctx.Value(clientAddrKey{}).(string)
	return s
}
