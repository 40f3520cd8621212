import { reservationPrefix } from '../../domain/reservation.ts'
import { lazily } from '../../lazily.ts'
import * as fields from '../fields.ts'

const maxSlots = 1000

export const processingPrefix = 'queue:'
/** A processing lock belongs to its queue. Only reads and an operator's forced actions reach it by name. */
const ownName = lazily(() =>
  fields.name.refine((name) => !name.startsWith(processingPrefix), {
    error: 'names beginning with "queue:" are processing locks; use the methods of their queue',
  }),
)
export const lockName = lazily(() => ownName().describe('Name of the lock.'))
export const newName = lazily(() =>
  ownName().refine((name) => !name.startsWith(reservationPrefix), {
    error: 'names beginning with "paths:" are reservations; use reserve()',
  }),
)
export const slotCount = lazily(() => fields.whole(1, maxSlots))
