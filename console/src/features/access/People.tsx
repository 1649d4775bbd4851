import { useQueryClient } from '@tanstack/react-query'
import { useCallback, useState } from 'react'
import { api, got, type Schemas } from '../../api/client'
import { usePages } from '../../api/pages'
import { useSearchState } from '../../app/location'
import { useMay } from '../../app/session'
import { Badge, Button, Empty, Loading } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { Table, type Column } from '../../ui/table'
import { When } from '../../ui/time'
import { words } from '../../ui/tone'
import { FilterText } from '../../ui/filtertext'
import { Invite } from './Invite'
import { Person } from './Person'

type User = Schemas['IdentityUserView']

const columns: Column<User>[] = [
  { key: 'name', title: 'Name', width: 'minmax(9rem, 1fr)', cell: (u) => u.name || <span className="text-muted">not known yet</span> },
  { key: 'email', title: 'E-mail address', width: 'minmax(12rem, 1.4fr)', cell: (u) => u.email || <span className="text-muted">none</span> },
  { key: 'role', title: 'On the platform', width: '10rem', cell: (u) => (u.platform_role === 'none' ? <span className="text-muted">no role</span> : <Badge tone="accent">{words(u.platform_role)}</Badge>) },
  { key: 'state', title: 'State', width: '7rem', cell: (u) => (u.disabled ? <Badge tone="bad">disabled</Badge> : <Badge tone="ok">enabled</Badge>) },
  { key: 'linked', title: 'Identity provider', width: '10rem', cell: (u) => (u.linked ? 'has signed in' : <span className="text-muted">not used yet</span>) },
  { key: 'since', title: 'Known since', width: '8rem', cell: (u) => <When at={u.created_at} /> },
]

/** People is everybody who is known here. */
export function People() {
  const may = useMay()
  const queries = useQueryClient()
  const [search, change] = useSearchState()
  const [inviting, setInviting] = useState(false)
  const [opened, setOpened] = useState<string>()
  const email = search.email
  const find = useCallback((value: string) => change({ email: value }), [change])
  const pages = usePages(['users', 'list', email], (cursor) => got(api.GET('/api/v1/admin/users', { params: { query: { email, cursor, page_size: 100 } } })))
  const readAnew = () => void queries.invalidateQueries({ queryKey: ['users'] })
  return (
    <div className="flex flex-col gap-3">
      <div className="flex flex-wrap items-end justify-between gap-3">
        <div className="w-full sm:w-80">
          <FilterText label="With this address" placeholder="ada@example.com" value={email ?? ''} onChange={find} />
        </div>
        {may('user:manage') && (
          <Button look="primary" onClick={() => setInviting(true)}>
            Invite somebody …
          </Button>
        )}
      </div>
      {pages.error && <ProblemNote error={pages.error} onRetry={pages.retry} />}
      {pages.loading && <Loading what="people" />}
      {!pages.loading && !(pages.error && pages.rows.length === 0) && (
        <Table
          label="People"
          columns={columns}
          rows={pages.rows}
          rowKey={(u) => u.user_id}
          onOpen={(u) => setOpened(u.user_id)}
          more={pages.more}
          stale={pages.stale}
          empty={<Empty title={email ? 'Nobody with this address is known here' : 'Nobody is known here'}>{email && 'The whole address is compared. Invite them to have them known.'}</Empty>}
        />
      )}
      {inviting && <Invite onDone={readAnew} onClose={() => setInviting(false)} />}
      {opened && <Person userId={opened} onDone={readAnew} onClose={() => setOpened(undefined)} />}
    </div>
  )
}
