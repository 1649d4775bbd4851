package certificate

import (
	"embed"
	"fmt"
	htmltemplate "html/template"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
	"text/template"
	"time"
	"unicode"
)

//go:embed templates
var templates embed.FS

var shown = map[string]any{
	"title": title, "when": when, "level": level, "coverage": coverage, "verification": verification, "observer": observer,
	"words": words,
	"had":   had, "testifies": testifies,
}

var (
	textForm = template.Must(template.New("document.txt").Funcs(shown).ParseFS(templates, "templates/document.txt"))
	htmlForm = htmltemplate.Must(htmltemplate.New("document.html").Funcs(shown).ParseFS(templates,
		"templates/document.html"))
)

// page is what is shown of a file.
type page struct {
	Document
	Digest, KeyID string
}

// Text shows a file to people, as plain text.
func (s *Signed) Text(w io.Writer) error {
	if err := textForm.Execute(w, s.page()); err != nil {
		return fmt.Errorf("write text: %w", err)
	}
	return nil
}

// HTML shows a file to people, as one page that needs nothing else and can be
// printed.
func (s *Signed) HTML(w io.Writer) error {
	if err := htmlForm.Execute(w, s.page()); err != nil {
		return fmt.Errorf("write HTML: %w", err)
	}
	return nil
}

func (s *Signed) page() page {
	p := page{Document: s.Document, Digest: s.Digest(), KeyID: s.Signature.KeyID}
	harmless(reflect.ValueOf(&p).Elem())
	return p
}

// harmless replaces, in a copy, characters that could move a cursor or turn
// text around: the words come from people and machines that a reader need not
// trust.
func harmless(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(printable(v.String()))
	case reflect.Pointer:
		if !v.IsNil() {
			own := reflect.New(v.Type().Elem())
			own.Elem().Set(v.Elem())
			harmless(own.Elem())
			v.Set(own)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				harmless(v.Field(i))
			}
		}
	case reflect.Slice:
		own := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(own, v)
		for i := range own.Len() {
			harmless(own.Index(i))
		}
		v.Set(own)
	default: // shows nothing that somebody wrote
	}
}

func printable(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
	}
	return b.String()
}

func title(k Kind) string {
	if k == HandoverReceipt {
		return "Handover receipt"
	}
	return "Certificate of sanitization evidence"
}

func when(t time.Time) string {
	if t.IsZero() {
		return "not known"
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

func words(s string) string { return strings.ReplaceAll(s, "_", " ") }

func level(l Level) string {
	if l == None {
		return "none: no claim of sanitization"
	}
	return string(l) + " (NIST SP 800-88)"
}

func observer(o Observer) string {
	if o == Agent {
		return "the agent on the node"
	}
	return "the control plane"
}

func had(a Access) string {
	switch a.Had {
	case NoAccess:
		return "no known access"
	case UserAccess:
		return "an ordinary user, last access at " + moment(a.At)
	case RootAccess:
	}
	return fmt.Sprintf("root (%s), last at %s", words(a.Cause), moment(a.At))
}

func testifies(i Installation) string {
	text := "an installation that gpuaas did not make"
	if i.MadeAt != nil {
		text = "an installation that started at " + moment(i.MadeAt)
		if i.MadeBy != "" {
			text += " by " + i.MadeBy
		}
	}
	if !i.Independent {
		text += "; somebody had root on it, so its own reports are not independent"
	}
	return text
}

func moment(t *time.Time) string {
	if t == nil {
		return when(time.Time{})
	}
	return when(*t)
}

// coverage never rounds up: less than everything is less than 100 %.
func coverage(s Subject) string {
	switch {
	case s.TotalBytes == 0:
		return "not counted"
	case s.CoveredBytes == s.TotalBytes:
		return fmt.Sprintf("all of %d bytes", s.TotalBytes)
	}
	share := math.Floor(float64(s.CoveredBytes)/float64(s.TotalBytes)*10000) / 100
	return fmt.Sprintf("%d of %d bytes (%.2f %%)", s.CoveredBytes, s.TotalBytes, min(share, 99.99))
}

func verification(v Verification) string {
	if v.Result == NotVerifiable {
		return "none"
	}
	parts := []string{string(v.Result)}
	if v.How != "" {
		parts = append(parts, v.How)
	}
	if v.Samples > 0 || v.BytesRead > 0 {
		parts = append(parts, fmt.Sprintf("%d places and %d bytes read back, %d unclean", v.Samples, v.BytesRead,
			v.SamplesUnclean))
	}
	if v.CanariesPlanted > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d canaries still present", v.CanariesFound, v.CanariesPlanted))
	}
	return strings.Join(parts, "; ")
}
