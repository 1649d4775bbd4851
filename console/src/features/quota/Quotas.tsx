import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, asRefusal, got } from '../../api/client'
import { usePages } from '../../api/pages'
import { useMe } from '../../app/session'
import { ActForm } from '../../ui/actform'
import { Badge, Button, Card, Loading } from '../../ui/basics'
import { ConfirmDialog } from '../../ui/confirm'
import { Dialog } from '../../ui/dialog'
import { SelectField, TextField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { When } from '../../ui/time'
import { say } from '../../ui/toast'
import { toneFill } from '../../ui/tone'
import { mayIn } from '../access/roles'
import { ProjectName } from '../allocation/ProjectName'
import { useOffered } from '../sku/offered'
import { draftOf, fullness, measures, share, type Measure, type Quota } from './quota'
import { quotasKey, readQuotas, type Owner } from './queries'

const everySku = 'All SKUs together'

/** Quotas is what a tenant or a project may hold, and what of it is held now. */
export function Quotas({ of }: { of: Owner }) {
  const me = useMe()
  const queries = useQueryClient()
  const [setting, setSetting] = useState<Quota | 'new'>()
  const [removing, setRemoving] = useState<Quota>()
  const pages = usePages(quotasKey(of), (cursor) => readQuotas(of, cursor))
  // The platform limits tenants; a tenant limits its projects.
  const manages = mayIn(me, of.projectId ? 'quota:manage' : 'tenant_quota:manage', of)
  const here = (q: Quota) => q.project_id === of.projectId
  const done = (text: string) => () => {
    say(text)
    void queries.invalidateQueries({ queryKey: ['quotas'] })
  }
  return (
    <Card title="Quotas" actions={manages && <Button onClick={() => setSetting('new')}>Set a quota …</Button>}>
      <p className="mb-2 text-sm text-muted">{of.projectId ? 'What the project may hold: its own quotas, and those of its tenant, which all projects of the tenant share.' : 'What the tenant may hold over all its projects, and what it allows each of them.'} A quota does not reserve anything; it refuses requests beyond it.</p>
      {pages.error && <ProblemNote error={pages.error} onRetry={pages.retry} />}
      {pages.loading && <Loading what="quotas" />}
      {!pages.loading && !pages.error && pages.rows.length === 0 && (
        <p className="text-sm">
          Nothing is limited. {manages ? 'Set a quota to limit GPUs or nodes.' : of.projectId ? 'Whoever administers the tenant sets quotas of projects.' : 'Administrators of the platform set quotas of tenants.'}
        </p>
      )}
      <ul className="flex flex-col divide-y divide-line">
        {pages.rows.map((q) => (
          <li key={q.quota_id} className="flex flex-wrap items-center gap-x-6 gap-y-2 py-3 text-sm">
            <div className="min-w-48 flex-1">
              <p className="flex flex-wrap items-center gap-2">
                <span className="font-medium break-words">{q.sku ?? everySku}</span>
                <Whose quota={q} of={of} />
              </p>
              <p className="text-xs text-muted">
                set <When at={q.updated_at} />
              </p>
            </div>
            <div className="flex flex-wrap gap-x-6 gap-y-2">
              {measures(q).map((m) => (
                <Used key={m.unit} measure={m} />
              ))}
            </div>
            {manages && here(q) && (
              <div className="flex gap-2">
                <Button aria-label={`Change the quota: ${q.sku ?? everySku}`} onClick={() => setSetting(q)}>
                  Change …
                </Button>
                <Button aria-label={`Remove the quota: ${q.sku ?? everySku}`} onClick={() => setRemoving(q)}>
                  Remove …
                </Button>
              </div>
            )}
          </li>
        ))}
      </ul>
      {pages.hasMore && (
        <Button className="mt-2" disabled={!pages.more} onClick={pages.more}>
          Show more
        </Button>
      )}
      {setting && <SetQuota of={of} quota={setting === 'new' ? undefined : setting} onDone={done('The quota is set.')} onClose={() => setSetting(undefined)} />}
      {removing && (
        <ConfirmDialog title="Remove the quota" does="Remove" danger act={() => remove(of, removing)} onDone={done('The quota is removed.')} onClose={() => setRemoving(undefined)}>
          <p>
            {of.projectId ? 'The project' : 'The tenant'} is no longer limited by it ({removing.sku ?? 'all SKUs together'}). Other quotas still count.
          </p>
        </ConfirmDialog>
      )}
    </Card>
  )
}

function Whose({ quota: q, of }: { quota: Quota; of: Owner }) {
  if (!q.project_id) return <Badge tone="info">{of.projectId ? 'of the whole tenant' : 'of the tenant'}</Badge>
  return <Badge>{of.projectId ? 'of this project' : <ProjectName id={q.project_id} />}</Badge>
}

/** Used is what is used of a limit: in words, and as a bar for the eye. */
function Used({ measure: m }: { measure: Measure }) {
  const tone = fullness(m)
  return (
    <div className="w-44">
      <p className="tabular-nums">
        {m.used} of {m.limit} {m.unit} used
        {tone === 'bad' && <span className="text-bad">, over the quota</span>}
        {tone === 'warn' && <span className="text-warn">, full</span>}
      </p>
      <div aria-hidden className="mt-1 h-1.5 overflow-hidden rounded bg-raised">
        <div className={`h-full rounded ${toneFill[tone]}`} style={{ width: `${share(m) * 100}%` }} />
      </div>
    </div>
  )
}

const remove = ({ orgId, projectId }: Owner, { sku }: Quota) =>
  projectId ? got(api.DELETE('/api/v1/projects/{project_id}/quotas', { params: { path: { project_id: projectId }, query: { sku } } })) : got(api.DELETE('/api/v1/tenants/{org_id}/quotas', { params: { path: { org_id: orgId }, query: { sku } } }))

type SetProps = { of: Owner; quota?: Quota; onDone: () => void; onClose: () => void }

function SetQuota({ of, quota, onDone, onClose }: SetProps) {
  const { skus } = useOffered()
  const [sku, setSku] = useState(quota?.sku ?? '')
  const [gpus, setGpus] = useState(quota?.gpus?.toString() ?? '')
  const [nodes, setNodes] = useState(quota?.nodes?.toString() ?? '')
  const draft = draftOf(gpus, nodes)
  const setting = useMutation({
    mutationFn: async () => {
      const query = { sku: sku || undefined }
      await (of.projectId ? got(api.PUT('/api/v1/projects/{project_id}/quotas', { params: { path: { project_id: of.projectId }, query }, body: draft.body })) : got(api.PUT('/api/v1/tenants/{org_id}/quotas', { params: { path: { org_id: of.orgId }, query }, body: draft.body })))
    },
    onSuccess: () => {
      onDone()
      onClose()
    },
  })
  const refused = setting.error ? asRefusal(setting.error).fields : {}
  return (
    <Dialog title={quota ? `Change the quota: ${quota.sku ?? everySku}` : 'Set a quota'} onClose={onClose}>
      <ActForm doing={setting} does="Set" leave="Cancel" disabled={!draft.ready} onClose={onClose}>
        {!quota && <SelectField label="SKU" value={sku} onChange={setSku} options={[{ value: '', label: 'all SKUs together' }, ...skus.map((s) => ({ value: s.sku_id, label: s.display_name }))]} error={refused.sku} hint="An existing quota for it is replaced." />}
        <TextField label="GPUs at most" type="number" value={gpus} onChange={setGpus} hint="Empty: no limit. 0 means none." error={draft.wrong.gpus ?? refused.gpus} />
        <TextField label="Nodes at most" type="number" value={nodes} onChange={setNodes} hint="Empty: no limit. 0 means none." error={draft.wrong.nodes ?? refused.nodes} />
        <p className="text-sm text-muted">Existing allocations stay. New requests are refused until they fit the quota.{of.projectId && ' A project cannot be allowed more than its tenant.'}</p>
      </ActForm>
    </Dialog>
  )
}
