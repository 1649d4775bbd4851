/** RowButton is an action in a row: as small as the row, and named for those who cannot see which row it is in. */
export function RowButton({ label, text, onClick }: { label: string; text: string; onClick: () => void }) {
  return (
    <button type="button" aria-label={label} onClick={onClick} className="rounded px-1.5 py-0.5 text-xs font-medium text-accent hover:underline">
      {text}
    </button>
  )
}
