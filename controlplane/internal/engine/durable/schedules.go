package durable

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	schedulepb "go.temporal.io/api/schedule/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"gpuaas/controlplane/internal/base/fault"
)

// Schedule makes Temporal start a workflow again and again. While one run of it
// is still open, Temporal starts no other.
type Schedule struct {
	ID         string
	Every      time.Duration // whole seconds
	Offset     time.Duration // less than Every; spreads schedules with the same interval
	Jitter     time.Duration
	Workflow   string
	WorkflowID string // Temporal appends the time of each start
	Input      any    // nil: the workflow takes none
	Paused     bool
	PauseNote  string // shown in Temporal: why it is paused
}

// verifyEvery is how often the schedules in Temporal are read although the
// wanted ones have not changed: somebody may have changed them there.
const verifyEvery = 10 * time.Minute

// keeper remembers what was last applied, so that a call without changes costs
// nothing.
type keeper struct {
	mu    sync.Mutex
	clock func() time.Time
	kept  map[string]kept // by prefix; none after an error
}

type kept struct {
	schedules map[string]*schedulepb.Schedule
	verified  time.Time
}

// KeepSchedules makes sure that exactly the wanted schedules exist among those
// whose id begins with the prefix. It overwrites changes that somebody made in
// Temporal, pauses included. Several replicas may call it at once: each applies
// what it wants, and that is the same for all once they have read the same
// rows.
func (c *Client) KeepSchedules(ctx context.Context, prefix string, want []Schedule) error {
	wanted, err := wantedSchedules(prefix, want)
	if err != nil {
		return err
	}
	k := &c.schedules
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock()
	last, known := k.kept[prefix]
	if !known || now.Sub(last.verified) >= verifyEvery {
		last = kept{verified: now}
		if last.schedules, err = c.readSchedules(ctx, prefix, wanted); err != nil {
			delete(k.kept, prefix)
			return err
		}
	}
	if err := c.applySchedules(ctx, last.schedules, wanted); err != nil {
		delete(k.kept, prefix)
		return err
	}
	k.kept[prefix] = kept{schedules: wanted, verified: last.verified}
	return nil
}

// readSchedules reads the schedules that Temporal has. Temporal's listing lags
// behind, so it only serves to find unwanted ones; wanted ones are read one by
// one.
func (c *Client) readSchedules(ctx context.Context, prefix string, wanted map[string]*schedulepb.Schedule) (
	map[string]*schedulepb.Schedule, error,
) {
	have := map[string]*schedulepb.Schedule{}
	for token, more := []byte(nil), true; more; more = len(token) > 0 {
		page, err := within(ctx, c.temporal.WorkflowService().ListSchedules,
			&workflowservice.ListSchedulesRequest{Namespace: c.cfg.Namespace, NextPageToken: token})
		if err != nil {
			return nil, c.classify(err)
		}
		for _, entry := range page.GetSchedules() {
			if strings.HasPrefix(entry.GetScheduleId(), prefix) && wanted[entry.GetScheduleId()] == nil {
				have[entry.GetScheduleId()] = &schedulepb.Schedule{}
			}
		}
		token = page.GetNextPageToken()
	}
	for id := range wanted {
		found, err := within(ctx, c.temporal.WorkflowService().DescribeSchedule,
			&workflowservice.DescribeScheduleRequest{Namespace: c.cfg.Namespace, ScheduleId: id})
		switch {
		case isGone(err):
		case err != nil:
			return nil, c.classify(err)
		default:
			have[id] = essence(found.GetSchedule())
		}
	}
	return have, nil
}

// applySchedules makes the remaining changes. If Temporal refuses one schedule,
// the others are still applied; if Temporal cannot be reached, it stops.
func (c *Client) applySchedules(ctx context.Context, have, wanted map[string]*schedulepb.Schedule) error {
	var refused []error
	for id, want := range wanted {
		var err error
		switch now := have[id]; {
		case now == nil:
			err = c.createSchedule(ctx, id, want)
		case !proto.Equal(now, want):
			err = c.updateSchedule(ctx, id, want)
		}
		var invalid *serviceerror.InvalidArgument
		switch {
		case errors.As(err, &invalid):
			refused = append(refused, fault.Wrap(err, fault.Invalid, "schedule_refused", "Temporal refused schedule %s", id))
		case err != nil:
			return c.classify(err)
		}
	}
	for id := range have {
		if wanted[id] != nil {
			continue
		}
		_, err := within(ctx, c.temporal.WorkflowService().DeleteSchedule,
			&workflowservice.DeleteScheduleRequest{Namespace: c.cfg.Namespace, ScheduleId: id})
		if err != nil && !isGone(err) {
			return c.classify(err)
		}
	}
	return errors.Join(refused...)
}

// createSchedule updates the schedule if another replica has created it first.
func (c *Client) createSchedule(ctx context.Context, id string, want *schedulepb.Schedule) error {
	err := c.tryCreate(ctx, id, want)
	if isThere(err) {
		return c.tryUpdate(ctx, id, want)
	}
	return err
}

// updateSchedule creates the schedule if somebody has deleted it.
func (c *Client) updateSchedule(ctx context.Context, id string, want *schedulepb.Schedule) error {
	err := c.tryUpdate(ctx, id, want)
	if isGone(err) {
		return c.tryCreate(ctx, id, want)
	}
	return err
}

// The calls below do not use the SDK's schedule client. It would store the
// correlation id and the trace of whoever creates a schedule, and pass them to
// every workflow that the schedule starts.

func (c *Client) tryCreate(ctx context.Context, id string, want *schedulepb.Schedule) error {
	_, err := within(ctx, c.temporal.WorkflowService().CreateSchedule, &workflowservice.CreateScheduleRequest{
		Namespace: c.cfg.Namespace, ScheduleId: id, Schedule: want, RequestId: rand.Text(),
	})
	return err
}

func (c *Client) tryUpdate(ctx context.Context, id string, want *schedulepb.Schedule) error {
	_, err := within(ctx, c.temporal.WorkflowService().UpdateSchedule, &workflowservice.UpdateScheduleRequest{
		Namespace: c.cfg.Namespace, ScheduleId: id, Schedule: want, RequestId: rand.Text(),
	})
	return err
}

func isGone(err error) bool {
	var gone *serviceerror.NotFound
	return errors.As(err, &gone)
}

func isThere(err error) bool {
	var started *serviceerror.WorkflowExecutionAlreadyStarted
	var exists *serviceerror.AlreadyExists
	return errors.As(err, &started) || errors.As(err, &exists)
}

// within makes one call to Temporal with this package's time limits, and
// repeats it while Temporal asks to slow down because many schedules change at
// once.
func within[Req, Res, Option any](ctx context.Context, call func(context.Context, Req, ...Option) (Res, error),
	req Req,
) (Res, error) {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	for wait := 50 * time.Millisecond; ; wait *= 2 {
		res, err := call(ctx, req)
		var busy *serviceerror.ResourceExhausted
		if !errors.As(err, &busy) {
			return res, err
		}
		select {
		case <-ctx.Done():
			return res, err
		case <-time.After(wait):
		}
	}
}

func wantedSchedules(prefix string, want []Schedule) (map[string]*schedulepb.Schedule, error) {
	wanted := make(map[string]*schedulepb.Schedule, len(want))
	for _, s := range want {
		switch {
		case !strings.HasPrefix(s.ID, prefix):
			return nil, fault.New(fault.Internal, "schedule_malformed", "schedule %s does not begin with %s", s.ID, prefix)
		case wanted[s.ID] != nil:
			return nil, fault.New(fault.Internal, "schedule_malformed", "schedule %s is wanted twice", s.ID)
		}
		var input *commonpb.Payloads
		if s.Input != nil {
			p, err := converter.GetDefaultDataConverter().ToPayloads(s.Input)
			if err != nil {
				return nil, fault.Wrap(err, fault.Internal, "schedule_malformed", "the input of schedule %s cannot be written",
					s.ID)
			}
			input = p
		}
		wanted[s.ID] = s.proto(input)
	}
	return wanted, nil
}

// proto returns the schedule in Temporal's own form.
func (s Schedule) proto(input *commonpb.Payloads) *schedulepb.Schedule {
	state := &schedulepb.ScheduleState{}
	if s.Paused {
		state.Paused, state.Notes = true, s.PauseNote
	}
	return &schedulepb.Schedule{
		Spec: &schedulepb.ScheduleSpec{
			Interval: []*schedulepb.IntervalSpec{{Interval: durationpb.New(s.Every), Phase: durationpb.New(s.Offset)}},
			Jitter:   durationpb.New(s.Jitter),
		},
		Action: startOf(s.WorkflowID, s.Workflow, TaskQueue, input),
		Policies: &schedulepb.SchedulePolicies{
			OverlapPolicy: enumspb.SCHEDULE_OVERLAP_POLICY_SKIP,
			// After an outage of Temporal, only the last missed start is made
			// up for: the next one is due soon enough.
			CatchupWindow: durationpb.New(s.Every),
		},
		State: state,
	}
}

func startOf(workflowID, kind, queue string, input *commonpb.Payloads) *schedulepb.ScheduleAction {
	start := &workflowpb.NewWorkflowExecutionInfo{
		WorkflowId: workflowID, WorkflowType: &commonpb.WorkflowType{Name: kind},
		TaskQueue: &taskqueuepb.TaskQueue{Name: queue, Kind: enumspb.TASK_QUEUE_KIND_NORMAL},
		Input:     input,
	}
	return &schedulepb.ScheduleAction{Action: &schedulepb.ScheduleAction_StartWorkflow{StartWorkflow: start}}
}

// essence returns the parts of a schedule that this package decides, in one
// form. Temporal fills in defaults and leaves out zeros; neither counts as a
// difference.
func essence(s *schedulepb.Schedule) *schedulepb.Schedule {
	spec, ok := proto.Clone(s.GetSpec()).(*schedulepb.ScheduleSpec)
	if !ok || spec == nil {
		spec = &schedulepb.ScheduleSpec{}
	}
	spec.Jitter = durationpb.New(spec.GetJitter().AsDuration())
	for _, i := range spec.GetInterval() {
		i.Interval, i.Phase = durationpb.New(i.GetInterval().AsDuration()), durationpb.New(i.GetPhase().AsDuration())
	}
	start := s.GetAction().GetStartWorkflow()
	input := start.GetInput()
	if len(input.GetPayloads()) == 0 {
		input = nil
	}
	state, policies := s.GetState(), s.GetPolicies()
	return &schedulepb.Schedule{
		Spec:   spec,
		Action: startOf(start.GetWorkflowId(), start.GetWorkflowType().GetName(), start.GetTaskQueue().GetName(), input),
		Policies: &schedulepb.SchedulePolicies{
			OverlapPolicy: policies.GetOverlapPolicy(), CatchupWindow: durationpb.New(policies.GetCatchupWindow().AsDuration()),
			PauseOnFailure: policies.GetPauseOnFailure(), KeepOriginalWorkflowId: policies.GetKeepOriginalWorkflowId(),
		},
		State: &schedulepb.ScheduleState{
			Paused: state.GetPaused(), Notes: state.GetNotes(),
			LimitedActions: state.GetLimitedActions(), RemainingActions: state.GetRemainingActions(),
		},
	}
}
