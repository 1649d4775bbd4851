package httpapi

// LargePage replaces Page in lists whose items are cheap and read by the
// thousand, such as the inventory of a fleet. Embed it.
type LargePage struct {
	Cursor   string `query:"cursor" maxLength:"1024" doc:"Where to continue: next_cursor of the page before."`
	PageSize int    `query:"page_size" minimum:"1" maximum:"1000" default:"50" doc:"How many items at most."`
}

// Page returns the same page for functions that take a Page.
func (p LargePage) Page() Page { return Page(p) }
