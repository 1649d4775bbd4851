package faults

import (
	"context"

	"gpuaas/sim/maas/fault"
)

// cases are the special cases of stages. Whatever is missing here goes wrong as
// usual says.
var cases = map[string]map[Kind]Case{
	loadSite: siteCases, resolvePower: powerCases, findMachine: findCases, commission: commissionCases,
	waitReady: readyCases,
	storage:   storageCases, roce: roceCases, pxeLink: pxeCases, render: renderCases, deploy: deployCases,
	waitDeployed: deployedCases,
	classify:     classifyCases, recoverRetry: recoverCases, seedSync: seedCases, waitSync: syncCases,
	waitAgent: agentCases,
}

const (
	unavailable    = 503
	gatewayTimeout = 504
)

// away makes a request to MAAS fail before it is carried out, until an operator
// has fixed it.
func away(operation string) func(*run) {
	return func(r *run) {
		r.first(func(context.Context) error {
			return r.rule(fault.Rule{
				Operation: operation, Fault: fault.ErrorBefore, Status: unavailable,
				Text: "MAAS is being restarted",
			})
		})
	}
}

// lost lets a request be carried out and breaks the connection before the
// answer.
func lost(operation string) func(*run) {
	return func(r *run) {
		r.first(func(context.Context) error {
			return r.rule(fault.Rule{Operation: operation, Fault: fault.LostAnswer, Count: 1})
		})
	}
}

// doubtful acts as a proxy before MAAS that gives up; whether the request was
// carried out is random.
func doubtful(operation string) func(*run) {
	return func(r *run) {
		kind := fault.ErrorBefore
		if r.coin() {
			kind = fault.ErrorAfter
		}
		r.first(func(context.Context) error {
			return r.rule(fault.Rule{
				Operation: operation, Fault: kind, Status: gatewayTimeout, Text: "Gateway Time-out",
				Count: 1,
			})
		})
	}
}

// answers makes a request be answered as if it had been carried out.
func (r *run) answers(operation, document string, count int) error {
	return r.rule(fault.Rule{
		Operation: operation, Fault: fault.ErrorBefore, Status: 200, ContentType: "application/json",
		Text: document, Count: count,
	})
}

// claims makes MAAS say once that it has done what was asked of the machine,
// and do nothing.
func claims(operation string, says map[string]any) func(*run) {
	return func(r *run) {
		r.first(func(context.Context) error {
			text, err := r.document(says)
			if err != nil {
				return err
			}
			return r.answers(operation, text, 1)
		})
	}
}

// befalls lets something happen to the machine before the stage acts.
func befalls(what string) func(*run) {
	return func(r *run) { r.first(func(context.Context) error { return r.happen(what) }) }
}

// phase makes a phase of the machine's own work go wrong once, from a stage on.
func phase(stage string, rule fault.Rule) func(*run) {
	rule.Count = 1
	return func(r *run) { r.at(stage, func(context.Context) error { return r.rule(rule) }) }
}

// both combines several set-ups.
func both(sets ...func(*run)) func(*run) {
	return func(r *run) {
		for _, set := range sets {
			set(r)
		}
	}
}

// given lets somebody prepare the machine just before the stage begins, so that
// the stage has something to do.
func given(prepare func(*run) error, set func(*run)) func(*run) {
	return func(r *run) {
		set(r)
		then := r.before
		r.before = func(ctx context.Context, n int) string {
			if n == 1 {
				r.trouble(prepare(r))
			}
			if then == nil {
				return mishapNone
			}
			return then(ctx, n)
		}
	}
}

// prepared returns the cases of a stage that has something to do only if it was
// prepared, including the usual ones.
func prepared(prepare func(*run) error, own map[Kind]Case) map[Kind]Case {
	for _, kind := range Kinds {
		c, described := own[kind]
		if !described {
			c = usual(kind)
		}
		if c.set != nil {
			c.set = given(prepare, c.set)
		}
		own[kind] = c
	}
	return own
}

// afterwards returns the cases of a stage that is reached only if something
// went wrong before.
func afterwards(before func(*run), own map[Kind]Case) map[Kind]Case {
	for _, kind := range Kinds {
		c, described := own[kind]
		if !described {
			c = usual(kind)
		}
		if c.set != nil {
			c.set = both(before, c.set)
		}
		own[kind] = c
	}
	return own
}

const (
	hisRelease = "an operator gives the machine back to MAAS"
	itsMAAS    = "bring MAAS back"
)
