package cli

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"gpuaas/contract/apiclient"
	"gpuaas/contract/eventwire"
)

// watching is how a command waits for onboardings, which take as long as hardware does.
type watching struct {
	wait, watch       bool
	interval, timeout time.Duration
}

func (w *watching) any() bool { return w.wait || w.watch }

func addWatchingFlags(cmd *cobra.Command) *watching {
	w := &watching{}
	cmd.Flags().BoolVar(&w.wait, "wait", false, "wait until all have ended or need an operator")
	addWatchFlags(cmd, &w.watch, &w.interval)
	cmd.Flags().Lookup("watch").Usage = "the same, and show how each is getting on"
	cmd.Flags().Lookup("interval").Usage = "how often to look when there is no live feed"
	cmd.Flags().DurationVar(&w.timeout, "timeout", 0, "how long to wait, exit code 7 when that was not enough; 0: as long as it takes")
	return w
}

func (a *app) onboardingWatchCommand() *cobra.Command {
	return a.verb(verb{
		use: "watch [ONBOARDING]", short: "Show live how onboardings are getting on", args: cobra.MaximumNArgs(1),
		operations: []string{"get-onboarding", "list-onboardings", "stream-onboardings", "list-onboarding-stages"},
		long: "Follows one onboarding, those of a batch, or all that are in progress, and returns when all of them\n" +
			"have ended or need an operator: exit code 0 when all became nodes, otherwise 8; 130 when it was ended\n" +
			"with Ctrl-C before, which stops nothing but the watching. With -o json it prints each event on a line,\n" +
			"then how the onboardings stand, as gpuaas onboarding show or list print it.",
		flags: func(cmd *cobra.Command) action {
			w := &watching{watch: true}
			batch := cmd.Flags().String("batch", "", "those of this batch, by id")
			cmd.Flags().DurationVar(&w.interval, "interval", 2*time.Second, "how often to look when there is no live feed")
			cmd.Flags().DurationVar(&w.timeout, "timeout", 0, "how long to wait, exit code 7 when that was not enough; 0: as long as it takes")
			return func(s *session, args []string) error {
				if len(args) > 0 && *batch != "" {
					return usage(s.cmd, "name an onboarding or --batch, not both")
				}
				var scope watchScope
				var err error
				if scope.batch, err = optionalID(*batch, func(b string) (types.UUID, error) { return s.idOf("a batch", b) }); err != nil {
					return err
				}
				if len(args) > 0 {
					if scope.onboarding, err = optionalID(args[0], s.onboardingID); err != nil {
						return err
					}
				}
				return s.watchOnboardings(w, scope)
			}
		},
	})
}

// watchScope is what to watch; neither: all that are in progress.
type watchScope struct{ batch, onboarding *types.UUID }

// refreshEvery is how often the rows are read although the feed is live: events may be late.
const refreshEvery = 20 * time.Second

var errSettled = errors.New("nothing more will happen by itself")

// onboardingWatch follows onboardings by the live feed, or by looking again and again when
// there is none.
type onboardingWatch struct {
	*session
	scope watchScope
	board

	mu sync.Mutex // on the board; the clock of the display works beside the feed
}

// watchOnboardings returns when nothing more will happen by itself.
func (s *session) watchOnboardings(w *watching, scope watchScope) error {
	format, err := s.format()
	if err != nil {
		return err
	}
	o := &onboardingWatch{session: s, scope: scope}
	o.board = board{
		silent: !w.watch, format: format, inPlace: format == formatTable && w.watch && s.terminal(s.program.Out),
		size: s.screen, out: s.program.Out, now: s.now, zone: s.zone, rows: map[string]*watchedRow{},
	}
	raws, err := s.stages()
	if err != nil {
		return err
	}
	if err := o.learn(raws); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	if w.timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, w.timeout)
		defer cancel()
	}
	err = o.follow(ctx, cancel)
	if err != nil && s.failureOf(s.ctx, err).exit == exitUnavailable {
		s.note("there is no live feed (%v); looking every %s instead", err, w.interval)
		err = o.poll(ctx, w.interval)
	}
	return o.outcome(ctx, w, err)
}

// screen is the size of the terminal; where it cannot be asked, what COLUMNS and LINES say.
func (s *session) screen() size {
	if f, ok := s.program.Out.(*os.File); ok {
		if columns, lines, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 && lines > 0 {
			return size{columns, lines}
		}
	}
	said := func(name string, otherwise int) int {
		if n, err := strconv.Atoi(s.env[name]); err == nil && n > 0 {
			return n
		}
		return otherwise
	}
	return size{said("COLUMNS", 80), said("LINES", 24)}
}

// outcome says how it ended, and prints for programs how the onboardings stand.
func (o *onboardingWatch) outcome(ctx context.Context, w *watching, err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil && !errors.Is(err, errSettled) {
		return err
	}
	goesOn := "it goes on; see it with: gpuaas onboarding " + o.scope.watched()
	late := o.ctx.Err() == nil && errors.Is(ctx.Err(), context.DeadlineExceeded)
	if o.format != formatTable && (o.settled() || late) {
		if err := o.printAll(); err != nil {
			return err
		}
	}
	switch {
	case o.settled():
		return o.verdict(o.session, o.scope)
	case late:
		return fail(exitUnavailable, "wait_timeout", goesOn, "not all have ended within %s", w.timeout)
	}
	return fail(exitInterrupted, "interrupted", goesOn, "interrupted before all have ended")
}

// watched is the command that watches the same once more.
func (s watchScope) watched() string {
	switch {
	case s.batch != nil:
		return "watch --batch " + s.batch.String()
	case s.onboarding != nil:
		return "watch " + s.onboarding.String()
	}
	return "watch"
}

// printAll prints what was watched, as it stands now: one onboarding as show does, several as
// list does.
func (o *onboardingWatch) printAll() error {
	raws, err := o.read()
	if err != nil {
		return err
	}
	if o.scope.onboarding != nil {
		return o.printFinal(raws[0])
	}
	watched := make([]json.RawMessage, 0, len(raws))
	for _, raw := range raws {
		v, err := decode[apiclient.OnboardingView](raw)
		if err != nil {
			return err
		}
		if o.rows[v.value.OnboardingId.String()] != nil {
			watched = append(watched, raw)
		}
	}
	return o.printFinal(array(watched))
}

// printFinal prints the last document: after events it is a line, or a YAML document, as they are.
func (o *onboardingWatch) printFinal(raw json.RawMessage) error {
	if o.silent {
		return printRaw(o.program.Out, o.format, raw)
	}
	return printLine(o.program.Out, o.format, raw)
}

// follow takes what the feed tells until all is settled.
func (o *onboardingWatch) follow(ctx context.Context, cancel context.CancelFunc) error {
	var clock sync.WaitGroup
	ticking, stop := context.WithCancel(ctx)
	defer clock.Wait()
	defer stop()
	clock.Go(func() { o.tick(ticking, cancel) })
	return apiclient.Stream(ctx, o.api, apiclient.StreamRequest{Wait: o.wait, Open: o.open}, o.take)
}

func (o *onboardingWatch) open(ctx context.Context, after *string, edit apiclient.RequestEditorFn) (*http.Response, error) {
	return o.api.StreamOnboardings(ctx, &apiclient.StreamOnboardingsParams{
		LastEventID: after, BatchId: o.scope.batch, OnboardingId: o.scope.onboarding,
	}, edit)
}

// take shows what happened. Where the feed begins anew, or has a gap, the rows are read.
func (o *onboardingWatch) take(item apiclient.StreamItem) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var err error
	switch {
	case item.Event == nil:
		err = o.refresh()
	case o.format != formatTable && !o.silent:
		err = printLine(o.program.Out, o.format, item.Raw)
	}
	if err == nil && item.Event != nil {
		err = o.happened(item)
	}
	if err == nil && o.settled() {
		return errSettled
	}
	return err
}

func (o *onboardingWatch) happened(item apiclient.StreamItem) error {
	var envelope eventwire.Envelope
	if err := json.Unmarshal(item.Raw, &envelope); err != nil {
		return nil //nolint:nilerr // not for this version of the program
	}
	var e eventwire.Onboarding
	if err := json.Unmarshal(envelope.Payload, &e); err != nil {
		return nil //nolint:nilerr // likewise
	}
	return o.apply(e, envelope.OccurredAt)
}

// tick keeps the times on a terminal running, and reads the rows now and then.
func (o *onboardingWatch) tick(ctx context.Context, settled context.CancelFunc) {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for elapsed := time.Duration(0); ; elapsed += time.Second {
		select {
		case <-ctx.Done():
			return
		case <-second.C:
		}
		o.mu.Lock()
		if elapsed%refreshEvery == refreshEvery-time.Second {
			_ = o.refresh() // the feed will say if the control plane is away
		} else {
			_ = o.draw() // likewise
		}
		if o.settled() {
			settled()
		}
		o.mu.Unlock()
	}
}

// poll looks again and again.
func (o *onboardingWatch) poll(ctx context.Context, interval time.Duration) error {
	return o.again(interval, func() (bool, error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if err := o.refresh(); err != nil {
			return false, err
		}
		return o.settled() || ctx.Err() != nil, nil
	})
}

// refresh reads how the onboardings stand.
func (o *onboardingWatch) refresh() error {
	raws, err := o.read()
	if err != nil {
		return err
	}
	for i := len(raws) - 1; i >= 0; i-- { // the oldest first
		v, err := decode[apiclient.OnboardingView](raws[i])
		if err != nil {
			return err
		}
		if err := o.see(v.value); err != nil {
			return err
		}
	}
	o.loaded = true
	return o.draw()
}

func (o *onboardingWatch) read() ([]json.RawMessage, error) {
	if o.scope.onboarding != nil {
		raw, err := apiclient.Read(o.api.GetOnboardingWithResponse(o.ctx, *o.scope.onboarding))
		return []json.RawMessage{raw}, err
	}
	params := apiclient.ListOnboardingsParams{BatchId: o.scope.batch}
	limit := 0
	switch {
	case o.scope.batch != nil:
	case !o.loaded:
		params.Status = &[]string{"pending", "running", "compensating"}
	default: // what has ended meanwhile is among the newest
		limit = mostMachines
	}
	raws, _, err := collect(func(p page) (apiclient.Answer, error) {
		params.Cursor, params.PageSize = p.cursor, p.size
		return o.api.ListOnboardingsWithResponse(o.ctx, &params)
	}, limit)
	return raws, err
}
