package operation

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

// LineView is a line that a step of a run printed.
type LineView struct {
	TargetID id.OperationTarget `json:"target_id"`
	NodeID   id.Node            `json:"node_id"`
	Hostname string             `json:"hostname"`
	StepID   string             `json:"step_id"`
	Stream   string             `json:"stream" doc:"stdout, stderr, or agent for what the agent says of the step"`
	At       time.Time          `json:"at" doc:"By the clock of the node."`
	Seq      int64              `json:"seq" doc:"Its number among the lines of the node's task."`
	Text     string             `json:"text"`
}

func showLine(l Line) LineView {
	return LineView{
		TargetID: l.Target, NodeID: l.Node, Hostname: l.Hostname, StepID: l.Step, Stream: l.Stream, At: l.LogLine.At,
		Seq: l.Seq, Text: l.Text,
	}
}

// EndView says that a run that was followed has ended.
type EndView struct {
	Status  Status `json:"status"`
	Message string `json:"message,omitempty"`
}

// LogFilter says which lines are wanted, and whether to wait for more.
type LogFilter struct {
	Target id.OperationTarget `query:"target" doc:"Only those of this target."`
	StepID string             `query:"step_id" maxLength:"64" doc:"Only those of this step."`
	Search string             `query:"q" maxLength:"200" doc:"Only lines that hold this text, in any case."`
	Follow bool               `query:"follow" doc:"Answer with a stream of server-sent events that goes on while the run does."`
	httpapi.LastEventID
	httpapi.Page
}

func (f LogFilter) wish() LogWish { return LogWish{Target: f.Target, Step: f.StepID, Search: f.Search} }

func (s *Service) page(ctx context.Context, of id.Operation, f LogFilter) (*httpapi.List[LineView], error) {
	var after LogPosition
	if _, err := f.After(&after); err != nil {
		return nil, err
	}
	lines, looked, more, err := s.Lines(ctx, of, f.wish(), after, f.PageSize)
	if err != nil {
		return nil, err
	}
	out := &httpapi.List[LineView]{Items: []LineView{}}
	for _, l := range lines {
		out.Items = append(out.Items, showLine(l))
	}
	if more {
		out.NextCursor = httpapi.EncodeCursor(looked)
	}
	return out, nil
}

// looksAgain is how often a feed looks by itself: a notification may be lost.
const looksAgain = 2 * time.Second

// feed sends lines as they come, until the run has ended.
func (s *Service) feed(ctx context.Context, of id.Operation, f LogFilter, send func(httpapi.Event) error) error {
	after, err := brokenOff(f.Last())
	if err != nil {
		return err
	}
	news, leave := s.followers.join(of)
	defer leave()
	if err := send(httpapi.Event{}); err != nil {
		return err
	}
	for {
		// Read the state before the lines: what came before the end is sent before it.
		now, err := Get(ctx, s.db, of)
		if err != nil {
			return err
		}
		if after, err = s.sendLines(ctx, of, f.wish(), after, send); err != nil {
			return err
		}
		if now.Status.Ended() {
			return send(httpapi.Event{Name: "end", Data: EndView{Status: now.Status, Message: now.ErrorMessage}})
		}
		select {
		case <-ctx.Done():
			return nil
		case <-news:
		case <-time.After(looksAgain):
		}
	}
}

func (s *Service) sendLines(ctx context.Context, of id.Operation, wish LogWish, after LogPosition,
	send func(httpapi.Event) error,
) (LogPosition, error) {
	for {
		lines, looked, more, err := s.Lines(ctx, of, wish, after, 1000)
		if err != nil {
			return after, err
		}
		for _, l := range lines {
			if err := send(httpapi.Event{
				ID: strconv.FormatInt(l.At.Chunk, 10) + "-" + strconv.FormatInt(l.At.Seq, 10), Name: "line", Data: showLine(l),
			}); err != nil {
				return after, err
			}
		}
		after = looked
		if !more {
			return after, nil
		}
	}
}

// brokenOff reads where a feed was broken off.
func brokenOff(last string) (LogPosition, error) {
	var at LogPosition
	if last == "" {
		return at, nil
	}
	chunk, seq, _ := strings.Cut(last, "-")
	var err error
	if at.Chunk, err = strconv.ParseInt(chunk, 10, 64); err == nil {
		at.Seq, err = strconv.ParseInt(seq, 10, 64)
	}
	if err != nil {
		return at, fault.New(fault.Invalid, "event_id_invalid", "%q is not the id of a line that was sent", last).
			WithRemedy("begin again without Last-Event-ID")
	}
	return at, nil
}

var logEvents = map[string]any{"line": LineView{}, "end": EndView{}}

const aboutLogs = "Lines come in the order in which they arrived. With follow=true the answer is a stream of events: line, and end " +
	"when the run has ended."

func (s *Service) registerLogs(api *httpapi.API) {
	type projectLogs struct {
		ProjectPath
		LogFilter
	}
	httpapi.RegisterFollowed(api, httpapi.Operation{
		ID: "get-operation-logs", Method: http.MethodGet, Path: pathProject + "/{operation_id}/logs", Tag: tag,
		Summary: "Read, search or follow what the steps of a run print", Description: aboutLogs,
		Access: httpapi.Project(auth.OperationRead),
	}, logEvents, httpapi.Followed[projectLogs, httpapi.List[LineView]]{
		Follows: func(in *projectLogs) bool { return in.Follow },
		Page: func(ctx context.Context, in *projectLogs) (*httpapi.List[LineView], error) {
			if _, err := s.of(ctx, in.OperationID, in.ProjectID); err != nil {
				return nil, err
			}
			return s.page(ctx, in.OperationID, in.LogFilter)
		},
		Feed: func(ctx context.Context, in *projectLogs, send func(httpapi.Event) error) error {
			if _, err := s.of(ctx, in.OperationID, in.ProjectID); err != nil {
				return err
			}
			return s.feed(ctx, in.OperationID, in.LogFilter, send)
		},
	})
	type adminLogs struct {
		Path
		LogFilter
	}
	httpapi.RegisterFollowed(api, httpapi.Operation{
		ID: "get-fleet-operation-logs", Method: http.MethodGet, Path: pathAdmin + "/{operation_id}/logs", Tag: tag,
		Summary:     "Read, search or follow what the steps of a run print, whoever's it is",
		Description: aboutLogs, Access: httpapi.Platform(auth.OperationRead),
	}, logEvents, httpapi.Followed[adminLogs, httpapi.List[LineView]]{
		Follows: func(in *adminLogs) bool { return in.Follow },
		Page: func(ctx context.Context, in *adminLogs) (*httpapi.List[LineView], error) {
			if _, err := s.of(ctx, in.OperationID, id.Project{}); err != nil {
				return nil, err
			}
			return s.page(ctx, in.OperationID, in.LogFilter)
		},
		Feed: func(ctx context.Context, in *adminLogs, send func(httpapi.Event) error) error {
			if _, err := s.of(ctx, in.OperationID, id.Project{}); err != nil {
				return err
			}
			return s.feed(ctx, in.OperationID, in.LogFilter, send)
		},
	})
}
