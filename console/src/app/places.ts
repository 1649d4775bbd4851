import { useQuery } from '@tanstack/react-query'
import { labQuery } from '../features/lab/lab'
import { features } from './registry'
import { useMay } from './session'

/** usePlaces is the entries of the navigation that whoever is signed in has a use for, in their order. */
export function usePlaces() {
  const may = useMay()
  const lab = useQuery({ ...labQuery, enabled: may('site:manage') })
  return features.flatMap(({ nav }) => (nav && (!nav.needs || may(nav.needs)) && (!nav.lab || !!lab.data) ? [nav] : []))
}
