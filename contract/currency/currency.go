// Package currency knows the currencies of ISO 4217 and how many digits their minor
// units have, so that all programs write the same amount in the same way.
package currency

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The codes in use, by the digits of their minor units. Metals, funds and codes for
// tests are no money that anybody pays with.
var byDigits = map[int][]string{
	0: strings.Fields("BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF"),
	2: strings.Fields(`AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF
		CNY COP CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR
		IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN
		NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL
		THB TJS TMT TOP TRY TTD TWD TZS UAH USD UYU UZS VES WST XCD YER ZAR ZMW ZWG`),
	3: strings.Fields("BHD IQD JOD KWD LYD OMR TND"),
}

// Digits is how many digits the minor unit of a currency has.
func Digits(code string) (digits int, known bool) {
	for n, codes := range byDigits {
		if slices.Contains(codes, code) {
			return n, true
		}
	}
	return 0, false
}

// Known says whether money of this code can be charged.
func Known(code string) bool {
	_, known := Digits(code)
	return known
}

// Format writes an amount of minor units, such as "-12.05 EUR". Of a currency that
// is not known it writes minor units.
func Format(minor int64, code string) string {
	digits, known := Digits(code)
	if !known {
		return strconv.FormatInt(minor, 10) + " minor units of " + code
	}
	text, sign := strconv.FormatInt(minor, 10), ""
	if minor < 0 {
		text, sign = text[1:], "-"
	}
	if digits > 0 {
		if missing := digits + 1 - len(text); missing > 0 {
			text = strings.Repeat("0", missing) + text
		}
		text = text[:len(text)-digits] + "." + text[len(text)-digits:]
	}
	return sign + text + " " + code
}

// Parse reads an amount as people write it, such as "12.05", into minor units.
func Parse(text, code string) (int64, error) {
	digits, known := Digits(code)
	if !known {
		return 0, fmt.Errorf("%q is not the code of a currency, such as USD", code)
	}
	whole, part, cut := strings.Cut(text, ".")
	if cut && part == "" || len(part) > digits {
		return 0, fmt.Errorf("%q is no amount of %s: give at most %d digits after the point", text, code, digits)
	}
	minor, err := strconv.ParseInt(whole+part+strings.Repeat("0", digits-len(part)), 10, 64)
	if err != nil || whole == "" || whole == "-" || whole == "+" || strings.ContainsAny(part, "+-") {
		return 0, fmt.Errorf("%q is no amount of %s, such as 12.05", text, code)
	}
	return minor, nil
}
