/** Turns the figures of many rounds into a row, and rows into a table. */
import { median, spread } from './statistics.mjs'

/** Ratios are taken per round: both sides of a round ran in the same minute on the same machine. */
export function summarise({ id, what, unit, goal, ours, theirs, skipped, pick = median }, { isSmoke }) {
  const head = { id, what, unit, goal: goal.text }
  if (skipped) return { ...head, ours: null, theirs: null, ratio: null, met: null, spread: null, skipped }
  const ratios = theirs?.map((other, round) => ours[round] / other)
  const row = {
    ours: pick(ours),
    theirs: theirs ? pick(theirs) : null,
    ratio: ratios ? median(ratios) : null,
  }
  return {
    ...head,
    ...row,
    met: isSmoke ? null : goal.isMet(row[goal.of]),
    spread: {
      ours: spread(ours),
      theirs: theirs ? spread(theirs) : null,
      ratio: ratios ? spread(ratios) : null,
    },
  }
}

const columns = ['id', 'ours', 'theirs', 'ratio', 'goal', 'met', 'what']

export function formatTable(rows) {
  const lines = [columns, ...rows.map(cells)]
  const widths = columns.map((_, column) => Math.max(...lines.map((line) => line[column].length)))
  return lines
    .map((line) =>
      line
        .map((cell, column) => cell.padEnd(widths[column]))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

/** For a page that explains elsewhere what each row measures. */
export function formatMarkdown(rows) {
  const lines = [columns, columns.map(() => '---'), ...rows.map(cells)]
  return lines.map((line) => `| ${line.slice(0, -1).join(' | ')} |`).join('\n')
}

function cells({ id, what, ours, theirs, ratio, goal, met, unit, spread: between, skipped }) {
  if (skipped) return [id, 'skipped', '', '', goal, '', `${what} (${skipped})`]
  return [
    id,
    withSpread(ours, between.ours, ` ${unit}`),
    withSpread(theirs, between.theirs, ` ${unit}`),
    withSpread(ratio, between.ratio, '×'),
    goal,
    verdict(met),
    what,
  ]
}

function verdict(met) {
  if (met === null) return ''
  return met ? 'yes' : 'NO'
}

function withSpread(value, between, unit) {
  return value === null ? '' : `${format(value)}${unit.trimEnd()} (${between.map(format).join('–')})`
}

/** Three significant digits. */
function format(value) {
  if (value >= 100) return Math.round(value).toLocaleString('en')
  return value.toFixed(value >= 10 ? 1 : 2)
}
