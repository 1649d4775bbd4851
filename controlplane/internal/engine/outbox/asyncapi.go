package outbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"gpuaas/contract/eventwire"
)

// object needs no order of keys: the encoder sorts them.
type object = map[string]any

// Words are lists of words by name. They come from the tables of the product: the
// package of the events knows only the standard library, so a field names its
// list (tag words).
type Words map[string][]string

// AsyncAPI generates the description of all events from their Go types.
func AsyncAPI(words Words) ([]byte, error) {
	channels, operations, messages, schemas := object{}, object{}, object{}, object{}
	for _, d := range eventwire.Events() {
		name := pascal(string(d.Type))
		payload := reflect.TypeOf(d.Payload)
		schemas[payload.Name()] = words.schemaOf(payload)
		messages[name] = message(d, payload.Name())
		channels[name] = object{
			"address":     "{prefix}." + string(d.Type),
			"description": d.Description,
			"x-told-to":   string(d.Audience),
			"parameters":  object{"prefix": object{"$ref": "#/components/parameters/prefix"}},
			"messages":    object{name: object{"$ref": "#/components/messages/" + name}},
		}
		operations["publish"+name] = object{
			"action":   "send",
			"summary":  d.Description,
			"channel":  object{"$ref": "#/channels/" + name},
			"messages": []any{object{"$ref": "#/channels/" + name + "/messages/" + name}},
		}
	}
	envelope := words.schemaOf(reflect.TypeFor[eventwire.Envelope]())
	schemas["Envelope"] = envelope
	return encode(object{
		"asyncapi": "3.0.0",
		"info": object{
			"title":   "gpuaas events",
			"version": eventwire.Version,
			"description": "What the control plane tells the outside, on the NATS JetStream stream " + StreamName + ".\n" +
				"Delivery is at least once; every copy of an event has the same event_id (header Nats-Msg-Id).\n" +
				"Events of one aggregate arrive in the order in which they were committed.\n" +
				"Readers must ignore fields that they do not know.\n" +
				"x-told-to says how far a channel is told: to the platform alone, to tenants, or to projects.",
		},
		"defaultContentType": "application/json",
		"channels":           channels,
		"operations":         operations,
		"components": object{
			"parameters": object{"prefix": object{
				"description": "What the operator put before all subjects.", "default": eventwire.DefaultPrefix,
			}},
			"messages": messages,
			"schemas":  schemas,
		},
	})
}

func message(d eventwire.Definition, payload string) object {
	return object{
		"name":        string(d.Type),
		"summary":     d.Description,
		"contentType": "application/json",
		"headers": object{
			"type":     "object",
			"required": []string{eventwire.HeaderCorrelationID, "Nats-Msg-Id"},
			"properties": object{
				"Nats-Msg-Id":                 object{"type": "string", "format": "uuid", "description": "the event_id"},
				eventwire.HeaderCorrelationID: object{"type": "string"},
				eventwire.HeaderTraceParent:   object{"type": "string", "description": "W3C trace context of the cause"},
			},
		},
		"payload": object{"allOf": []any{
			object{"$ref": "#/components/schemas/Envelope"},
			object{"type": "object", "properties": object{
				"event_type": object{"const": string(d.Type)},
				"payload":    object{"$ref": "#/components/schemas/" + payload},
			}},
		}},
	}
}

// schemaOf describes a Go type as it is encoded to JSON.
func (w Words) schemaOf(t reflect.Type) object {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[json.RawMessage]():
		return object{"type": "object"}
	}
	switch t.Kind() {
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return object{"type": "integer", "format": "int64"}
	case reflect.Float64:
		return object{"type": "number", "format": "double"}
	case reflect.Slice:
		return object{"type": "array", "items": w.schemaOf(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": w.schemaOf(t.Elem())}
	case reflect.Pointer:
		return w.schemaOf(t.Elem())
	case reflect.Struct:
		return w.structSchema(t)
	default:
		panic(fmt.Sprintf("outbox: a payload cannot hold a %s", t))
	}
}

func (w Words) structSchema(t reflect.Type) object {
	properties, required := object{}, []string{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		property := w.schemaOf(f.Type)
		if doc := f.Tag.Get("doc"); doc != "" {
			property["description"] = doc
		}
		if format := f.Tag.Get("format"); format != "" {
			property["format"] = format
		}
		if enum := f.Tag.Get("enum"); enum != "" {
			property["enum"] = strings.Split(enum, ",")
		}
		if list := f.Tag.Get("words"); list != "" {
			if len(w[list]) == 0 {
				panic(fmt.Sprintf("outbox: %s.%s names the words %q, which nobody lists", t, f.Name, list))
			}
			property["enum"] = w[list]
		}
		properties[name] = property
		if !strings.Contains(options, "omitempty") {
			required = append(required, name)
		}
	}
	return object{"type": "object", "required": required, "properties": properties}
}

// pascal turns service_account.created into ServiceAccountCreated.
func pascal(eventType string) string {
	words := strings.FieldsFunc(eventType, func(r rune) bool { return r == '.' || r == '_' })
	for i, w := range words {
		words[i] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}

func encode(document object) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString("# Generated from contract/eventwire by make gen; do not edit.\n")
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(document); err != nil {
		return nil, fmt.Errorf("encode asyncapi document: %w", err)
	}
	return out.Bytes(), encoder.Close()
}
