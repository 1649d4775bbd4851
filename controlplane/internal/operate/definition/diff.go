package definition

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// Change is one difference between two documents.
type Change struct {
	Path string
	From json.RawMessage // nil: it was not there
	To   json.RawMessage // nil: it is not there any more
}

// Diff lists what differs between two documents. Steps are compared by their id, so
// that a step that was put in between does not change all that follow.
func Diff(from, to json.RawMessage) ([]Change, error) {
	var a, b any
	if err := decodeNumbers(from, &a); err != nil {
		return nil, err
	}
	if err := decodeNumbers(to, &b); err != nil {
		return nil, err
	}
	changes := []Change{}
	compare("", a, b, &changes)
	return changes, nil
}

func compare(at string, a, b any, changes *[]Change) {
	if mapA, isA := a.(map[string]any); isA {
		if mapB, isB := b.(map[string]any); isB {
			compareObjects(at, mapA, mapB, changes)
			return
		}
	}
	listA, isA := a.([]any)
	listB, isB := b.([]any)
	if isA && isB {
		if orderA, membersA := byID(listA); orderA != nil {
			if orderB, membersB := byID(listB); orderB != nil {
				compareObjects(at, membersA, membersB, changes)
				compareOrder(at, orderA, orderB, changes)
				return
			}
		}
		if len(listA) == len(listB) {
			for i := range listA {
				compare(below(at, strconv.Itoa(i)), listA[i], listB[i], changes)
			}
			return
		}
	}
	if from, to := encoded(a), encoded(b); !bytes.Equal(from, to) {
		*changes = append(*changes, Change{Path: at, From: from, To: to})
	}
}

func compareObjects(at string, a, b map[string]any, changes *[]Change) {
	both := make(map[string]bool, len(a)+len(b))
	for name := range a {
		both[name] = true
	}
	for name := range b {
		both[name] = true
	}
	for _, name := range sortedNames(both) {
		was, before := a[name]
		is, after := b[name]
		switch {
		case !before:
			*changes = append(*changes, Change{Path: below(at, name), To: encoded(is)})
		case !after:
			*changes = append(*changes, Change{Path: below(at, name), From: encoded(was)})
		default:
			compare(below(at, name), was, is, changes)
		}
	}
}

// byID is a list of objects by their ids; nil: they have none.
func byID(list []any) (order []string, members map[string]any) {
	members = make(map[string]any, len(list))
	for _, item := range list {
		object, _ := item.(map[string]any)
		id, is := object["id"].(string)
		if _, twice := members[id]; !is || twice {
			return nil, nil
		}
		members[id] = item
		order = append(order, id)
	}
	return order, members
}

// compareOrder tells that what is in both lists stands in another order.
func compareOrder(at string, a, b []string, changes *[]Change) {
	var inBothA, inBothB []string
	for _, id := range a {
		if contains(b, id) {
			inBothA = append(inBothA, id)
		}
	}
	for _, id := range b {
		if contains(a, id) {
			inBothB = append(inBothB, id)
		}
	}
	if from, to := encoded(inBothA), encoded(inBothB); !bytes.Equal(from, to) {
		*changes = append(*changes, Change{Path: at + " (order)", From: from, To: to})
	}
}

func encoded(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage(`null`) // what was decoded can be encoded
	}
	return raw
}
