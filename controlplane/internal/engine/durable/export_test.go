package durable

import "time"

// At makes the client believe another time.
func (c *Client) At(now func() time.Time) { c.schedules.clock = now }
