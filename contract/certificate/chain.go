package certificate

import (
	"cmp"
	"fmt"
	"slices"
)

// Chain holds the documents of one node, in their order.
type Chain struct {
	Node  string
	Files []*Signed
}

// Complete reports whether the chain begins with the first document of the
// node. Whether it ends with the newest one cannot be told from the files.
func (c Chain) Complete() bool { return len(c.Files) > 0 && c.Files[0].Document.Seq == 1 }

// Chains puts verified files, in any order, into the chains of their nodes, and
// checks that each names the one before it. A chain may begin later than with
// the first document; within it nothing may be missing or exchanged.
func Chains(files []*Signed) ([]Chain, error) {
	byNode := map[string]int{}
	var chains []Chain
	for _, f := range files {
		node := f.Document.Node.ID
		i, known := byNode[node]
		if !known {
			i = len(chains)
			byNode[node] = i
			chains = append(chains, Chain{Node: node})
		}
		chains[i].Files = append(chains[i].Files, f)
	}
	for _, c := range chains {
		slices.SortStableFunc(c.Files, func(a, b *Signed) int { return cmp.Compare(a.Document.Seq, b.Document.Seq) })
		for i := 1; i < len(c.Files); i++ {
			if err := follows(c.Files[i-1], c.Files[i]); err != nil {
				return nil, fmt.Errorf("chain of node %s: %w", c.Node, err)
			}
		}
	}
	return chains, nil
}

func follows(before, after *Signed) error {
	b, a := before.Document, after.Document
	switch {
	case b.Seq == a.Seq && before.Digest() == after.Digest():
		return &FieldError{Problem: fmt.Sprintf("number %d was given twice", a.Seq)}
	case b.Seq == a.Seq:
		return &FieldError{"/document/seq", fmt.Sprintf("there are two different documents with number %d: %s and %s", a.Seq,
			b.ID, a.ID)}
	case a.Seq != b.Seq+1:
		return &FieldError{"/document/seq", fmt.Sprintf("what is between number %d and number %d is missing", b.Seq, a.Seq)}
	case a.Previous.Digest != before.Digest():
		return &FieldError{
			"/document/previous/digest",
			fmt.Sprintf("number %d names another document as number %d than the one given: %s", a.Seq, b.Seq, b.ID),
		}
	case a.IssuedAt.Before(b.IssuedAt):
		return &FieldError{"/document/issued_at", fmt.Sprintf("number %d was issued before number %d", a.Seq, b.Seq)}
	}
	return nil
}
