import { useInfiniteQuery, type QueryKey } from '@tanstack/react-query'

type List<T> = { items: T[]; next_cursor?: string }

/**
 * usePages reads a list page by page. The rows of all pages that were read are in
 * `rows`; `more` reads the next one. A list that is read anew keeps its pages.
 */
export function usePages<T>(key: QueryKey, read: (cursor: string | undefined) => Promise<List<T>>, options: { enabled?: boolean; refetchInterval?: number } = {}) {
  const query = useInfiniteQuery({
    queryKey: key,
    queryFn: ({ pageParam }) => read(pageParam),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.next_cursor || undefined,
    placeholderData: (before) => before,
    ...options,
  })
  return {
    rows: query.data?.pages.flatMap((p) => p.items) ?? [],
    // Not while the pages before are read anew, which that would break off, and not after a failure: somebody asks then.
    more: query.hasNextPage && !query.isFetching && !query.isFetchNextPageError ? () => void query.fetchNextPage() : undefined,
    hasMore: query.hasNextPage,
    loading: query.isPending,
    stale: query.isPlaceholderData,
    error: query.error,
    retry: () => void (query.isFetchNextPageError ? query.fetchNextPage() : query.refetch()),
    readAt: query.dataUpdatedAt,
  }
}
