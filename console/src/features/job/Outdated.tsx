import { ProblemNote } from '../../ui/problem'
import { When } from '../../ui/time'

export type Read = { error: unknown; dataUpdatedAt: number; refetch: () => unknown }
type Pages = { error: unknown; readAt: number; retry: () => void }

/** outdatedOf is the first of several lists that could not be read. */
export function outdatedOf(...lists: Pages[]): Read {
  const failed = lists.find((l) => l.error) ?? { error: null, readAt: 0, retry: () => undefined }
  return { error: failed.error, dataUpdatedAt: failed.readAt, refetch: failed.retry }
}

/** Outdated says above what was read that reading it again failed, and how old it is. */
export function Outdated({ of: { error, dataUpdatedAt, refetch } }: { of: Read }) {
  if (!error) return null
  return (
    <div className="flex flex-col gap-1">
      <ProblemNote error={error} onRetry={() => void refetch()} />
      {dataUpdatedAt > 0 && (
        <p className="text-xs text-muted">
          What you see is as of <When at={new Date(dataUpdatedAt).toISOString()} />.
        </p>
      )}
    </div>
  )
}
