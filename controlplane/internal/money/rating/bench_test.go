package rating_test

import (
	"strconv"
	"testing"
	"time"

	"gpuaas/controlplane/internal/money/rating"
)

// BenchmarkPriceChanges computes what a year of eight GPUs costs until now, and what its
// last hour costs, with a price that changes each week and each day.
func BenchmarkPriceChanges(b *testing.B) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 123_456_000, time.UTC)
	end := begin.AddDate(1, 0, 0)
	for _, changes := range []int{0, 52, 365} {
		b.Run(strconv.Itoa(changes), func(b *testing.B) {
			terms := rating.Terms{Units: 8}
			for i := range changes + 1 {
				terms.Rates = append(terms.Rates, rating.Rate{
					From: begin.Add(end.Sub(begin) / time.Duration(changes+1) * time.Duration(i)), Price: 350 + int64(i), Paid: 8_500,
				})
			}
			for b.Loop() {
				if _, err := terms.Until(begin, end); err != nil {
					b.Fatal(err)
				}
				if _, err := terms.Between(begin, end.Add(-time.Hour), end); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
