import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, got, versioned } from '../../api/client'
import { useParam } from '../../app/location'
import { useMe } from '../../app/session'
import { ActForm } from '../../ui/actform'
import { Badge, Button, Card, Code, Facts, Loading, Note, Page, TextLink } from '../../ui/basics'
import { ConfirmDialog } from '../../ui/confirm'
import { Dialog } from '../../ui/dialog'
import { Menu } from '../../ui/menu'
import { ProblemNote } from '../../ui/problem'
import { When } from '../../ui/time'
import { say } from '../../ui/toast'
import { useProject } from '../access/reading'
import { mayIn } from '../access/roles'
import { Deliveries } from './Deliveries'
import { EditWebhook } from './EditWebhook'
import { standing, told, type Webhook } from './webhook'
import { WebhookSecret } from './WebhookSecret'

type Asked = 'edit' | 'disable' | 'rotate' | 'delete'

/** WebhookPage is one webhook: where it leads, how it does, and what it was told. */
export default function WebhookPage() {
  const projectId = useParam('projectId')
  const webhookId = useParam('webhookId')
  const path = { project_id: projectId, webhook_id: webhookId }
  const read = useQuery({ queryKey: ['webhooks', projectId, 'one', webhookId], queryFn: () => versioned(api.GET('/api/v1/projects/{project_id}/webhooks/{webhook_id}', { params: { path } })), refetchInterval: 10_000 })
  if (read.isPending) return <Loading what="the webhook" />
  if (read.data) return <Shown key={webhookId} webhook={read.data.body} etag={read.data.etag} error={read.error} />
  return (
    <Page title="Webhook" back={<TextLink to={`/access/projects/${projectId}`} search={{ tab: 'webhooks' }}>Webhooks</TextLink>}>
      <ProblemNote error={read.error} onRetry={() => void read.refetch()} />
    </Page>
  )
}

function Shown({ webhook: w, etag, error }: { webhook: Webhook; etag: string; error: unknown }) {
  const me = useMe()
  const queries = useQueryClient()
  const project = useProject(w.project_id)
  // With the version that was seen when it was asked for.
  const [asked, setAsked] = useState<{ what: Asked; etag: string }>()
  const manages = mayIn(me, 'webhook:manage', { orgId: project.data?.body.org_id ?? '', projectId: w.project_id })
  const path = { project_id: w.project_id, webhook_id: w.webhook_id }
  const readAnew = () => void queries.invalidateQueries({ queryKey: ['webhooks'] })
  const trying = useMutation({
    mutationFn: () => got(api.POST('/api/v1/projects/{project_id}/webhooks/{webhook_id}/test', { params: { path } })),
    onSuccess: () => {
      say('A test is on its way: see the deliveries.')
      readAnew()
    },
  })
  const enabling = useMutation({
    mutationFn: () => got(api.PATCH('/api/v1/projects/{project_id}/webhooks/{webhook_id}', { params: { path, header: { 'If-Match': etag } }, body: { enabled: true } })),
    onSuccess: () => {
      say('The webhook is enabled.')
      readAnew()
    },
  })
  const { word, tone } = standing(w)
  const ask = (what: Asked) => () => setAsked({ what, etag })
  const stop = () => setAsked(undefined)
  const off = w.status === 'disabled'
  return (
    <Page
      back={<TextLink to={`/access/projects/${w.project_id}`} search={{ tab: 'webhooks' }}>{project.data ? `Webhooks of ${project.data.body.name}` : 'Webhooks'}</TextLink>}
      title={
        <>
          {w.name} <Badge tone={tone}>{word}</Badge>
        </>
      }
      lead={told(w.kinds)}
      actions={
        manages && (
          <>
            {!off && (
              <Button look="primary" busy={trying.isPending} onClick={() => trying.mutate()}>
                Send a test
              </Button>
            )}
            {off && (
              <Button look="primary" busy={enabling.isPending} onClick={() => enabling.mutate()}>
                Enable
              </Button>
            )}
            <Menu
              label="More"
              entries={[
                { key: 'edit', title: 'Change …', hint: 'Its name, its address, its events.', onSelect: ask('edit') },
                { key: 'rotate', title: 'Another secret …', hint: 'For a day both sign.', onSelect: ask('rotate') },
                ...(off ? [] : [{ key: 'disable', title: 'Disable …', hint: 'It receives nothing until it is enabled.', onSelect: ask('disable') }]),
                { key: 'delete', title: 'Delete …', hint: 'With its log.', onSelect: ask('delete') },
              ]}
            />
          </>
        )
      }
    >
      {!!error && <ProblemNote error={error} />}
      {trying.error && <ProblemNote error={trying.error} />}
      {enabling.error && <ProblemNote error={enabling.error} />}
      {off && (
        <Note tone="bad" title={`It receives nothing: ${w.disabled_reason ?? 'it is disabled'}`}>
          Fix the receiver, then enable the webhook. Events in between are not delivered later.
        </Note>
      )}
      {!off && w.failing_since && (
        <Note tone="warn" title="Its receiver fails">
          Every attempt since <When at={w.failing_since} /> has failed. The deliveries below say how. A webhook that does nothing but fail is disabled after a while.
        </Note>
      )}
      <Card title="What it is">
        <Facts
          of={[
            ['Address', <Code key="u">{w.url}</Code>],
            ['Receives', told(w.kinds)],
            ['Last delivered', <When key="l" at={w.last_delivered_at} />],
            ['Secret made', <When key="s" at={w.secret_rotated_at} />],
            ['Added', <When key="c" at={w.created_at} />],
            ['Id', <Code key="i">{w.webhook_id}</Code>],
          ]}
        />
      </Card>
      <Deliveries webhook={w} manages={manages} />
      {asked?.what === 'edit' && <EditWebhook projectId={w.project_id} webhook={w} etag={asked.etag} onDone={readAnew} onClose={stop} />}
      {asked?.what === 'rotate' && <Rotate webhook={w} onDone={readAnew} onClose={stop} />}
      {asked?.what === 'disable' && (
        <ConfirmDialog
          title={`Disable ${w.name}`}
          does="Disable"
          danger
          act={() => got(api.PATCH('/api/v1/projects/{project_id}/webhooks/{webhook_id}', { params: { path, header: { 'If-Match': asked.etag } }, body: { enabled: false } }))}
          onDone={() => {
            say('The webhook is disabled.')
            readAnew()
          }}
          onClose={stop}
        >
          <p>It receives nothing any more, and deliveries that are waiting are dropped.</p>
        </ConfirmDialog>
      )}
      {asked?.what === 'delete' && <Delete webhook={w} onDone={readAnew} onClose={stop} />}
    </Page>
  )
}

type AskProps = { webhook: Webhook; onDone: () => void; onClose: () => void }

function Rotate({ webhook: w, onDone, onClose }: AskProps) {
  const making = useMutation({
    mutationFn: () => got(api.POST('/api/v1/projects/{project_id}/webhooks/{webhook_id}/rotate-secret', { params: { path: { project_id: w.project_id, webhook_id: w.webhook_id } } })),
    gcTime: 0, // the answer holds a secret
    onSuccess: onDone,
  })
  if (making.data) return <WebhookSecret of={making.data} onClose={onClose} />
  return (
    <Dialog title={`Another secret for ${w.name}`} onClose={onClose}>
      <ActForm doing={making} does="Make another secret" onClose={onClose}>
        <p className="text-sm">For a day what is posted is signed with both secrets: give the receiver the new one within that time.</p>
      </ActForm>
    </Dialog>
  )
}

function Delete({ webhook: w, onDone, onClose }: AskProps) {
  const navigate = useNavigate()
  return (
    <ConfirmDialog
      title={`Delete ${w.name}`}
      does="Delete"
      danger
      act={() => got(api.DELETE('/api/v1/projects/{project_id}/webhooks/{webhook_id}', { params: { path: { project_id: w.project_id, webhook_id: w.webhook_id } } }))}
      onDone={() => {
        say(`${w.name} is deleted.`)
        void navigate({ to: `/access/projects/${w.project_id}`, search: { tab: 'webhooks' } })
        onDone()
      }}
      onClose={onClose}
    >
      <p>What waits for it is not told, and its log is gone.</p>
    </ConfirmDialog>
  )
}
