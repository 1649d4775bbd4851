package telemetry

import "context"

type correlationKey struct{}

// WithCorrelation puts the id into a context that ties together everything one
// request causes: log lines, audit entries, events, workflows, node tasks.
func WithCorrelation(ctx context.Context, correlationID string) context.Context {
	return context.WithValue(ctx, correlationKey{}, correlationID)
}

// Correlation is the correlation id of a context; empty when there is none.
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

// ClientAddr is the address a request came from; empty when there was none.
func ClientAddr(ctx context.Context) string {
	s, _ := ctx.Value(clientAddrKey{}).(string)
	return s
}
