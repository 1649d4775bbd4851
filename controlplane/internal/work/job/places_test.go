package job_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/work/job"
)

// branch is a second family on the database of a library.
func (s *library) branch(noun string) *library {
	f := loans
	f.Noun = noun
	b := &library{db: s.db, ctx: s.ctx, noun: noun, perform: s.perform, rows: job.NewRows(s.db, &f, loanColumns)}
	b.runner = job.New(job.Config[loan, *reading]{
		DB: s.db, Family: &f, Stages: []string{"find_book", "hand_over"}, Store: b.rows, Hooks: librarian{b},
		Workflow: job.WorkflowNames{Type: noun, Next: "next_" + noun, Lost: "lose_" + noun, Stage: func(s string) string {
			return noun + "." + s
		}},
	})
	b.batches = job.NewBatches(b.rows, b.runner)
	return b
}

// siteOf makes a site with so many places.
func siteOf(t *testing.T, owner *postgres.DB, name string, places int) id.Site {
	t.Helper()
	of := id.New[id.Site]()
	if _, err := owner.Exec(t.Context(), `INSERT INTO maas_sites (id, name, region_code, api_base_url, pxe_iface, pxe_vlan_vid, node_pxe_iface, fingerprint_salt, max_parallel)
		VALUES ($1, $2, 'eu-1', 'http://maas/MAAS', 'eth0', 0, 'eth0', decode(repeat('00', 16), 'hex'), $3)`, of, name, places); err != nil {
		t.Fatal(err)
	}
	return of
}

// askAt asks for one book at a site.
func (s *library) askAt(at id.Site) (made loan, err error) {
	of := id.NewString()
	err = s.db.InTx(s.ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := s.rows.Insert(ctx, tx, job.Asked{At: time.Now()}, []job.NewJob{{
			ID: of, Subject: "book " + of, Stage: "find_book", WorkflowID: s.noun + "-" + of, Site: at, SitePlace: !at.IsZero(),
		}}, job.Statement{SQL: `INSERT INTO loans (job_id) VALUES ($1)`, Args: []any{of}})
		if err != nil {
			return err
		}
		if err := s.rows.Admit(ctx, tx, "", time.Now(), of); err != nil {
			return err
		}
		rows, err := s.rows.Of(ctx, tx, []string{of})
		if err == nil {
			made = rows[0]
		}
		return err
	})
	return made, err
}

// The limit of a site counts the jobs of all families, the oldest goes first
// whichever family it is of, and whoever waits is told who holds the places.
func TestFamiliesShareThePlacesOfASite(t *testing.T) {
	s, owner := newLibraryWithOwner(t)
	other, at := s.branch("errand"), siteOf(t, owner, "dc1", 2)
	_, first := s.askAt(at)
	_, second := other.askAt(at)
	older, third := other.askAt(at)
	newer, fourth := s.askAt(at)
	free, fifth := s.askAt(id.Site{})
	for _, err := range []error{first, second, third, fourth, fifth} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if older.AdmittedAt != nil || newer.AdmittedAt != nil || free.AdmittedAt == nil {
		t.Fatalf("two have the places of the site, and one needs none: %v %v %v", older.AdmittedAt, newer.AdmittedAt,
			free.AdmittedAt)
	}
	_, _, e, err := s.runner.Explain(s.ctx, newer.ID)
	if want := "for a free slot of site dc1: 2 of 2 are in use (1 by errands, 1 by loans)"; err != nil ||
		!strings.Contains(e.Summary, want) {
		t.Errorf("%q, %v", e.Summary, err)
	}
	other.move(t, "waiting", "lending", 1)
	other.move(t, "working", "lent", 1)
	if now, err := other.rows.Get(s.ctx, older.ID); err != nil || now.AdmittedAt == nil {
		t.Errorf("the oldest, of the other family, did not get the place: %v", err)
	}
	var started int
	if err := owner.QueryRow(s.ctx, `SELECT count(*) FROM outbox_events WHERE event_type = 'errand' AND aggregate_id = $1`,
		older.WorkflowID).Scan(&started); err != nil || started != 1 {
		t.Errorf("its workflow was started %d times, %v", started, err)
	}
	if now, err := s.rows.Get(s.ctx, newer.ID); err != nil || now.AdmittedAt != nil {
		t.Errorf("the newest got a place: %v", err)
	}
}

// A job that is asked for on its own goes before batches, but not before a job that
// has waited for more than a day.
func TestNobodyWaitsForEver(t *testing.T) {
	s, owner := newLibraryWithOwner(t)
	at := siteOf(t, owner, "dc1", 1)
	b, err := s.askMany(3, job.Batch{}, at)
	if err != nil {
		t.Fatal(err)
	}
	for day, want := range []string{"single", "batch"} {
		single, err := s.askAt(at)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := owner.Exec(s.ctx, `UPDATE jobs SET requested_at = requested_at - make_interval(hours => $2 * 25) WHERE batch_id = $1`, b.ID, day); err != nil {
			t.Fatal(err)
		}
		s.move(t, "waiting", "lending", 1)
		s.move(t, "working", "lent", 1)
		now, err := s.rows.Get(s.ctx, single.ID)
		if got := map[bool]string{true: "single", false: "batch"}[now.AdmittedAt != nil]; err != nil || got != want {
			t.Errorf("after %d days the %s went first, %v", day, got, err)
		}
	}
}

// world is two families, two sites and their batches, at which people and workers
// do something at random.
type world struct {
	*library
	families []*library
	sites    []id.Site
	mu       sync.Mutex
	batches  []job.Batch
}

func (w *world) any(r *rand.Rand) (job.Batch, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.batches) == 0 {
		return job.Batch{}, false
	}
	return w.batches[r.IntN(len(w.batches))], true
}

// step does one thing; what is refused because of how a batch stands is no error.
func (w *world) step(r *rand.Rand) (string, error) {
	f, at := w.families[r.IntN(len(w.families))], w.sites[r.IntN(len(w.sites))]
	moves := [][2]string{
		{"waiting", "lending"},
		{"waiting", "lending"},
		{"working", "lent"},
		{"working", "lent"},
		{"working", "stuck"},
		{"undoing", "withdrawn"},
	}
	switch n := r.IntN(20); {
	case n < 12:
		m := moves[r.IntN(len(moves))]
		_, err := f.moved(m[0], job.Status(m[1]))
		return f.noun + " " + m[0] + " to " + m[1], err
	case n < 14:
		_, err := f.askAt(at)
		return "ask", err
	case n < 16:
		b := job.Batch{MaxParallel: r.IntN(4)}
		if most := r.IntN(4); most < 3 {
			b.MaxFailures = &most
		}
		b, err := f.askMany(1+r.IntN(5), b, at)
		if err == nil {
			b.Reason = f.noun
			w.mu.Lock()
			w.batches = append(w.batches, b)
			w.mu.Unlock()
		}
		return "ask many", err
	}
	b, there := w.any(r)
	if !there {
		return "nothing", nil
	}
	of := w.families[0]
	if b.Reason == w.families[1].noun {
		of = w.families[1]
	}
	names := []string{"pause", "resume", "resume", "cancel"}
	verbs := []func(context.Context, id.JobBatch, string) error{
		of.batches.Pause, of.batches.Resume, of.batches.Resume,
		of.batches.Cancel,
	}
	i := r.IntN(len(verbs))
	err := verbs[i](w.ctx, b.ID, "because")
	if fault.CodeOf(err) == "batch_cancelled" {
		err = nil
	}
	return names[i], err
}

// over are the sites and batches whose limits are exceeded. What an operator's
// cancel brings back to work takes a place whether one is free or not.
const exceeded = `SELECT 'site ' || s.name FROM maas_sites s
	WHERE s.max_parallel < (SELECT count(*) FROM job_places p JOIN jobs j USING (id) WHERE p.site_id = s.id AND p.site_place AND j.phase <> 'undoing')
	UNION ALL SELECT 'batch ' || l.batch_id FROM job_batch_limits l
	WHERE l.max_parallel < (SELECT count(*) FROM job_places p JOIN jobs j USING (id) WHERE p.batch_id = l.batch_id AND j.phase <> 'undoing')
	UNION ALL SELECT 'admitted of a batch that is paused: ' || j.id FROM jobs j JOIN job_batches b ON b.id = j.batch_id WHERE j.admitted_at > b.paused_at`

func (w *world) within(t *testing.T, after string) bool {
	t.Helper()
	rows, err := w.db.Query(w.ctx, exceeded)
	if err != nil {
		t.Error(err)
		return false
	}
	over, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(over) > 0 {
		t.Errorf("after %s: %v, %v", after, over, err)
		return false
	}
	return true
}

// busy looks that no place is free while a job waits that could have it: handing
// out places once more admits nobody.
func (w *world) busy(t *testing.T, after string) bool {
	t.Helper()
	count := func() (n int) {
		if err := w.db.QueryRow(w.ctx, `SELECT count(*) FROM jobs WHERE admitted_at IS NOT NULL`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := count()
	if err := job.Tend(w.ctx, w.db, time.Now()); err != nil {
		t.Fatal(err)
	}
	if left := count() - before; left != 0 {
		t.Errorf("after %s %d places were free while jobs waited for them", after, left)
		return false
	}
	return true
}

// Whatever people and workers do, and in whatever order, no limit is exceeded and
// no place is left free while a job waits that could have it.
func TestPlacesAreNeitherExceededNorWasted(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			s, owner := newLibraryWithOwner(t)
			w := &world{
				library: s, families: []*library{s, s.branch("errand")},
				sites: []id.Site{{}, siteOf(t, owner, "dc1", 2), siteOf(t, owner, "dc2", 3)},
			}
			r := rand.New(rand.NewPCG(seed, 1))
			for range 150 {
				what, err := w.step(r)
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				if !w.within(t, what) || !w.busy(t, what) {
					return
				}
			}
			var others sync.WaitGroup
			for worker := range uint64(4) {
				others.Go(func() {
					r := rand.New(rand.NewPCG(seed, 2+worker))
					for range 40 {
						if what, err := w.step(r); err != nil {
							t.Errorf("%s: %v", what, err)
							return
						}
						w.within(t, "steps side by side")
					}
				})
			}
			others.Wait()
			w.busy(t, "steps side by side")
		})
	}
}
