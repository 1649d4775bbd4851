import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, got } from '../../api/client'
import { usePages } from '../../api/pages'
import { useMay } from '../../app/session'
import { Badge, Button, Code, Empty, Loading } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { Table, type Column } from '../../ui/table'
import { When } from '../../ui/time'
import { say } from '../../ui/toast'
import { ConfirmDialog } from '../../ui/confirm'
import { NewOverride, RotateOverride } from './OverrideDialogs'
import { PowerResolver } from './PowerResolver'
import { RowButton } from '../../ui/rowbutton'
import { selectors, type Override } from './selectors'
import { ifMatch, type Site } from './siteQueries'

type Asked = { what: 'rotate' | 'status' | 'delete'; override: Override } | { what: 'new' }

/** PowerOverrides are BMC credentials of single machines that deviate from the site's. */
export function PowerOverrides({ site }: { site: Site }) {
  const [asked, setAsked] = useState<Asked>()
  const manage = useMay()('site:manage')
  const overrides = usePages(['sites', site.site_id, 'power-overrides'], (cursor) =>
    got(api.GET('/api/v1/admin/maas-sites/{site_id}/power-overrides', { params: { path: { site_id: site.site_id }, query: { cursor, page_size: 200 } } })),
  )
  const add = manage && (
    <Button look="primary" onClick={() => setAsked({ what: 'new' })}>
      New override
    </Button>
  )
  return (
    <div className="flex flex-col gap-4">
      <div className="flex flex-wrap items-center justify-between gap-2">
        <p className="max-w-3xl text-sm text-muted">Machines are switched with the default BMC credentials of the site, unless an override is for them. An override by PXE MAC comes before one by BMC address, and that before one by host name.</p>
        {overrides.rows.length > 0 && add}
      </div>
      {overrides.error && <ProblemNote error={overrides.error} onRetry={overrides.retry} />}
      {overrides.loading && <Loading what="overrides" />}
      {!overrides.loading && !(overrides.error && overrides.rows.length === 0) && (
        <Table
          label="Power overrides"
          columns={columnsFor(manage ? setAsked : undefined)}
          rows={overrides.rows}
          rowKey={(o) => o.power_override_id}
          more={overrides.more}
          stale={overrides.stale}
          empty={
            <Empty title="No machine has BMC credentials of its own" action={add}>
              {site.power.has_credentials ? 'All are switched with the default of the site. Add an override for a machine whose BMC has another account or password.' : 'The site has no default BMC credentials either: write them under Credentials, or give each machine its own.'}
            </Empty>
          }
        />
      )}
      <PowerResolver site={site} />
      {asked && <Asking asked={asked} site={site} onClose={() => setAsked(undefined)} />}
    </div>
  )
}

function columnsFor(ask?: (asked: Asked) => void): Column<Override>[] {
  const actions = (o: Override) => (
    <span className="-ml-1.5 flex">
      <RowButton text="Change" label={`Change the credentials for ${o.selector_value}`} onClick={() => ask?.({ what: 'rotate', override: o })} />
      <RowButton text={o.status === 'active' ? 'Disable' : 'Enable'} label={`${o.status === 'active' ? 'Disable' : 'Enable'} the override for ${o.selector_value}`} onClick={() => ask?.({ what: 'status', override: o })} />
      <RowButton text="Delete" label={`Delete the override for ${o.selector_value}`} onClick={() => ask?.({ what: 'delete', override: o })} />
    </span>
  )
  return [
    { key: 'by', title: 'Found by', width: '8rem', cell: (o) => selectors[o.selector_type] },
    { key: 'value', title: 'Machine', width: 'minmax(9rem, 1fr)', cell: (o) => <span className="font-medium">{o.selector_value}</span> },
    { key: 'status', title: 'Status', width: '6rem', cell: (o) => <Badge tone={o.status === 'active' ? 'ok' : 'idle'}>{o.status}</Badge> },
    { key: 'fingerprint', title: 'Fingerprint', width: '10rem', cell: (o) => (o.credentials.fingerprint ? <Code>{o.credentials.fingerprint}</Code> : '–') },
    { key: 'rotated', title: 'Written', width: '8rem', cell: (o) => <When at={o.credentials.rotated_at} /> },
    ...(ask ? [{ key: 'actions', title: 'Actions', width: '13rem', cell: actions }] : []),
  ]
}

function Asking({ asked, site, onClose }: { asked: Asked; site: Site; onClose: () => void }) {
  const queries = useQueryClient()
  const done = (text: string) => {
    void queries.invalidateQueries({ queryKey: ['sites', site.site_id] })
    say(text)
  }
  if (asked.what === 'new') return <NewOverride site={site} onClose={onClose} onDone={done} />
  const { override } = asked
  const path = { site_id: site.site_id, power_override_id: override.power_override_id }
  const machine = override.selector_value
  if (asked.what === 'rotate') return <RotateOverride override={override} machine={machine} onClose={onClose} onDone={done} />
  if (asked.what === 'delete') {
    return (
      <ConfirmDialog
        title="Delete power override"
        does="Delete override"
        danger
        act={() => got(api.DELETE('/api/v1/admin/maas-sites/{site_id}/power-overrides/{power_override_id}', { params: { path } }))}
        onDone={() => done(`The override for ${machine} is deleted.`)}
        onClose={onClose}
      >
        <p>
          The override for <strong>{machine}</strong> is removed with its credentials, which cannot be brought back. The machine is then switched with the default of the site.
        </p>
      </ConfirmDialog>
    )
  }
  const disable = override.status === 'active'
  return (
    <ConfirmDialog
      title={`${disable ? 'Disable' : 'Enable'} power override`}
      does={disable ? 'Disable' : 'Enable'}
      act={() => got(api.PATCH('/api/v1/admin/maas-sites/{site_id}/power-overrides/{power_override_id}', { params: { path, header: ifMatch(override) }, body: { status: disable ? 'disabled' : 'active' } }))}
      onDone={() => done(`The override for ${machine} is ${disable ? 'disabled' : 'enabled'}.`)}
      onClose={onClose}
    >
      <p>{disable ? `The override for ${machine} is passed over. Its credentials are kept.` : `The credentials of the override are used for ${machine} again.`}</p>
    </ConfirmDialog>
  )
}
