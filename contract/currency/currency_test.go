package currency_test

import (
	"math"
	"testing"

	"gpuaas/contract/currency"
)

func TestAmountsAreWrittenInTheirMinorUnits(t *testing.T) {
	for _, c := range []struct {
		minor int64
		code  string
		want  string
	}{
		{0, "USD", "0.00 USD"},
		{5, "USD", "0.05 USD"},
		{-5, "EUR", "-0.05 EUR"},
		{123456, "EUR", "1234.56 EUR"},
		{1500, "JPY", "1500 JPY"},
		{-1, "KWD", "-0.001 KWD"},
		{7, "XXX", "7 minor units of XXX"},
		{math.MinInt64, "USD", "-92233720368547758.08 USD"},
	} {
		if got := currency.Format(c.minor, c.code); got != c.want {
			t.Errorf("%d %s: %q, want %q", c.minor, c.code, got, c.want)
		}
	}
}

func TestWhatIsNoCurrencyIsNotKnown(t *testing.T) {
	for code, known := range map[string]bool{
		"USD": true, "VND": true, "TND": true, "usd": false, "XXX": false, "XAU": false, "": false,
	} {
		if currency.Known(code) != known {
			t.Errorf("%q: %v", code, !known)
		}
	}
}

func TestAmountsAreReadAsTheyAreWritten(t *testing.T) {
	for text, want := range map[string]int64{"12.05": 1205, "12": 1200, "0.5": 50, "-3.01": -301, "-0.01": -1, "0": 0} {
		if got, err := currency.Parse(text, "USD"); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	if got, err := currency.Parse("1500", "JPY"); err != nil || got != 1500 {
		t.Errorf("%d, %v", got, err)
	}
	for _, text := range []string{
		"", ".", "1.", ".5", "-", "-.5", "1.005", "1,5", "1e3", "0x1", "1.-5", "1 0", "99999999999999999999",
	} {
		if got, err := currency.Parse(text, "USD"); err == nil {
			t.Errorf("%q is read as %d", text, got)
		}
	}
	if _, err := currency.Parse("1.5", "JPY"); err == nil {
		t.Error("half a yen")
	}
	if _, err := currency.Parse("1", "XXX"); err == nil {
		t.Error("money of nobody")
	}
}
