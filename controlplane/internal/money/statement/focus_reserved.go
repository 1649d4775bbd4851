package statement

// unusedCapacity is what FOCUS calls capacity that is reserved and not used.
const unusedCapacity = "Unused"

// focusReserved is a row about nodes that were reserved and not used.
func (d Document) focusReserved(l ReservedLine) (focusRow, error) {
	r := d.focusCapacity(l.ReservationID.String())
	if l.ProjectID != nil {
		r["SubAccountId"], r["SubAccountName"] = l.ProjectID.String(), l.Project
	}
	r["RegionId"], r["RegionName"] = l.Region, l.Region
	r["SkuId"], r["SkuMeter"], r["SkuPriceId"] = l.SKU, "Unused reserved GPU time", l.PriceID.String()
	d.cost(r, l.UsageMinor)
	r["ChargeCategory"], r["ChargeDescription"] = focusUsage, "Nodes of "+l.SKU+" that are reserved and not used"
	r.span(l.From, l.To)
	r["ListCost"], r["PricingCategory"] = amount(l.ListMinor, d.Currency), "Standard"
	r["ListUnitPrice"] = amount(l.PriceMinor, d.Currency)
	r["ContractedUnitPrice"] = d.contracted(l.PriceMinor, l.PaidShare)
	r["PricingQuantity"], r["PricingUnit"] = quotient(l.NodeSeconds*int64(l.Units), 3600), focusUnit
	r["ConsumedQuantity"], r["ConsumedUnit"] = r["PricingQuantity"], focusUnit
	of := []string{l.ReservationID.String()}
	if l.Late {
		r["ChargeClass"], r["x_Late"] = focusCorrection, "true"
		of = append(of, "late")
	}
	r["InvoiceDetailId"] = d.detail(of...)
	return r, r.priced(l.Units, l.PaidShare)
}

// focusCapacity is a row about a reservation.
func (d Document) focusCapacity(reservation string) focusRow {
	r := d.focusBase()
	r["ResourceId"], r["ResourceType"] = reservation, "Reservation"
	r["CapacityReservationId"], r["CapacityReservationStatus"] = reservation, unusedCapacity
	return r
}

// focusCorrected is a row about what a correction goes back to.
func (d Document) focusCorrected(of map[string]Line, m MendLine) (focusRow, error) {
	if m.ReservationID != nil {
		return d.focusCapacity(m.ReservationID.String()), nil
	}
	return d.focusAbout(of, m.AllocationID.String())
}
