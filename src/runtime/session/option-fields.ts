/** Options that only a program can give, and that no operation takes. */
import * as z from 'zod'

export const callable = z.custom<(...args: never[]) => unknown>((value) => typeof value === 'function', {
  error: 'must be a function',
})

export const signal = z.instanceof(AbortSignal, { error: 'must be an AbortSignal' }).optional()
