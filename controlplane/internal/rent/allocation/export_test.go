package allocation

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/rent/allocation/internal/allocationdb"
)

// MaxWaiting is how many requests of a project wait at most.
const MaxWaiting = maxWaiting

// Mint issues the token of a terminal.
func (s *Service) Mint(ctx context.Context, of id.Allocation) error {
	_, err := s.mint(ctx, of, id.Project{}, WindowBody{})
	return err
}

// Refused does what follows when a node refuses the uid of an allocation as somebody saw it.
func (s *Service) Refused(ctx context.Context, seen Allocation) error {
	_, err := (&Activities{s}).retake(ctx, Errand{ID: seen.ID, Placement: seen.Placements, What: errandAccount}, seen.UID,
		Failure{Code: uidRefused[0]})
	return err
}

// Show is an allocation as the API shows it to somebody.
func Show(ctx context.Context, a Allocation) View { return show(ctx, a) }

// Told is the timeline of an allocation as the API shows it to somebody.
func (s *Service) Told(ctx context.Context, of id.Allocation) (string, error) {
	list, err := s.timeline(ctx, of, httpapi.Page{PageSize: 100})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%+v", list.Body.Items), nil
}

// Place records an allocation, and says how long it took to find and claim its node.
func (s *Service) Place(ctx context.Context, ask Ask) (took time.Duration, err error) {
	if ask, err = ask.checked(); err != nil {
		return 0, err
	}
	return took, s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := allocationdb.New(tx)
		org, err := orgOf(ctx, q, ask.Project)
		if err != nil {
			return err
		}
		of, err := offered(ctx, tx, ask)
		if err != nil {
			return err
		}
		began := time.Now()
		others, err := s.keepUnderLock(ctx, tx, org, ask, id.AllocationRequest{})
		if err != nil {
			return err
		}
		spots, err := s.place(ctx, q, ask, others)
		took = time.Since(began)
		if err != nil {
			return err
		}
		_, err = s.insert(ctx, tx, ask, plot{org: org, sku: of, spot: spots[0]})
		return err
	})
}
