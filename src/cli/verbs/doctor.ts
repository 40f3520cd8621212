/** `holdfast doctor`. */
import { isHoldfastError } from '../../errors.ts'
import type { DoctorVisit } from '../../handle/fleet.ts'
import type { DoctorReport } from '../../operations/fleet/doctor.ts'
import { given } from '../../runtime/session/input.ts'
import { type Drawing, line, lines } from '../drawing.ts'
import { type Call, verb } from '../verb.ts'
import type { View } from '../view.ts'
import { freedText, linesOption } from './healing-text.ts'

export const doctor = verb({
  operation: 'fleet.doctor',
  options: [
    { flags: '--fix', description: 'first reclaim what has lapsed and what dead holders held' },
    { ...linesOption, description: 'with --json: a line for each finding, then one for the whole' },
  ],
  help: 'Exit code 10: the store cannot be relied on. Warnings alone exit with 0.',
  async act(call) {
    const visit = await visited(call)
    if (!call.isJson || call.options.lines !== true) return visit
    for (const finding of visit.findings) call.emit('', finding)
    return { ...visit, findings: [] }
  },
  text: ({ findings, fixed }, view) =>
    lines([
      ...(fixed === null ? [] : [`fixed: freed ${freedText(fixed)}`]),
      ...findings.map((finding) => findingText(finding, Math.max(...findings.map(nameLength)), view)),
    ]),
  exit: ({ healthy }) => (healthy ? 0 : 10),
})

/** A store that cannot be opened is a finding too. */
async function visited(call: Call<'fleet.doctor'>): Promise<DoctorVisit> {
  try {
    const hf = await call.open()
    return await hf.fleet.doctor({ ...given(call.input), fix: call.options.fix === true })
  } catch (error) {
    if (!isHoldfastError(error)) throw error
    const finding = {
      check: 'store',
      level: 'error',
      what: error.what,
      remedy: error.next,
      isFixable: false,
    } as const
    return { healthy: false, findings: [finding], fixed: null }
  }
}

function nameLength({ check }: { readonly check: string }): number {
  return check.length
}

function findingText(
  { check, level, what, remedy, isFixable }: DoctorReport['findings'][number],
  width: number,
  view: View,
): Drawing {
  const { colors } = view
  const marks = {
    ok: colors.green('ok     '),
    notice: colors.dim('notice '),
    warning: colors.yellow('warning'),
    error: colors.red('error  '),
  }
  const fixable = isFixable ? ' (or run doctor --fix)' : ''
  const found = line`${marks[level]}  ${check.padEnd(width)}  ${what}`
  if (remedy === null) return found
  return lines([found, line`${' '.repeat(width + 11)}${colors.dim(`${remedy}${fixable}`)}`])
}
