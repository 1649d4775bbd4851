package postgres

import (
	"time"

	"gpuaas/controlplane/internal/base/fault"
)

// mostApart is how far two clocks may be apart before nothing is decided by them.
const mostApart = 2 * time.Minute

// ClocksAgree refuses to decide about money by a clock that another one contradicts: who
// is ahead by a day would charge everybody a day, release those who cannot pay it, and
// close months that are not over.
func ClocksAgree(database, here time.Time) error {
	apart := database.Sub(here).Abs()
	if apart <= mostApart {
		return nil
	}
	return fault.New(fault.Unavailable, "clocks_differ",
		"the clocks of the database and of this process are %s apart: nothing is charged or closed until they agree",
		apart.Round(time.Second)).
		WithRemedy("see which of them is wrong, and have it synchronised; what was used meanwhile is charged then")
}
