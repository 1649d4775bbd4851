import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState, type ReactNode } from 'react'
import { api, got } from '../../api/client'
import { useParam } from '../../app/location'
import { useMay } from '../../app/session'
import { Badge, Button, Card, Code, Facts, Loading, Note, Page, Stat, TextLink } from '../../ui/basics'
import { ReasonDialog } from '../../ui/dialog'
import { writeLabels } from '../../ui/labels'
import { ProblemNote } from '../../ui/problem'
import { When } from '../../ui/time'
import { say } from '../../ui/toast'
import { Owner } from './Owner'
import { chargeWords, mayCancel, stateTone, type Reservation } from './reservation'

/** ReservationPage is one reservation: how it is used, what is missing, and its end. */
export default function ReservationPage() {
  const id = useParam('reservationId')
  const read = useQuery({ queryKey: ['reservations', 'one', id], queryFn: () => got(api.GET('/api/v1/reservations/{reservation_id}', { params: { path: { reservation_id: id } } })), refetchInterval: 15_000 })
  const back = <TextLink to="/reservations">Reservations</TextLink>
  if (read.isPending) return <Loading what="the reservation" />
  if (read.data) return <Shown key={id} reservation={read.data} back={back} error={read.error} />
  return (
    <Page title="Reservation" back={back}>
      <ProblemNote error={read.error} onRetry={() => void read.refetch()} />
    </Page>
  )
}

function Shown({ reservation: r, back, error }: { reservation: Reservation; back: ReactNode; error: unknown }) {
  const may = useMay()
  const queries = useQueryClient()
  const [ending, setEnding] = useState(false)
  return (
    <Page
      back={back}
      title={
        <>
          {r.nodes} × {r.sku}
          <Badge tone={stateTone(r)}>{r.state}</Badge>
          {r.forced && <Badge tone="warn">forced</Badge>}
        </>
      }
      lead={
        <>
          Kept for <Owner of={r} />
        </>
      }
      actions={may('reservation:manage') && mayCancel(r) && <Button onClick={() => setEnding(true)}>Cancel the reservation …</Button>}
    >
      {!!error && <ProblemNote error={error} />}
      {r.short_by > 0 && (
        <Note tone="warn" title={r.short_by === 1 ? 'One node is missing' : `${r.short_by} nodes are missing`}>
          Not enough nodes that fit are free. They are kept for it as they become free; nothing that is rented is taken away. {r.forced && 'It was made although the fleet is too small for all that is reserved.'}
        </Note>
      )}
      {r.state === 'active' && (
        <div className="flex flex-wrap gap-3">
          <Stat label="reserved" value={r.nodes} />
          <Stat label="rented by the owner" value={r.used} />
          <Stat label="kept free" value={r.held} />
          <Stat label="missing" value={r.short_by} tone={r.short_by > 0 ? 'warn' : undefined} />
        </div>
      )}
      <Card title="What it is">
        <Facts of={factsOf(r)} />
      </Card>
      {ending && (
        <ReasonDialog
          title="Cancel the reservation"
          does="Cancel it"
          danger
          act={(reason) => got(api.POST('/api/v1/reservations/{reservation_id}/cancel', { params: { path: { reservation_id: r.reservation_id } }, body: { reason } }))}
          onDone={() => {
            say('The reservation is cancelled.')
            void queries.invalidateQueries({ queryKey: ['reservations'] })
          }}
          onClose={() => setEnding(false)}
        >
          <p>What is rented stays rented. Nodes that are kept free are there for everybody. The owner reads why.</p>
        </ReasonDialog>
      )}
    </Page>
  )
}

function factsOf(r: Reservation): [string, ReactNode][] {
  const where: [string, ReactNode][] = [
    ['Region', r.region ?? 'any'],
    ...(r.rack ? [['Rack', r.rack] as [string, ReactNode]] : []),
    ...(r.pool ? [['Pool', r.pool] as [string, ReactNode]] : []),
    ...(r.node_labels && Object.keys(r.node_labels).length > 0 ? [['Labels of its nodes', writeLabels(r.node_labels)] as [string, ReactNode]] : []),
  ]
  return [
    ['Begins', <When key="s" at={r.starts_at} exactly />],
    ['Ends', <When key="e" at={r.ends_at} exactly />],
    ...where,
    ['Charged', chargeWords(r.charge)],
    ['Why', r.reason],
    ['Made', <span key="m"><When at={r.created_at} />{r.created_by_name && ` by ${r.created_by_name}`}</span>],
    ...(r.cancelled_at ? [['Cancelled', <span key="c"><When at={r.cancelled_at} />: {r.cancel_reason}</span>] as [string, ReactNode]] : []),
    ['Id', <Code key="i">{r.reservation_id}</Code>],
  ]
}
