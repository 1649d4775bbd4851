import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { api, asRefusal, got } from '../../api/client'
import { ActForm } from '../../ui/actform'
import { Dialog } from '../../ui/dialog'
import { TextArea, TextField } from '../../ui/form'
import { say } from '../../ui/toast'
import { WebhookSecret } from './WebhookSecret'
import { kindsOf, refusedKinds, wrongAddress, type Webhook } from './webhook'

type Props = { projectId: string; /** What is changed; without it a new one is made. */ webhook?: Webhook; etag?: string; onDone: () => void; onClose: () => void }

/** EditWebhook adds a webhook, and shows its secret once; or changes where and what one is told. */
export function EditWebhook({ projectId, webhook, etag = '', onDone, onClose }: Props) {
  const [name, setName] = useState(webhook?.name ?? '')
  const [url, setUrl] = useState(webhook?.url ?? '')
  const [kinds, setKinds] = useState(webhook?.kinds.join('\n') ?? '')
  const path = { project_id: projectId }
  const doing = useMutation({
    mutationFn: async () => {
      const body = { name: name.trim(), url: url.trim(), kinds: kindsOf(kinds) }
      if (!webhook) return got(api.POST('/api/v1/projects/{project_id}/webhooks', { params: { path }, body }))
      await got(api.PATCH('/api/v1/projects/{project_id}/webhooks/{webhook_id}', { params: { path: { ...path, webhook_id: webhook.webhook_id }, header: { 'If-Match': etag } }, body }))
      return undefined
    },
    gcTime: 0, // the answer holds a secret
    onSuccess: () => {
      onDone()
      if (!webhook) return
      say('The webhook is changed.')
      onClose()
    },
  })
  if (doing.data) return <WebhookSecret of={doing.data} onClose={onClose} />
  const refused = doing.error ? asRefusal(doing.error).fields : {}
  const wrong = wrongAddress(url)
  return (
    <Dialog title={webhook ? `Change ${webhook.name}` : 'Add a webhook'} onClose={onClose}>
      <ActForm doing={doing} does={webhook ? 'Change' : 'Add'} leave="Cancel" disabled={name.trim() === '' || url.trim() === '' || wrong !== undefined} onClose={onClose}>
        <TextField label="Name" required value={name} onChange={setName} hint="What people call it, such as pager." error={refused.name} />
        <TextField label="Address" required type="url" value={url} onChange={setUrl} placeholder="https://hooks.example.com/gpuaas" hint="On the public internet, unless whoever runs the platform allows more." error={wrong ?? refused.url} />
        <TextArea label="Events" rows={3} mono value={kinds} onChange={setKinds} placeholder={'provisioning.*\nallocation.*'} hint="Types of events, or their beginnings with a star, one a line. Left empty, all events of the project." error={refusedKinds(refused)} />
      </ActForm>
    </Dialog>
  )
}
