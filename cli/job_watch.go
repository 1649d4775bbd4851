package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/watch"
	"gpuaas/contract/apiclient"
	"gpuaas/contract/eventwire"
)

// watching is how a command waits for jobs, which take as long as hardware does.
type watching struct {
	wait, watch       bool
	interval, timeout time.Duration
}

func (w *watching) any() bool { return w.wait || w.watch }

func addWatchingFlags(cmd *cobra.Command) *watching {
	w := &watching{}
	cmd.Flags().BoolVar(&w.wait, "wait", false, "wait until all have ended or need an operator")
	watch.AddFlags(cmd, &w.watch, &w.interval)
	cmd.Flags().Lookup("watch").Usage = "the same, and show how each is getting on"
	cmd.Flags().Lookup("interval").Usage = "how often to check if there is no live feed"
	cmd.Flags().DurationVar(&w.timeout, "timeout", 0,
		"how long to wait before giving up with exit code 7; 0 waits without limit")
	return w
}

// jobKind is what tells jobs of one kind from those of others when they are watched.
type jobKind struct {
	noun    string // of its commands, and in addresses
	idle    string // what is said when there is none
	reached func(n int) string
	plans   func(s *session) (map[string]stagePlan, error)
	get     func(s *session, id types.UUID) (apiclient.Answer, error)
	list    func(s *session, q jobQuery) (apiclient.Answer, error)
	// whether a batch begins no more by itself; nil: it always does
	halted func(s *session, batch types.UUID) (bool, error)
	stream func(ctx context.Context, s *session, q jobQuery, edit apiclient.RequestEditorFn) (*http.Response, error)
}

// jobQuery says which jobs to read or to follow.
type jobQuery struct {
	listing.Page
	batch, job *types.UUID
	status     *[]string
	after      *string
}

// watchCommand shows live how jobs of a kind are getting on.
func (a *app) watchCommand(kind *jobKind, v verb,
	resolve func(s *session, name string) (types.UUID, error),
) *cobra.Command {
	argument := strings.ToUpper(kind.noun)
	v.use, v.args = "watch ["+argument+"]", cobra.MaximumNArgs(1)
	v.flags = func(cmd *cobra.Command) action {
		w := &watching{watch: true}
		batch := cmd.Flags().String("batch", "", "those of this batch, by id")
		cmd.Flags().DurationVar(&w.interval, "interval", 2*time.Second, "how often to check if there is no live feed")
		cmd.Flags().DurationVar(&w.timeout, "timeout", 0,
			"how long to wait before giving up with exit code 7; 0 waits without limit")
		return func(s *session, args []string) error {
			if len(args) > 0 && *batch != "" {
				return failure.Misuse(s.Cmd, "name %s or --batch, not both", argument)
			}
			var scope watchScope
			var err error
			if scope.batch, err = optionalID(*batch,
				func(b string) (types.UUID, error) { return s.IDOf("a batch", b) }); err != nil {
				return err
			}
			if len(args) > 0 {
				if scope.job, err = optionalID(args[0], func(name string) (
					types.UUID, error,
				) {
					return resolve(s, name)
				}); err != nil {
					return err
				}
			}
			return s.watchJobs(kind, w, scope)
		}
	}
	return a.verb(v)
}

// watchScope is what to watch; neither: all that are in progress.
type watchScope struct{ batch, job *types.UUID }

// refreshEvery is how often the rows are read although the feed is live: events may be late.
const refreshEvery = 20 * time.Second

var errSettled = errors.New("nothing more will happen on its own")

// jobWatch follows jobs by the live feed, or by looking again and again when there is none.
type jobWatch struct {
	*session
	kind  *jobKind
	scope watchScope
	board

	mu sync.Mutex // on the board; the clock of the display works beside the feed
}

// watchJobs returns when nothing more will happen by itself.
func (s *session) watchJobs(kind *jobKind, w *watching, scope watchScope) error {
	format, err := s.Format()
	if err != nil {
		return err
	}
	o := &jobWatch{session: s, kind: kind, scope: scope}
	o.board = board{
		silent: !w.watch, format: format, inPlace: format == output.Table && w.watch && s.Terminal(s.Program.Out),
		size: s.Screen, show: s.Draw, out: s.Program.Out, now: s.Now, zone: s.Zone, rows: map[string]*watchedRow{},
	}
	if o.plans, err = kind.plans(s); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(s.Ctx)
	defer cancel()
	if w.timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, w.timeout)
		defer cancel()
	}
	err = o.follow(ctx, cancel)
	if err != nil && s.FailureOf(s.Ctx, err).Exit == failure.Unavailable {
		s.Note("there is no live feed (%v); looking every %s instead", err, w.interval)
		err = o.poll(ctx, w.interval)
	}
	return o.outcome(ctx, w, err)
}

// outcome says how it ended, and prints for programs how the jobs stand.
func (o *jobWatch) outcome(ctx context.Context, w *watching, err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil && !errors.Is(err, errSettled) {
		return err
	}
	goesOn := fmt.Sprintf("it goes on; see it with: gpuaas %s %s", o.kind.noun, o.scope.watched())
	late := o.Ctx.Err() == nil && errors.Is(ctx.Err(), context.DeadlineExceeded)
	if o.format != output.Table && (o.settled() || late) {
		if err := o.printAll(); err != nil {
			return err
		}
	}
	switch {
	case o.settled():
		return o.verdict(o.session, o.kind, o.scope)
	case late:
		return failure.New(failure.Unavailable, "wait_timeout", goesOn, "not all have ended within %s", w.timeout)
	}
	return failure.New(failure.Interrupted, "interrupted", goesOn, "interrupted before all have ended")
}

// watched is the command that watches the same once more.
func (s watchScope) watched() string {
	switch {
	case s.batch != nil:
		return "watch --batch " + s.batch.String()
	case s.job != nil:
		return "watch " + s.job.String()
	}
	return "watch"
}

// printAll prints what was watched, as it stands now: one job as show does, several as
// list does.
func (o *jobWatch) printAll() error {
	raws, err := o.read()
	if err != nil {
		return err
	}
	if o.scope.job != nil {
		return o.printFinal(raws[0])
	}
	watched := make([]json.RawMessage, 0, len(raws))
	for _, raw := range raws {
		v, err := output.Decode[jobView](raw)
		if err != nil {
			return err
		}
		if o.rows[v.Value.id()] != nil {
			watched = append(watched, raw)
		}
	}
	return o.printFinal(output.Array(watched))
}

// printFinal prints the last document: after events it is a line, or a YAML document, as they are.
func (o *jobWatch) printFinal(raw json.RawMessage) error {
	if o.silent {
		return output.Print(o.Program.Out, o.format, raw)
	}
	return output.PrintLine(o.Program.Out, o.format, raw)
}

// follow takes what the feed tells until all is settled.
func (o *jobWatch) follow(ctx context.Context, cancel context.CancelFunc) error {
	var clock sync.WaitGroup
	ticking, stop := context.WithCancel(ctx)
	defer clock.Wait()
	defer stop()
	clock.Go(func() { o.tick(ticking, cancel) })
	return apiclient.Stream(ctx, o.API, apiclient.StreamRequest{Wait: o.Wait, Open: o.open}, o.take)
}

func (o *jobWatch) open(ctx context.Context, after *string, edit apiclient.RequestEditorFn) (*http.Response, error) {
	return o.kind.stream(ctx, o.session, jobQuery{after: after, batch: o.scope.batch, job: o.scope.job}, edit)
}

// take shows what happened. Where the feed begins anew, or has a gap, the rows are read.
func (o *jobWatch) take(item apiclient.StreamItem) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var err error
	switch {
	case item.Event == nil:
		err = o.refresh()
	case o.format != output.Table && !o.silent:
		err = output.PrintLine(o.Program.Out, o.format, item.Raw)
	}
	if err == nil && item.Event != nil {
		err = o.happened(item)
	}
	if err == nil && o.settled() {
		return errSettled
	}
	return err
}

func (o *jobWatch) happened(item apiclient.StreamItem) error {
	var envelope eventwire.Envelope
	if err := json.Unmarshal(item.Raw, &envelope); err != nil {
		return nil //nolint:nilerr // not for this version of the program
	}
	var e jobEvent
	if err := json.Unmarshal(envelope.Payload, &e); err != nil {
		return nil //nolint:nilerr // likewise
	}
	return o.apply(e, envelope.OccurredAt)
}

// tick keeps the times on a terminal running, and reads the rows now and then.
func (o *jobWatch) tick(ctx context.Context, settled context.CancelFunc) {
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
func (o *jobWatch) poll(ctx context.Context, interval time.Duration) error {
	return o.Again(interval, func() (bool, error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if err := o.refresh(); err != nil {
			return false, err
		}
		return o.settled() || ctx.Err() != nil, nil
	})
}

// refresh reads how the jobs stand.
func (o *jobWatch) refresh() error {
	raws, err := o.read()
	if err != nil {
		return err
	}
	for i := len(raws) - 1; i >= 0; i-- { // the oldest first
		v, err := output.Decode[jobView](raws[i])
		if err != nil {
			return err
		}
		if err := o.see(v.Value); err != nil {
			return err
		}
	}
	if o.scope.batch != nil && o.kind.halted != nil {
		if o.halted, err = o.kind.halted(o.session, *o.scope.batch); err != nil {
			return err
		}
	}
	o.loaded = true
	return o.draw()
}

func (o *jobWatch) read() ([]json.RawMessage, error) {
	if o.scope.job != nil {
		raw, err := apiclient.Read(o.kind.get(o.session, *o.scope.job))
		return []json.RawMessage{raw}, err
	}
	q := jobQuery{batch: o.scope.batch}
	limit := 0
	switch {
	case o.scope.batch != nil:
	case !o.loaded:
		q.status = &[]string{"pending", "running", "compensating"}
	default: // what has ended meanwhile is among the newest
		limit = mostMachines
	}
	raws, _, err := listing.Collect(func(p listing.Page) (apiclient.Answer, error) {
		q.Page = p
		return o.kind.list(o.session, q)
	}, limit)
	return raws, err
}
