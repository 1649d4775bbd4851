package bringup

import "context"

// Look reads the machine of the work as MAAS shows it now.
func (b *Bringup) Look(ctx context.Context, w *Work) error {
	r, err := b.region(ctx, w)
	if err != nil {
		return err
	}
	_, err = b.machine(ctx, r, w)
	return err
}

// FirstBootPath is where the secrets engine keeps the first boot that a job of a
// kind rendered.
func FirstBootPath(kind, job string) string { return "first-boot/" + kind + "/" + job }
