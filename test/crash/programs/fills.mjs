/** Adds items until the store refuses one, telling of each; once its parent says so, tries again. */
import { open } from 'holdfast'

const [store] = process.argv.slice(2)
const tell = (message) => new Promise((told) => process.send(message, told))

const hf = await open(store, { agent: 'filler', logger: false }).catch(async (error) => {
  await tell({ type: 'refused', code: error.code, added: 0, message: error.message })
  process.exit()
})
const queue = hf.queue('q')
await addUntilRefused()

process.on('disconnect', () => process.exit())
process.once('message', addUntilRefused)

async function addUntilRefused() {
  const payload = 'x'.repeat(20_000)
  for (let added = 0; ; added++) {
    try {
      const { item } = await queue.add(payload)
      await tell({ type: 'added', item: item.id })
    } catch (error) {
      await tell({ type: 'refused', code: String(error.code), added, message: error.message })
      return
    }
  }
}
