import { useMutation, useQueryClient, type QueryKey } from '@tanstack/react-query'
import { useState } from 'react'
import { asRefusal, type Schemas } from '../../api/client'
import { usePages } from '../../api/pages'
import { ActForm } from '../../ui/actform'
import { Button, Card, Code, Loading } from '../../ui/basics'
import { ConfirmDialog } from '../../ui/confirm'
import { Dialog } from '../../ui/dialog'
import { TextArea, TextField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { When } from '../../ui/time'
import { say } from '../../ui/toast'
import { wrongKey } from './key'

type Key = Schemas['SshkeyView']
type NewKey = Schemas['SshkeyNewBody']

type Props = {
  title: string
  lead: string
  queryKey: QueryKey
  mayManage: boolean
  list: (cursor: string | undefined) => Promise<{ items: Key[]; next_cursor?: string }>
  add: (body: NewKey) => Promise<Key>
  remove: (keyId: string) => Promise<unknown>
}

/** SSHKeys is the SSH keys of somebody, or those that a project shares. */
export function SSHKeys({ title, lead, queryKey, mayManage, list, add, remove }: Props) {
  const queries = useQueryClient()
  const [adding, setAdding] = useState(false)
  const [removing, setRemoving] = useState<Key>()
  const pages = usePages(queryKey, list)
  const readAnew = () => void queries.invalidateQueries({ queryKey })
  return (
    <Card title={title} actions={mayManage && <Button onClick={() => setAdding(true)}>Add a key …</Button>}>
      <p className="mb-2 text-sm text-muted">{lead}</p>
      {pages.error && <ProblemNote error={pages.error} onRetry={pages.retry} />}
      {pages.loading && <Loading what="SSH keys" />}
      {!pages.loading && !pages.error && pages.rows.length === 0 && <p className="text-sm">There is none yet.{mayManage && ' Add the public half of yours, such as the content of ~/.ssh/id_ed25519.pub.'}</p>}
      <ul className="flex flex-col divide-y divide-line">
        {pages.rows.map((k) => (
          <li key={k.ssh_key_id} className="flex flex-wrap items-center gap-x-3 gap-y-1 py-2 text-sm">
            <div className="min-w-0 flex-1">
              <p className="font-medium break-words">{k.name}</p>
              <p className="text-xs break-all text-muted">
                {k.algorithm} · <Code>{k.fingerprint}</Code> · added <When at={k.created_at} />
              </p>
            </div>
            {mayManage && (
              <Button aria-label={`Remove ${k.name}`} onClick={() => setRemoving(k)}>
                Remove …
              </Button>
            )}
          </li>
        ))}
      </ul>
      {pages.hasMore && (
        <Button className="mt-2" disabled={!pages.more} onClick={pages.more}>
          Show more
        </Button>
      )}
      {adding && <AddKey add={add} onDone={readAnew} onClose={() => setAdding(false)} />}
      {removing && (
        <ConfirmDialog
          title={`Remove ${removing.name}`}
          does="Remove"
          danger
          act={() => remove(removing.ssh_key_id)}
          onDone={() => {
            say(`${removing.name} is removed.`)
            readAnew()
          }}
          onClose={() => setRemoving(undefined)}
        >
          <p>The key is removed from new and existing allocations. Open connections stay open.</p>
        </ConfirmDialog>
      )}
    </Card>
  )
}

function AddKey({ add, onDone, onClose }: { add: (body: NewKey) => Promise<Key>; onDone: () => void; onClose: () => void }) {
  const [name, setName] = useState('')
  const [text, setText] = useState('')
  const adding = useMutation({
    mutationFn: () => add({ name: name.trim() || undefined, public_key: text.trim() }),
    onSuccess: (k) => {
      say(`${k.name} is added.`)
      onDone()
      onClose()
    },
  })
  const refused = adding.error ? asRefusal(adding.error).fields : {}
  const wrong = wrongKey(text)
  return (
    <Dialog title="Add an SSH key" onClose={onClose}>
      <ActForm doing={adding} does="Add" leave="Cancel" disabled={text.trim() === '' || wrong !== undefined} onClose={onClose}>
        <TextArea label="Public key" required mono rows={4} value={text} onChange={setText} placeholder="ssh-ed25519 AAAA… you@laptop" hint="The one line of the file that ends with .pub. ssh-keygen -t ed25519 makes a pair." error={wrong ?? refused.public_key} />
        <TextField label="Name" value={name} onChange={setName} hint="A name of your choice. Empty: the comment of the key." error={refused.name} />
      </ActForm>
    </Dialog>
  )
}
