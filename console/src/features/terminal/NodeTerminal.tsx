import { useState } from 'react'
import { api, got } from '../../api/client'
import { useParam } from '../../app/location'
import { Button, Card, Loading, Page, TextLink } from '../../ui/basics'
import { TextField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { useNode } from '../node/queries'
import { Screen } from './Screen'

const accepted = /^[a-z_][a-z0-9_-]{0,31}$/

/** NodeTerminal is a terminal on a node, as a user that was provisioned there. */
export default function NodeTerminal() {
  const nodeId = useParam('nodeId')
  const node = useNode(nodeId)
  const [username, setUsername] = useState('')
  const [as, setAs] = useState<string>()
  const name = node.data?.body.hostname
  if (node.isPending) return <Loading what="the node" />
  return (
    <Page back={<TextLink to={`/nodes/${nodeId}`}>{name ?? 'Node'}</TextLink>} title="Terminal" lead={name && (as ? `${as} on ${name}` : `On ${name}, as a user that was provisioned there. Never as root.`)}>
      {node.error && <ProblemNote error={node.error} onRetry={() => void node.refetch()} />}
      {name && !as && (
        <Card>
          <form
            className="flex max-w-md flex-col gap-3"
            onSubmit={(e) => {
              e.preventDefault()
              setAs(username)
            }}
          >
            <TextField label="User on the node" required value={username} onChange={setUsername} hint="What you type and see is not recorded; that you opened a terminal is." error={username && !accepted.test(username) ? 'Small letters, digits, - and _, and a letter first.' : undefined} />
            <div>
              <Button type="submit" look="primary" disabled={!accepted.test(username) || username === 'root'}>
                Open
              </Button>
            </div>
          </form>
        </Card>
      )}
      {name && as && (
        <Screen
          label={`Terminal of ${as} on ${name}`}
          open={(size) => got(api.POST('/api/v1/admin/nodes/{node_id}/terminal-token', { params: { path: { node_id: nodeId } }, body: { username: as, ...size } }))}
          onLeave={() => setAs(undefined)}
        />
      )}
    </Page>
  )
}
