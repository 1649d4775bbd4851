package account

import (
	"context"

	"gpuaas/controlplane/internal/fleet/price"
	"gpuaas/controlplane/internal/money/account/internal/accountdb"
	"gpuaas/controlplane/internal/money/rating"
)

// Lists rates allocations by their terms. It reads each list of prices that terms follow
// once, so that all of them are rated by the same one.
type Lists struct {
	db   accountdb.DBTX
	read map[list][]rating.Rate
}

type list struct {
	sku, currency string
	paid          int32
}

// NewLists makes one, for a pool or a transaction.
func NewLists(db accountdb.DBTX) *Lists { return &Lists{db: db, read: map[list][]rating.Rate{}} }

// Agreed is what the rows say was agreed for an allocation.
type Agreed struct {
	Pricing  string
	SKU      string
	Currency string
	Minor    int64
	Paid     int32
	Units    int32
}

// Rating is how an allocation is rated.
func (l *Lists) Rating(ctx context.Context, of Agreed) (rating.Terms, error) {
	if Pricing(of.Pricing) != FollowsList {
		return rating.Fixed(of.Units, of.Minor, of.Paid), nil
	}
	key := list{of.SKU, of.Currency, of.Paid}
	known, there := l.read[key]
	if !there {
		spans, err := price.Spans(ctx, l.db, of.SKU, price.Held, of.Currency)
		if err != nil {
			return rating.Terms{}, err
		}
		known = rates(spans, of.Paid)
		l.read[key] = known
	}
	return rating.Terms{Units: of.Units, Rates: known}, nil
}

func rates(spans []price.Span, paid int32) []rating.Rate {
	out := make([]rating.Rate, len(spans))
	for i, s := range spans {
		out[i] = rating.Rate{From: s.From, Price: s.Minor, Paid: paid}
	}
	return out
}
