import { Button, TextLink } from '../../ui/basics'
import { useNodeNames } from './nodeNames'

/** OnlyOfNode says of which node a list is, and leads back to that of all. */
export function OnlyOfNode({ node, onAll }: { node: string; onAll: () => void }) {
  const nameOf = useNodeNames()
  return (
    <div className="flex items-center gap-2 py-1.5 text-sm">
      Only of <TextLink to={`/nodes/${node}`}>{nameOf(node)}</TextLink>
      <Button look="quiet" onClick={onAll}>All nodes</Button>
    </div>
  )
}
