import { useEffect, useState } from 'react'

/** useRested is a value once it has rested: what is typed is asked about when the typing stops. */
export function useRested<T>(value: T, patience = 400): T {
  const [rested, setRested] = useState(value)
  useEffect(() => {
    const timer = setTimeout(() => setRested(value), patience)
    return () => clearTimeout(timer)
  }, [value, patience])
  return rested
}
