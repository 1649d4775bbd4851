package job

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/outbox"
)

// The lifecycle Parking gives statuses and actions their enums in the contract. A
// family with another lifecycle gives the fields of its views types of its own.

// Schema implements huma.SchemaProvider.
func (Status) Schema(huma.Registry) *huma.Schema { return httpapi.StatesOf(Parking.Table.Describe()) }

// Schema implements huma.SchemaProvider.
func (Trigger) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(Parking.AllActions()) }

// Schema implements huma.SchemaProvider.
func (EventStatus) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(eventStatuses) }

// Families define views of their own of those here, so that the contract names
// them after the family.

// Details are facts whose names depend on what they are about. Never a secret.
type Details map[string]any

// DetailsOf reads details as rows and ledgers keep them. It returns nil if
// there are none.
func DetailsOf(raw json.RawMessage) Details {
	var out Details
	if json.Unmarshal(raw, &out) != nil || len(out) == 0 {
		return nil
	}
	return out
}

// StagesInput says whose stages are asked about.
type StagesInput struct {
	SiteID string `query:"site_id" format:"uuid" doc:"How long stages typically take is then what they take at this site; absent: at all sites."`
}

// Site is the site that is asked about; zero: all.
func (in StagesInput) Site() (id.Site, error) {
	var of id.Site
	if in.SiteID == "" {
		return of, nil
	}
	if of.UnmarshalText([]byte(in.SiteID)) != nil {
		return of, fault.New(fault.Invalid, "validation_error", "the request has fields that cannot be accepted").
			WithFields(fault.Field{Path: "query.site_id", Message: "must be an id"})
	}
	return of, nil
}

// TypicalOver is how many jobs, those that were started last, tell how long
// stages typically take: enough for a median, and few enough that a change of
// hardware shows soon.
const TypicalOver = 300

// FailureView is why a job is parked, or was last set back. C is a type of the
// family: it lists the classes that its failures have in the contract.
type FailureView[C ~string] struct {
	Class   C       `json:"failure_class" doc:"What sort of failure it is."`
	Code    string  `json:"error_code" doc:"What went wrong, for programs."`
	Message string  `json:"error_message" doc:"What went wrong, for people."`
	Remedy  string  `json:"error_remedy,omitempty" doc:"What to do about it."`
	Details Details `json:"error_details,omitempty" doc:"What was found, by its name."`
}

// ShowFailure shows why a job is parked, or returns nil if it is not.
func ShowFailure[C ~string](j Job) *FailureView[C] {
	if j.FailureClass == "" {
		return nil
	}
	return &FailureView[C]{
		Class: C(j.FailureClass), Code: j.ErrorCode, Message: j.ErrorMessage, Remedy: j.ErrorRemedy,
		Details: DetailsOf(j.ErrorDetails),
	}
}

// EventView is one entry of the ledger of a job.
type EventView struct {
	Seq        int64       `json:"seq" doc:"Grows with every entry."`
	Epoch      int64       `json:"epoch"`
	Stage      string      `json:"stage"`
	Attempt    int         `json:"attempt"`
	Status     EventStatus `json:"status" doc:"What the entry is about; action is something an operator did, note something worth knowing about a stage that goes on, observed what reconciliation saw."`
	Message    string      `json:"message,omitempty" doc:"What happened, for people."`
	Details    Details     `json:"details,omitempty" doc:"What was found, by its name."`
	OccurredAt time.Time   `json:"occurred_at"`
}

// ShowEvent is an entry of a ledger as the API shows it.
func ShowEvent(e Event) EventView {
	return EventView{
		Seq: e.Seq, Epoch: e.Epoch, Stage: e.Stage, Attempt: e.Attempt, Status: e.Status, Message: e.Message,
		Details: DetailsOf(e.Details), OccurredAt: e.OccurredAt.UTC(),
	}
}

// ActionBody is the reason for an action.
type ActionBody struct {
	Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"Why; it goes into the audit log and the ledger." example:"cable replaced"`
}

// ActionsOf returns the legal actions of a job, best first, and the recommended
// one, which is empty if there is none.
func (f *Family[R]) ActionsOf(r R) (legal []Trigger, recommended Trigger) {
	legal = []Trigger{}
	for _, advice := range f.Recommend(r) {
		legal = append(legal, advice.Action)
	}
	return legal, f.Recommended(r)
}

// Verb is an action of operators as the API offers it.
type Verb struct {
	Action        Trigger
	ID            string // of the operation
	Summary, Note string
}

const legality = " 409 when the present state does not allow it, with the actions that it does."

// RegisterVerbs adds the actions of operators to an API. It makes an operation
// for each verb: like is the pattern, to which id, path and texts are added.
// The family's input says which job is meant, and holds an ActionBody.
func RegisterVerbs[I, V any](api *httpapi.API, like httpapi.Operation, life *Lifecycle, verbs []Verb,
	act func(ctx context.Context, in *I, action Trigger) (V, error),
) {
	for _, v := range verbs {
		op := like
		op.ID, op.Method, op.Path, op.Status = v.ID, http.MethodPost, like.Path+"/"+life.WordOf(v.Action), http.StatusAccepted
		op.Summary, op.Description = v.Summary, v.Note+legality
		httpapi.Register(api, op, func(ctx context.Context, in *I) (*httpapi.Plain[V], error) {
			after, err := act(ctx, in, v.Action)
			return &httpapi.Plain[V]{Body: after}, err
		})
	}
}

// Feed reads the event stream; outbox.Feed does.
type Feed interface {
	Read(ctx context.Context, r outbox.FeedRequest, tell func(outbox.FeedItem) error) error
}

// Following says which jobs are followed, and from where on.
type Following interface {
	// Last is the id of the last event that the reader has, or empty.
	Last() string
	// Wants says whether an event is about what is followed.
	Wants(e eventwire.Envelope) bool
}

// RegisterFeed adds the live feed of a family to an API. Types is the beginning
// of the types of all its events.
func RegisterFeed[I Following](api *httpapi.API, op httpapi.Operation, feed Feed, types string) {
	httpapi.RegisterStream(api, op, map[string]any{
		"event": eventwire.Envelope{}, "gap": outbox.Gap{},
		"position": outbox.Mark{},
	},
		func(ctx context.Context, in *I, send func(httpapi.Event) error) error {
			request, err := feedRequest((*in).Last(), types, func() *auth.Principal { return httpapi.Caller(ctx) })
			if err != nil {
				return err
			}
			return feed.Read(ctx, request, func(item outbox.FeedItem) error {
				event := httpapi.Event{ID: strconv.FormatUint(item.Position, 10)}
				switch {
				case item.Event != nil && !(*in).Wants(*item.Event):
					return nil
				case item.Event != nil:
					event.Name, event.Data = "event", item.Event
				case item.Gap != nil:
					event.Name, event.Data = "gap", item.Gap
				default:
					event.Name, event.Data = "position", item.Mark
				}
				return send(event)
			})
		})
}

func feedRequest(last, types string, reader func() *auth.Principal) (outbox.FeedRequest, error) {
	request := outbox.FeedRequest{Type: types, Reader: reader}
	if last == "" {
		return request, nil
	}
	after, err := strconv.ParseUint(last, 10, 63)
	if err != nil {
		return request, fault.Wrap(err, fault.Invalid, "last_event_id_invalid",
			"Last-Event-ID is not an id that this feed gave out").
			WithRemedy("use the id of the last event as it was given, or leave it out").
			WithFields(fault.Field{Path: "header.Last-Event-ID", Message: "not a position of the event stream"})
	}
	request.Resume, request.After = true, after
	return request, nil
}
